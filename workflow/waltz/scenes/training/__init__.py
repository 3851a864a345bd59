"""Small models of real architectures, trained on scenes from scratch."""

MODELS = ("masked-lm", "acceptability", "nli", "causal-lm", "clip", "matcher", "llava")
"""Those that serve in the workflow."""
TOWER = "tower"
"""The half-trained CLIP that `clip` starts from."""
STARTS = {"clip": TOWER, "matcher": "clip", "llava": "clip"}
"""What a model goes on from, or takes its vision tower from."""
