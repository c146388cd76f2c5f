# second
