"""Small models of real architectures, trained on scenes from scratch."""
