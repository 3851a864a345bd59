"""Validation by people: task files for annotation platforms, and the answers from these platforms."""
