"""Shapley values: what an estimate holds, and the estimators."""
