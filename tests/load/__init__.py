"""A hundred engines' worth of traffic, what runs under it, and what that costs."""
