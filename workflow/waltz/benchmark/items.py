"""Items of a benchmark: read from finished raw files, or built from candidates that passed the filters."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from waltz.benchmark.balance import BalanceLimits, find_lowest_cap, select_balanced
from waltz.benchmark.votes import count_votes, read_annotations
from waltz.core.schema import BENCHMARK
from waltz.sources.formats.pairs import read_pairs, read_release

Rows = list[dict[str, Any]]

NOT_SELECTED = "balancing: not chosen"
"""Reason why a candidate that passed the filters is not an item."""

NO_VOTES = {"voter": None, "votes_caption": None, "votes_foil": None, "votes_other": None, "valid": None}
"""Vote columns of an item on which nobody voted."""


def read_items(
    path: str, *, form: str, dataset: str, source: str, annotations: str | None, valid_votes: int
) -> tuple[Rows, list[dict[str, str]]]:
    """Read the items of a raw file with the votes that its annotations give them, and the annotations.

    Args:
        form: `valse-release` or `pairs`.
        dataset: Name of the data set; for the release, its instrument.
        annotations: CSV of single annotations, or None.
        valid_votes: Votes for the caption that make an item valid.
    """
    items = read_release(path, dataset, valid_votes) if form == "valse-release" else read_pairs(path, dataset, source)
    if annotations is None:
        return items, []
    answers = read_annotations(annotations, (item["item_id"] for item in items))
    votes = count_votes(answers, valid_votes)
    return [{**item, **votes.get(item["item_id"], {})} for item in items], answers


def build_balance_limits(settings: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> BalanceLimits:
    """Return the limits that a study's entry of an instrument sets for the selection among candidates.

    A cap given as `even` becomes the lowest cap that still reaches the size.
    """
    size = settings.get("size")

    def compute_cap(name: str, side: str) -> int | None:
        cap: int | str | None = settings.get(name)
        if isinstance(cap, str):  # "even"
            return find_lowest_cap(rows, side, len(rows) if size is None else size)
        return cap

    return BalanceLimits(
        size=size,
        js=settings.get("js"),
        cap=compute_cap("cap", "caption"),
        foil_cap=compute_cap("foil_cap", "foil"),
        halves=settings.get("halves", False),
    )


def select_candidates(rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], seed: int) -> Rows:
    """Balance the candidates of one instrument and mark those that become items.

    Args:
        rows: Rows of the filtered layout.
        settings: The instrument's entry in the study.
        seed: Seed of the order in which equally good candidates are preferred.
    Returns:
        All rows; `kept` is true for the items, and `rejected` says why the other rows are none.
    """
    candidates = [row for row in rows if row["kept"]]
    selected_ids = select_balanced(candidates, build_balance_limits(settings, candidates), seed)
    return [
        {**row, "kept": False, "rejected": NOT_SELECTED}
        if row["kept"] and row["item_id"] not in selected_ids
        else dict(row)
        for row in rows
    ]


def build_items(rows: Iterable[Mapping[str, Any]], votes: Mapping[str, Mapping[str, Any]], voter: str | None) -> Rows:
    """Return rows of the benchmark layout for the selected candidates.

    Args:
        rows: Rows of the filtered layout after balancing.
        votes: votes_caption, votes_foil, votes_other and valid by item id.
        voter: `people` or `oracle`; None where nobody voted.
    """
    items = []
    for row in rows:
        if row["kept"]:
            vote_columns = {**votes[row["item_id"]], "voter": voter} if row["item_id"] in votes else NO_VOTES
            values = {**row, **vote_columns, "release": None}
            items.append({name: values[name] for name in BENCHMARK.schema.names})
    return items
