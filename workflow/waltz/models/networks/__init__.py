"""Architectures that transformers lacks, written anew in plain PyTorch."""
