"""Stage `evaluation`: one score per item and role, and the metrics over them."""
