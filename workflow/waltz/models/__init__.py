"""Models: encoders, decoders, language models and the networks that transformers lacks."""
