"""The oracle that decides the truth of a text about a scene."""
