"""Stage `sources`: raw files, fetched, checked and read in their upstream formats."""
