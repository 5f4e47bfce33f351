"""Sizing and routing advice as one document. Pure: no clock, no file, no socket."""
