"""Reproduction of the released benchmark: the foiling functions on the inputs of its items."""
