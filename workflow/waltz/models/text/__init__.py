"""Language models without images: causal, masked, and classifiers."""
