"""The hook inside a vLLM engine: one record an admission, published for the exporter of the node."""

__version__ = "0.1.0"
