"""Stage `sources`: raw files that are fetched, checked, and read in the formats of their
publishers.
"""
