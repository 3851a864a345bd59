"""Checks before a study runs: files that it fetches, models without the values of their weights,
and the machine.
"""
