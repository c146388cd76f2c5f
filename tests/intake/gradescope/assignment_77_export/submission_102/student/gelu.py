# pair
