"""Scenes as graphs: kinds, places, relations, and random sampling."""
