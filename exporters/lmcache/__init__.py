"""LMCache: metrics page and status of the multiprocess server."""
