"""What some instruments need beside the rows of their source."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from waltz.core.text import Span
from waltz.foils.proposals import Proposal, Slot

Propose = Callable[[Sequence[Slot]], Mapping[Slot, Sequence[Proposal]]]
"""The best spans for each slot, best first."""
Fit = Callable[[Mapping[Slot, Sequence[str]]], Mapping[Slot, Sequence[Proposal]]]
"""The words given for each slot, best first."""


@dataclass(frozen=True)
class Needs:
    """Models and limits.

    Attributes:
        propose: A masked language model on free spans, for relations.
        fit: A masked language model on given words, for action replacement.
        tokens: Number of word pieces of a text, where the study limits them.
        most_tokens: That limit.
        best: How many verbs a masked language model may propose for a caption.
    """

    propose: Propose | None = None
    fit: Fit | None = None
    tokens: Callable[[str], int] | None = None
    most_tokens: int | None = None
    best: int = 10


def place(text: str, span: Span) -> Slot:
    """A span of a text as the place that a model fills."""
    return Slot(text, span["start"], span["end"])
