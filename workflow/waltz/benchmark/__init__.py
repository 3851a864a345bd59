"""Stage `benchmark`: items with their votes, and what validation says about them."""
