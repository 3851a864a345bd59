"""Files: atomic writes, Parquet, archives and the cache of results."""
