# a
