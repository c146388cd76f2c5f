# b
