"""Small models of real architectures, trained on scenes from scratch."""

MODELS = ("masked-lm", "acceptability", "nli", "causal-lm", "clip", "matcher", "llava")
"""Models that the workflow uses."""
STARTS = {"matcher": "clip", "llava": "clip"}
"""Model whose vision tower another model starts from."""
