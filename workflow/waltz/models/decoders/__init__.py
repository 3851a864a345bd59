"""Decoders: language models that answer and explain, with or without an image."""
