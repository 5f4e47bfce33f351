"""The HTTP API: an app factory and thin routes."""
