"""The only door to DuckDB: append batches, read windows back as arrays."""
