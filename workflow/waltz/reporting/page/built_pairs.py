"""First screen of a study that builds pairs and has no results of models: what was built of each
kind, what was lost and why, what nobody has checked, and the next commands.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from waltz.benchmark.items import NOT_SELECTED
from waltz.benchmark.statistics import NOT_VALID, NOT_VOTED, measure_telling_words
from waltz.core.measure import Measure
from waltz.core.schema import FunnelRecord, ItemRecord
from waltz.instruments import INSTRUMENTS
from waltz.plan.built_study import PREFIX
from waltz.reporting.page.examples import Example

MOST_REASONS = 4
"""Largest number of reasons for lost candidates that a row shows."""
MOST_PAIRS = 10
"""Largest number of pairs that are shown."""
REASONS = {
    NOT_SELECTED: "not chosen: only some pairs of a caption are taken; balancing, where it is on, omits others",
    NOT_VALID: "found wrong by people",
}
"""Words for reasons that only a reader of the code understands."""
FILTERS = {
    "grammaticality": "whether a foil is grammatical",
    "contradiction": "whether it contradicts its caption",
}
"""Words for what a filter judges."""


@dataclass(frozen=True)
class BuiltKind:
    """Pairs of one kind of foil.

    Attributes:
        name: Name of the instrument.
        piece: Linguistic phenomenon that it tests.
        n_candidates: Number of candidates.
        n_pairs: Number of pairs that were chosen.
        n_valid: Number of pairs that people found valid; None if nobody voted.
        told_by_words: Percentage of pairs whose caption the exchanged words tell from the foil.
        losses: Reasons with their numbers of lost candidates, the largest first.
    """

    name: str
    piece: str
    n_candidates: int
    n_pairs: int
    n_valid: int | None
    told_by_words: Measure
    losses: Sequence[tuple[str, int]]


@dataclass(frozen=True)
class BuiltPairs:
    """Contents of the first screen.

    Attributes:
        kinds: Pairs of each kind of foil.
        heading: Main sentence.
        unchecked: Sentences about what nothing has checked.
        commands: What a next command does, and the command.
    """

    kinds: Sequence[BuiltKind]
    heading: str
    unchecked: Sequence[str]
    commands: Sequence[tuple[str, str]]


def describe_built_pairs(
    study: str,
    funnel: Sequence[FunnelRecord],
    items: Mapping[str, Sequence[ItemRecord]],
    filters: Mapping[str, Sequence[str]],
) -> BuiltPairs:
    """Return what the first screen says of the pairs that a study built.

    Args:
        study: Name of the study.
        funnel: Numbers of candidates after each step, by instrument and step.
        items: Items of each instrument.
        filters: Filters that judged the candidates of each instrument.
    """
    kinds, counts = [], []
    n_pairs = 0
    for name, members in items.items():
        rows = [row for row in funnel if row.instrument == name]
        kind = _describe_kind(name, rows, members)
        kinds.append(kind)
        counts.append(f"{kind.n_pairs:,} of {name}")
        n_pairs += kind.n_pairs
    heading = (
        f"{n_pairs:,} pairs of a caption and a foil were built: {', '.join(counts)}."
    )
    return BuiltPairs(
        kinds, heading, _list_unchecked(kinds, filters), _list_commands(study, kinds)
    )


def choose_shown_pairs(pairs: Sequence[Example]) -> list[Example]:
    """Return the pairs of the first screen: of each kind of foil in turn, with different images."""
    chosen: list[Example] = []
    images = set()
    # Pairs of one position stand together, so that kinds take turns.
    for pair in sorted(pairs, key=lambda pair: pair["position"]):
        if pair["image"] is None or pair["image"] not in images:
            images.add(pair["image"])
            chosen.append(pair)
    return chosen[:MOST_PAIRS]


def _describe_kind(
    name: str, rows: Sequence[FunnelRecord], items: Sequence[ItemRecord]
) -> BuiltKind:
    counts: dict[str, int] = {}
    losses: Counter[str] = Counter()
    for row in rows:
        counts[row.step] = row.count
        for loss in row.lost:
            losses[REASONS.get(loss.reason, loss.reason)] += loss.count
    # Pairs that wait for votes are not lost.
    n_waiting = losses.pop(NOT_VOTED, 0)
    shown = losses.most_common(MOST_REASONS)
    n_others = losses.total() - Counter(dict(shown)).total()
    if n_others:
        shown.append(("for other reasons", n_others))
    n_valid: int | None = counts["valid"]
    if n_waiting == len(items):
        n_valid = None
    return BuiltKind(
        name=name,
        piece=INSTRUMENTS[name].piece,
        n_candidates=counts["candidates"],
        n_pairs=counts["balanced"],
        n_valid=n_valid,
        told_by_words=measure_telling_words(items),
        losses=shown,
    )


def _list_unchecked(
    kinds: Sequence[BuiltKind], filters: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return sentences about what no rule, model or person has checked."""
    sentences = ["The rules that make foils read the caption alone, never the image."]
    absent = []
    for name, words in FILTERS.items():
        if any(name not in names for names in filters.values()):
            absent.append(words)
    if absent:
        sentences.append(f"No model judged {' or '.join(absent)}.")
    # Pairs of some kinds may have votes already.
    if any(kind.n_valid is None for kind in kinds):
        sentences.append(
            "Nobody has looked yet whether captions are true of their images, and foils false."
        )
    return sentences


def _list_commands(study: str, kinds: Iterable[BuiltKind]) -> list[tuple[str, str]]:
    """Return the next commands of a study of `waltz build`, whose file lies in config/."""
    results = f"results/{study}"
    commands: list[tuple[str, str]] = []
    # The file of any other study may lie elsewhere, so that its name says nothing to a command.
    if not study.startswith(PREFIX):
        return commands
    for kind in kinds:
        if kind.n_pairs and kind.n_valid is None:
            items = f"{results}/benchmark/{kind.name}.parquet"
            command = f"waltz people export --items {items} --platform label-studio --folder {results}/people"
            commands.append((f"Let people judge {kind.name}", command))
    export = f"snakemake --cores all --config study={study} -- export"
    commands.append(("Export", export))
    evaluate = f"waltz eval --model ID_OR_FOLDER --on {study}"
    commands.append(("Evaluate a model", evaluate))
    return commands
