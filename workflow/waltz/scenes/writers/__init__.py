"""Scenes in the file formats of the real data sets, one module a format."""
