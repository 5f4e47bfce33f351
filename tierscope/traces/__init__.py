"""Trace-file readers, one file a format."""
