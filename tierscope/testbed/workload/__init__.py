"""Where requests come from: the built-in sessions, or a recorded trace."""
