"""Subcommands of `waltz`, one module each."""
