"""Scenes drawn as images."""
