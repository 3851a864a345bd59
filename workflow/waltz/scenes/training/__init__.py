"""Small models of real architectures, trained on scenes from scratch."""

MODELS = ("masked-lm", "acceptability", "nli", "causal-lm", "clip", "matcher", "llava")
"""Those that serve in the workflow."""
STARTS = {"matcher": "clip", "llava": "clip"}
"""What a model takes its vision tower from."""
