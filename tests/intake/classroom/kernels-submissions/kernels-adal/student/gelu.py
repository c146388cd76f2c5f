# ada
