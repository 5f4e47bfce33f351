"""Samples to Prometheus pages; request records to OTLP spans."""
