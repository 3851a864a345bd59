"""Stage consistency: whether a model's explanations agree with its answers."""
