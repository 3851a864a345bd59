"""Findings about the measures: the numbers and figures of two pages of the documentation."""
