# again
