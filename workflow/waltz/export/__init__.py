"""Stage export: a benchmark as a Hugging Face data set with Croissant metadata, and in VALSE's own
layout.
"""
