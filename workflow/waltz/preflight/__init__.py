"""Checks before a study runs: what it fetches, models without their weights, and the machine."""
