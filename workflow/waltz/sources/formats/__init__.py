"""Readers of the raw formats, one module for each format or family of formats."""
