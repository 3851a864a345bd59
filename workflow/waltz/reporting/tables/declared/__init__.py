"""Declarations of all tables, one module per topic."""
