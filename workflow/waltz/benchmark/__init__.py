"""Stage `benchmark`: the selection of items, the votes of people on them, and statistics of the
validation.
"""
