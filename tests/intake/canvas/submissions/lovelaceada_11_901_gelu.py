# first
