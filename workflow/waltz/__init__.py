"""How much vision, and how much text, does a vision-language model use? The library behind the workflow."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from waltz.one_sample import explain

__all__ = ["explain"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`explain`, imported when it is first asked for, because torch and transformers take seconds."""
    if name == "explain":
        from waltz.one_sample import explain

        return explain
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
