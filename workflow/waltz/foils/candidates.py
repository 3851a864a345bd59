"""Candidates of an instrument (pairs of a caption and a foil), and the tools that build them from
source rows.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import repeat
from pathlib import Path
from typing import TypeVar

from waltz.core.errors import CONTROL_TOKEN, ItemError, UserError
from waltz.core.files import parquet
from waltz.core.records import get_layout, read_records
from waltz.core.schema import CandidateRecord, StoredSpan
from waltz.core.text_diff import Span, find_changed_spans
from waltz.foils.invariants import find_broken_invariant, fold_case
from waltz.instruments import INSTRUMENTS
from waltz.sources.records import (
    CaptionRecord,
    FoilPairRecord,
    FrameRecord,
    QuestionRecord,
    TurnRecord,
)


@dataclass(frozen=True)
class Candidate:
    """A caption and its foil, a false text that differs from the caption in one position.

    Attributes:
        caption: The true text, as an item shows it.
        foil: The false text.
        caption_span: Characters of the caption that the foil replaces.
        foil_span: Characters of the foil that replace them.
        caption_phrases: Lower-cased phrases of the caption that are exchanged; balancing compares
            their frequencies.
        foil_phrases: The phrases that replace them in the foil.
        direction: Kind of exchange within its instrument ("sg2pl", "yes2no").
        proposal_rank: Rank among a model's proposals for this span, from 0; None without a model.
        proposal_score: Score that the proposing model gives, higher is better; None without a
            model.
        rejected: Reason why the rules of the instrument cannot use the candidate; None where they
            can.
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
    """The reason why a source row gives no candidate.

    Attributes:
        reason: The reason, in the same words for every row with this reason, so that rows can be
            counted by it.
    """

    reason: str


Outcome = Candidate | Refusal
Row = CaptionRecord | QuestionRecord | FrameRecord | TurnRecord | FoilPairRecord
"""Row of a source with images."""
AnyRow = TypeVar("AnyRow", bound=Row)
ROW_TYPES: tuple[type[Row], ...] = (
    CaptionRecord,
    QuestionRecord,
    FrameRecord,
    TurnRecord,
    FoilPairRecord,
)
WITH_CAPTION = (CaptionRecord, TurnRecord, FoilPairRecord)
"""Rows that have a true caption of their image."""
SourceOutcomes = Iterator[tuple[Row, Outcome]]
"""Pairs of a source row and one of its candidates, or a refusal; a row comes once for each of its
candidates.
"""


@dataclass(frozen=True, order=True)
class Slot:
    """A range of characters of a text, from `start` up to `end`, that a masked language model
    fills.
    """

    text: str
    start: int
    end: int

    def mask(self, mask_token: str, count: int) -> str:
        """Return the text with `count` mask tokens in the slot, separated by spaces."""
        return (
            self.text[: self.start]
            + " ".join([mask_token] * count)
            + self.text[self.end :]
        )


@dataclass(frozen=True)
class Proposal:
    """A text that a masked language model proposes for a slot.

    Attributes:
        phrase: The proposed text. Where it does not begin a word, it begins with the sign of the
            vocabulary for the continuation of a word ("##").
        pieces: The tokens of the text.
        score: Mean score of the tokens; higher is better.
        rank: Rank, from 0, among the proposals for this slot with as many tokens, or among the
            candidate words.
    """

    phrase: str
    pieces: tuple[str, ...]
    score: float
    rank: int


ProposeSpans = Callable[[Sequence[Slot]], Mapping[Slot, Sequence[Proposal]]]
"""Function that returns the proposed spans of each slot, best first."""
RankWords = Callable[[Mapping[Slot, Sequence[str]]], Mapping[Slot, Sequence[Proposal]]]
"""Function that ranks the candidate words of each slot, best first."""

ScoreTexts = Callable[[Sequence[str]], Mapping[str, float]]
"""Function that returns a score of each text; higher is better."""


@dataclass(frozen=True)
class MakerOptions:
    """The models and limits that a study gives to the code that builds an instrument.

    Attributes:
        propose_spans: A masked language model on free spans, for relations.
        rank_words: A masked language model on candidate words, for action replacement.
        score_texts: A causal language model: the mean log-likelihood per token of each text, for
            relations.
        count_tokens: Returns the number of word pieces of a text; raises an `ItemError` where the
            model cannot read the text.
        most_tokens: Highest number of word pieces of a caption; None for no limit.
        most_verbs: Highest number of verbs that a masked language model proposes for a caption.
    """

    propose_spans: ProposeSpans | None = None
    rank_words: RankWords | None = None
    score_texts: ScoreTexts | None = None
    count_tokens: Callable[[str], int] | None = None
    most_tokens: int | None = None
    most_verbs: int = 10


TOO_LONG = "the caption has more tokens than the study allows"


def read_source_rows(path: str | Path) -> list[Row]:
    """Read the rows of a source; the columns of the file show which kind of row it has."""
    names = parquet.read_schema(path).names
    for row_type in ROW_TYPES:
        # Files of earlier versions have the same columns in another order.
        if sorted(get_layout(row_type).schema.names) == sorted(names):
            return list(read_records(path, row_type))
    raise UserError(
        f"{path}: no instrument can be built from rows with the columns {', '.join(names)}; name another source"
    )


def split_readable(
    rows: Sequence[CaptionRecord], options: MakerOptions
) -> tuple[list[CaptionRecord], list[tuple[CaptionRecord, Refusal]]]:
    """Return the rows whose captions the model of the study can read, and the other rows, each with
    its refusal.
    """
    readable: list[CaptionRecord] = []
    refused: list[tuple[CaptionRecord, Refusal]] = []
    for row in rows:
        refusal = check_readable(row.caption, options.count_tokens, options.most_tokens)
        if refusal is None:
            readable.append(row)
        else:
            refused.append((row, refusal))
    return readable, refused


def check_readable(
    caption: str,
    count_tokens: Callable[[str], int] | None,
    most_tokens: int | None = None,
) -> Refusal | None:
    """Return a refusal where a model cannot read a caption, which is too long or has a control
    token; else None.

    Args:
        count_tokens: As in `MakerOptions`; None where no model reads the caption.
        most_tokens: Highest number of word pieces; None for no limit.
    """
    if count_tokens is None:
        return None
    try:
        n_tokens = count_tokens(caption)
    except ItemError:
        return Refusal(CONTROL_TOKEN)
    if most_tokens is not None and n_tokens > most_tokens:
        return Refusal(TOO_LONG)
    return None


def select_type(rows: Iterable[Row], row_type: type[AnyRow]) -> list[AnyRow]:
    """Return the rows of one class; a source has rows of one class."""
    return [row for row in rows if isinstance(row, row_type)]


def select_usable(outcomes: Iterable[Outcome]) -> list[Candidate]:
    """Return the candidates that the rules of the instrument do not reject."""
    usable: list[Candidate] = []
    for outcome in outcomes:
        if isinstance(outcome, Candidate) and outcome.rejected is None:
            usable.append(outcome)
    return usable


def attach_row(row: Row, outcomes: Iterable[Outcome]) -> SourceOutcomes:
    """Yield outcomes, each with the source row from which they are built."""
    yield from zip(repeat(row), outcomes)


def refuse_broken_pairs(
    outcomes: Iterable[Outcome],
    source_text: str | None,
    other_captions: Collection[str] = (),
) -> Iterator[Outcome]:
    """Yield outcomes, but a refusal for each usable candidate that breaks an invariant of pairs.

    Args:
        source_text: The true text from which the candidates are built; None where there is none.
        other_captions: The true texts of the image, as `invariants.fold_case` folds them.
    """
    for outcome in outcomes:
        reason = None
        if isinstance(outcome, Candidate) and outcome.rejected is None:
            reason = find_broken_invariant(
                outcome.caption, outcome.foil, source_text, other_captions
            )
        if reason is None:
            yield outcome
        else:
            yield Refusal(reason)


def build_candidate(
    caption: str,
    foil: str,
    caption_phrase: str | tuple[str, ...],
    foil_phrase: str | tuple[str, ...],
    direction: str,
) -> Candidate:
    """Return a candidate with the spans in which the two texts differ."""
    caption_span, foil_span = find_changed_spans(caption, foil)
    return Candidate(
        caption,
        foil,
        caption_span,
        foil_span,
        _lower_phrases(caption_phrase),
        _lower_phrases(foil_phrase),
        direction,
    )


def _lower_phrases(phrases: str | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(phrases, str):
        return (phrases.lower(),)
    return tuple(map(str.lower, phrases))


def replace_span(text: str, span: Span, replacement: str) -> tuple[str, Span]:
    """Return a text with the characters of a span replaced, and the span of the replacement."""
    start, end = span["start"], span["end"]
    return text[:start] + replacement + text[end:], Span(
        start=start, end=start + len(replacement)
    )


def select_splits(
    rows: Sequence[AnyRow], splits: Sequence[str] | None, instrument: str
) -> Sequence[AnyRow]:
    """Return the source rows of the splits that a study sets for an instrument; all rows where it
    sets no splits.
    """
    if splits is None:
        return rows
    source_splits = {str(row.split) for row in rows}
    for split in splits:
        if split not in source_splits:
            raise UserError(
                f"study file: instruments.{instrument}.splits: the source has no split {split!r};"
                f" it has {', '.join(sorted(source_splits))}"
            )
    return [row for row in rows if row.split in splits]


def build_candidates(
    instrument: str, rows: Iterable[Row], options: MakerOptions
) -> SourceOutcomes:
    """Yield all candidates of an instrument, each with its source row, in the order of the rows.

    Refusals may come before the candidates.
    """
    usable_rows: list[Row] = []
    captions: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        if isinstance(row, WITH_CAPTION) and row.caption:
            captions[row.image].add(fold_case(row.caption))
        if row.rejected is None:
            usable_rows.append(row)
        else:
            yield row, Refusal(f"the source's row: {row.rejected}")
    # Each instrument has a module of foils; only the module of this instrument is imported.
    maker = import_module(INSTRUMENTS[instrument].maker)
    for row, outcome in maker.build_candidates(usable_rows, options, instrument):
        source_text = row.caption if isinstance(row, WITH_CAPTION) else None
        known = captions.get(row.image or "", ())
        yield from attach_row(row, refuse_broken_pairs([outcome], source_text, known))


def build_candidate_records(
    outcomes: SourceOutcomes, instrument: str, refusals: "Counter[str]"
) -> Iterator[CandidateRecord]:
    """Yield records of candidates; a candidate that repeats an earlier candidate of its source row
    is dropped.

    Args:
        outcomes: Outcomes of `build_candidates`.
        refusals: Counter to which refused source rows are added by reason, while the rows are read.
    """
    numbers: Counter[str] = Counter()  # candidates of each source row so far
    for row, outcome in drop_duplicates(outcomes):
        if isinstance(outcome, Refusal):
            refusals[outcome.reason] += 1
            continue
        # The number makes the id unique among the candidates of the source row.
        number = numbers[row.source_id]
        yield build_candidate_record(outcome, row, number, instrument)
        numbers[row.source_id] += 1


def build_candidate_record(
    candidate: Candidate, row: Row, number: int, instrument: str
) -> CandidateRecord:
    """Return the record of a candidate; `number` is the index among the candidates of the source
    row, from 0.
    """
    return CandidateRecord(
        item_id=f"{instrument}:{row.source}:{row.source_id}:{number}",
        instrument=instrument,
        piece=INSTRUMENTS[instrument].piece,
        source=row.source,
        source_id=row.source_id,
        split=row.split,
        image=row.image,
        caption=candidate.caption,
        foil=candidate.foil,
        caption_span=StoredSpan(**candidate.caption_span),
        foil_span=StoredSpan(**candidate.foil_span),
        caption_phrases=candidate.caption_phrases,
        foil_phrases=candidate.foil_phrases,
        direction=candidate.direction,
        proposal_rank=candidate.proposal_rank,
        proposal_score=candidate.proposal_score,
        rejected=candidate.rejected,
    )


def drop_duplicates(outcomes: SourceOutcomes) -> SourceOutcomes:
    """Yield outcomes without the candidates whose texts repeat an earlier candidate of the same
    source row.
    """
    earlier: set[tuple[str, str, str]] = set()
    for row, outcome in outcomes:
        if isinstance(outcome, Refusal):
            yield row, outcome
            continue
        key = (row.source_id, outcome.caption, outcome.foil)
        if key not in earlier:
            earlier.add(key)
            yield row, outcome
