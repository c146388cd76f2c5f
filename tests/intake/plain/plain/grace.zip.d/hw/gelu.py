# zipped
