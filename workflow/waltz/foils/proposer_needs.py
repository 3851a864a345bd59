"""What some instruments need beside the rows of their source."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from waltz.core.text_diff import Span


@dataclass(frozen=True, order=True)
class Slot:
    """A place in a text that is to be filled.

    Attributes:
        text: The text.
        start: First character that is replaced.
        end: Character after the last that is replaced.
    """

    text: str
    start: int
    end: int

    def masked(self, mask: str, masks: int) -> str:
        """The text with that many masks in the slot, blanks between them."""
        return self.text[: self.start] + " ".join([mask] * masks) + self.text[self.end :]


@dataclass(frozen=True)
class Proposal:
    """What a model puts into a slot.

    Attributes:
        phrase: The filling as text. It begins with the vocabulary's mark of a word's continuation ("##")
            where it does not begin a word.
        pieces: Its tokens.
        score: Mean score of the tokens, higher is better.
        rank: Place among the proposals of as many tokens for this slot, or among the given words; from 0.
    """

    phrase: str
    pieces: tuple[str, ...]
    score: float
    rank: int


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
