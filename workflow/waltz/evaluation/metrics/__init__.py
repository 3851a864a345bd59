"""Metrics over scored items, their intervals and paired comparisons of models."""
