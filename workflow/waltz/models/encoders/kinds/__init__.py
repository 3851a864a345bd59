"""Kinds of encoders: one module each with `load(spec, device)`, found by its name."""
