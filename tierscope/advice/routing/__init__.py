"""How an endpoint is routed: the policies it could use, compared on its own requests."""
