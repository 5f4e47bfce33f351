"""Curvine: master metrics and JSON."""
