"""Candidates of an instrument, a caption with a foil each, and what building them from source rows needs."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import compress
from operator import not_
from typing import Any

from waltz.core.errors import UserError
from waltz.core.text_diff import Span, find_changed_spans
from waltz.instruments import INSTRUMENTS


@dataclass(frozen=True)
class Candidate:
    """A caption and a false text that differs from it in one place.

    Attributes:
        caption: The true text, as an item shows it.
        foil: The false text.
        caption_span: Characters of the caption that the foil replaces.
        foil_span: Characters of the foil that replace them.
        caption_phrases: Lower-cased words that were exchanged; their frequencies are balanced.
        foil_phrases: The words that replace them in the foil.
        direction: Kind of exchange within its instrument ("sg2pl", "yes2no").
        proposal_rank: Rank among a model's proposals for this span, from 0; None without a model.
        proposal_score: Score that the proposing model gives, higher is better; None without a model.
        rejected: Reason why the rules of the instrument cannot use it; None where they can.
    """

    caption: str
    foil: str
    caption_span: Span
    foil_span: Span
    caption_phrases: tuple[str, ...]
    foil_phrases: tuple[str, ...]
    direction: str
    proposal_rank: int | None = None
    proposal_score: float | None = None
    rejected: str | None = None


@dataclass(frozen=True)
class Refusal:
    """A source row that gives no candidate.

    Attributes:
        reason: Why, in the same words for every such row, so that reasons can be counted.
    """

    reason: str


Outcome = Candidate | Refusal
Row = Mapping[str, Any]
SourceOutcomes = Iterator[tuple[Row, Outcome]]
"""Source rows, each with one candidate or refusal; a row comes once for each of its candidates."""


@dataclass(frozen=True, order=True)
class Slot:
    """A range of characters of a text, from `start` up to `end`, that a masked language model fills."""

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
        count_tokens: Number of word pieces of a text, of which a caption may have `most_tokens`.
        most_verbs: Most verbs that a masked language model may propose for a caption.
    """

    propose_spans: ProposeSpans | None = None
    rank_words: RankWords | None = None
    count_tokens: Callable[[str], int] | None = None
    most_tokens: int | None = None
    most_verbs: int = 10


TOO_LONG = "the caption has more tokens than the study allows"


def split_by_length(rows: Sequence[Row], options: MakerOptions) -> tuple[list[Row], list[Row]]:
    """Return the rows whose captions have at most `options.most_tokens` word pieces, and the others."""
    limit, count = options.most_tokens, options.count_tokens
    if limit is None or count is None:
        return list(rows), []
    are_short = [count(row["caption"]) <= limit for row in rows]
    return list(compress(rows, are_short)), list(compress(rows, map(not_, are_short)))


def build_candidate(
    caption: str,
    foil: str,
    caption_phrase: str | tuple[str, ...],
    foil_phrase: str | tuple[str, ...],
    direction: str,
) -> Candidate:
    """Return a candidate whose spans are where the two texts differ."""
    caption_span, foil_span = find_changed_spans(caption, foil)
    return Candidate(caption, foil, caption_span, foil_span, _phrases(caption_phrase), _phrases(foil_phrase), direction)


def _phrases(phrases: str | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(phrase.lower() for phrase in ((phrases,) if isinstance(phrases, str) else phrases))


def replace_span(text: str, span: Span, replacement: str) -> tuple[str, Span]:
    """Return a text with the characters of a span replaced, and the span of the replacement."""
    start, end = span["start"], span["end"]
    return text[:start] + replacement + text[end:], Span(start=start, end=start + len(replacement))


def select_splits(rows: Sequence[Row], splits: Sequence[str] | None, instrument: str) -> Sequence[Row]:
    """Return the source rows of the splits that a study sets for an instrument; all where it sets none."""
    if splits is None:
        return rows
    source_splits = sorted({str(row["split"]) for row in rows})
    for split in splits:
        if split not in source_splits:
            raise UserError(
                f"study file: instruments.{instrument}.splits: the source has no split {split!r};"
                f" it has {', '.join(source_splits)}"
            )
    return [row for row in rows if row["split"] in splits]


def build_candidates(instrument: str, rows: Iterable[Row], options: MakerOptions) -> SourceOutcomes:
    """Yield all candidates of an instrument in the order of its source rows; refusals may come before them."""
    usable_rows: list[Row] = []
    for row in rows:
        if row["rejected"] is None:
            usable_rows.append(row)
        else:
            yield row, Refusal(f"the source's row: {row['rejected']}")
    maker = import_module(INSTRUMENTS[instrument].maker)
    yield from maker.build_candidates(usable_rows, options, instrument)


def build_candidate_rows(
    outcomes: SourceOutcomes, instrument: str, refusals: "Counter[str]"
) -> Iterator[dict[str, Any]]:
    """Yield rows of the candidates layout, without candidates that repeat an earlier one of the same source row.

    Args:
        outcomes: Outcomes of `build_candidates`.
        refusals: Counts refused source rows by reason while the rows are read.
    """
    numbers: Counter[str] = Counter()
    for row, outcome in drop_duplicates(outcomes):
        if isinstance(outcome, Refusal):
            refusals[outcome.reason] += 1
        else:
            yield build_candidate_row(outcome, row, numbers[row["source_id"]], instrument)
            numbers[row["source_id"]] += 1


def build_candidate_row(candidate: Candidate, row: Row, number: int, instrument: str) -> dict[str, Any]:
    """Return a row of the candidates layout; `number` is the index among the candidates of the source row, from 0."""
    return {
        **vars(candidate),
        "item_id": f"{instrument}:{row['source']}:{row['source_id']}:{number}",
        "instrument": instrument,
        "piece": INSTRUMENTS[instrument].piece,
        **{name: row[name] for name in ("source", "source_id", "split", "image")},
    }


def drop_duplicates(outcomes: SourceOutcomes) -> SourceOutcomes:
    """Yield outcomes without candidates that repeat an earlier one of the same row."""
    earlier: set[tuple[str, str, str]] = set()
    for row, outcome in outcomes:
        if isinstance(outcome, Candidate):
            key = (str(row["source_id"]), outcome.caption, outcome.foil)
            if key in earlier:
                continue
            earlier.add(key)
        yield row, outcome
