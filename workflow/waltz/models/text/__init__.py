"""Models of text alone: causal, masked, and classifiers."""
