"""ViLBERT and 12-in-1 in plain PyTorch, for the original checkpoint files."""
