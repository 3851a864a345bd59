"""How much vision, and how much text, does a vision-language model use? The library behind the
workflow.
"""

import importlib
from typing import Any

__all__ = [
    "Explainer",
    "FunctionModel",
    "UserError",
    "__version__",
    "summarize_cc_shap",
]
__version__ = "0.1.0"

LAZY_NAMES = {
    "Explainer": "waltz.explainer.explainer",
    "FunctionModel": "waltz.models.encoders.kinds.function",
    "UserError": "waltz.core.errors",
    "summarize_cc_shap": "waltz.explainer.cc_shap_summary",
}
"""Modules of the names that are imported at their first use, because torch and transformers take
seconds to import.

Since they are not imported here, the digests of rules do not include what they import.
`__init__.pyi` has their types.
"""


def __getattr__(name: str) -> Any:
    """Return a name of `LAZY_NAMES`, and import its module at the first use."""
    if name in LAZY_NAMES:
        return getattr(importlib.import_module(LAZY_NAMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
