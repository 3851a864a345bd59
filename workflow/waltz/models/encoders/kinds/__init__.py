"""Kinds of encoders: a function `load_KIND(spec, device)` each, listed in `model_registry.ENCODER_MODULES`."""
