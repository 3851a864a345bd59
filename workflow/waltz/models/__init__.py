"""Adapters between model families and the stages that ask them for scores."""
