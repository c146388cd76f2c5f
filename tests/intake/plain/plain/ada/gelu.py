# top
