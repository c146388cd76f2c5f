# ada 2
