"""How much vision, and how much text, does a vision-language model use? The library behind the workflow."""

import importlib
from typing import Any

__all__ = ["Explainer", "UserError", "__version__"]
__version__ = "0.1.0"

LAZY_NAMES = {"Explainer": "waltz.explainer.explainer", "UserError": "waltz.core.errors"}
"""Modules of names that are imported at their first use: torch and transformers take seconds.

They are not imported here, so that no rule's digest includes what they import; their types are in `__init__.pyi`.
"""


def __getattr__(name: str) -> Any:
    """Import a lazy name."""
    if name in LAZY_NAMES:
        return getattr(importlib.import_module(LAZY_NAMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
