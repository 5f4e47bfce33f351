"""Codec and replayable stream between exporters and collectors."""
