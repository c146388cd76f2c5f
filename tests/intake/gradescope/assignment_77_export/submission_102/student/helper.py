# beside
