"""The pods of one node, and which engines and caches are in them."""
