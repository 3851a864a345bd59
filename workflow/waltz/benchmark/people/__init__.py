"""Validation by people: task files for annotation platforms, and the answers that come back."""
