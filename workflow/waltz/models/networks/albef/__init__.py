"""ALBEF (Li et al., NeurIPS 2021) in plain PyTorch, for the checkpoint files of its authors at any size."""
