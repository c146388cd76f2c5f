# ada 1
