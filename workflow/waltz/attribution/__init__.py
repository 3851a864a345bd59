"""Stage attribution: which text tokens and image patches a score comes from."""
