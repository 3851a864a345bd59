"""The tables, a module for what they are about."""
