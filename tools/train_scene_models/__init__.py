"""Small models of real architectures, trained on scenes from scratch: the models in
`resources/scenes/models`.
"""

MODELS = ("masked-lm", "acceptability", "nli", "causal-lm", "clip", "matcher", "llava")
"""All scene models."""
STARTS = {"matcher": "clip", "llava": "clip"}
"""Model whose vision tower another model starts from."""
