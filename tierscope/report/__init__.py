"""One page about an endpoint, for people: what it says is given to it, and it asks nobody."""
