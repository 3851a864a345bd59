"""Models and limits that some instruments need in addition to the rows of their source."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from waltz.core.text_diff import Span

BEAM = 10
"""Hypotheses that a beam search continues from one token to the next."""


@dataclass(frozen=True, order=True)
class Slot:
    """A range of characters that a masked language model fills.

    Attributes:
        text: The text.
        start: First character that is replaced.
        end: Character after the last that is replaced.
    """

    text: str
    start: int
    end: int

    def mask(self, mask_token: str, count: int) -> str:
        """Return the text with that many mask tokens in the slot, with spaces between them."""
        return self.text[: self.start] + " ".join([mask_token] * count) + self.text[self.end :]


@dataclass(frozen=True)
class Proposal:
    """A filling that a model proposes for a slot.

    Attributes:
        phrase: The filling as text. It begins with the vocabulary's sign of a word's continuation ("##")
            where it does not begin a word.
        pieces: Its tokens.
        score: Mean score of the tokens, higher is better.
        rank: Rank among the proposals of as many tokens for this slot, or among the candidate words; from 0.
    """

    phrase: str
    pieces: tuple[str, ...]
    score: float
    rank: int


ProposeSpans = Callable[[Sequence[Slot]], Mapping[Slot, Sequence[Proposal]]]
"""Return the best spans for each slot, best first."""
RankWords = Callable[[Mapping[Slot, Sequence[str]]], Mapping[Slot, Sequence[Proposal]]]
"""Rank the candidate words of each slot, best first."""


@dataclass(frozen=True)
class MakerOptions:
    """Models and limits of a study for the code that builds an instrument.

    Attributes:
        propose_spans: A masked language model on free spans, for relations.
        rank_words: A masked language model on candidate words, for action replacement.
        count_tokens: Number of word pieces of a text, where the study limits them.
        most_tokens: That limit.
        most_verbs: Most verbs that a masked language model may propose for a caption.
    """

    propose_spans: ProposeSpans | None = None
    rank_words: RankWords | None = None
    count_tokens: Callable[[str], int] | None = None
    most_tokens: int | None = None
    most_verbs: int = 10


def build_slot(text: str, span: Span) -> Slot:
    """Return the slot of a span of a text."""
    return Slot(text, span["start"], span["end"])
