"""Kinds of encoders, each with a function `load_KIND(spec, device)` that
`model_registry.ENCODER_MODULES` lists.
"""
