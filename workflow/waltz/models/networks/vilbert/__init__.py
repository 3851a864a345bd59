"""ViLBERT and 12-in-1 in plain PyTorch, from the original checkpoint files."""
