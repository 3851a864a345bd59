"""The released benchmark made again: the foiling functions on the inputs of its items."""
