"""How much vision, and how much text, does a vision-language model use? The library behind the workflow."""

import importlib
from typing import Any

__version__ = "0.1.0"

LATER = {"explain": "waltz.explainer.encoder"}
"""Names that are imported when they are first asked for: torch and transformers take seconds. They are named here and
not imported, so that no rule's digest takes in what they stand on."""


def __getattr__(name: str) -> Any:
    """A name of `LATER`."""
    if name in LATER:
        return getattr(importlib.import_module(LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
