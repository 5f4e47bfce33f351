"""A store that several collectors write: DuckLake, with PostgreSQL's catalogue and Parquet files."""
