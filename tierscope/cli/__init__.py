"""The composition root: one file a command."""
