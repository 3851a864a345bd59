"""Readers of raw formats, one module per format."""
