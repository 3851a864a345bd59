"""Small models of real architectures, trained on scenes from scratch."""

MODELS = ("masked-lm", "acceptability", "nli", "causal-lm", "clip", "matcher", "llava")
"""Their names; `llava` is built on `clip`."""
