"""Files: atomic writes, Parquet, archives, downloads and the cache of results."""
