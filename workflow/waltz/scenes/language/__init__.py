"""Sentences about scenes: captions, questions, foils, and the grammar that reads them."""
