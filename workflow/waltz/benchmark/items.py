"""Items of a benchmark, read from finished raw files, or built from candidates that passed the
filters.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from waltz.benchmark.balance import BalanceLimits, find_lowest_cap, select_balanced
from waltz.benchmark.votes import count_votes, read_annotations
from waltz.core.schema import BENCHMARK
from waltz.sources.formats.pairs import read_pairs, read_release

Rows = list[dict[str, Any]]

NOT_SELECTED = "balancing: not chosen"
"""Reason of rejection of a candidate that passed the filters but was not selected by balancing."""

NO_VOTES = {
    "voter": None,
    "votes_caption": None,
    "votes_foil": None,
    "votes_other": None,
    "valid": None,
}
"""Values of the vote columns for an item on which nobody voted."""


def read_items(
    path: str,
    *,
    form: str,
    dataset: str,
    source: str,
    annotations: str | None,
    valid_votes: int,
) -> tuple[Rows, list[dict[str, str]], Counter[str]]:
    """Read the items of a raw file, and count the votes of its annotations on them.

    Args:
        form: `valse-release` or `pairs`.
        dataset: Name of the data set; for the release, its instrument.
        annotations: CSV of single annotations, or None.
        valid_votes: Number of votes for the caption that makes an item valid.
    Returns:
        The items with their votes, the annotations of these items, and the number of unusable rows
        by reason.
    """
    is_release = form == "valse-release"
    rows = (
        read_release(path, dataset, valid_votes)
        if is_release
        else read_pairs(path, dataset, source)
    )
    items = [row for row in rows if row["kept"]]
    unusable = Counter(row["rejected"] for row in rows if not row["kept"])
    if annotations is None:
        return items, [], unusable

    # Annotations may name unusable rows, too; their answers do not count.
    item_ids = {item["item_id"] for item in items}
    all_answers = read_annotations(annotations, [row["item_id"] for row in rows])
    answers = [answer for answer in all_answers if answer["item_id"] in item_ids]
    votes = count_votes(answers, valid_votes)
    voted_items = [{**item, **votes.get(item["item_id"], {})} for item in items]
    return voted_items, answers, unusable


def build_balance_limits(
    settings: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> BalanceLimits:
    """Return the limits of the selection that a study sets for one instrument.

    The cap `even` becomes the lowest cap that still reaches the size.
    """
    size = settings.get("size")
    return BalanceLimits(
        size=size,
        js=settings.get("js"),
        cap=_compute_cap(settings.get("cap"), rows, "caption", size),
        foil_cap=_compute_cap(settings.get("foil_cap"), rows, "foil", size),
        halves=settings.get("halves", False),
    )


def _compute_cap(
    cap: int | str | None,
    rows: Sequence[Mapping[str, Any]],
    text_role: str,
    size: int | None,
) -> int | None:
    if not isinstance(cap, str):
        return cap
    # Without a size, the cap must allow every candidate.
    # "even".
    return find_lowest_cap(rows, text_role, len(rows) if size is None else size)


def select_candidates(
    rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], seed: int
) -> Rows:
    """Balance the candidates of one instrument, and mark the candidates that become items.

    Args:
        rows: Rows of the filtered layout.
        settings: The instrument's entry in the study.
        seed: Seed of the order in which equally good candidates are preferred.
    Returns:
        All rows; `kept` is true for items, and `rejected` says why any other row is not an item.
    """
    candidates = [row for row in rows if row["kept"]]
    selected_ids = select_balanced(
        candidates, build_balance_limits(settings, candidates), seed
    )
    marked_rows = []
    for row in rows:
        marked_row = dict(row)
        if row["kept"] and row["item_id"] not in selected_ids:
            marked_row["kept"] = False
            marked_row["rejected"] = NOT_SELECTED
        marked_rows.append(marked_row)
    return marked_rows


def build_items(
    rows: Iterable[Mapping[str, Any]],
    votes: Mapping[str, Mapping[str, Any]],
    voter: str | None,
) -> Rows:
    """Return the items of the selected candidates as rows of the benchmark layout.

    Args:
        rows: Rows of the filtered layout after balancing.
        votes: votes_caption, votes_foil, votes_other and valid by item id.
        voter: `people` or `oracle`; None where nobody voted.
    """
    items = []
    for row in rows:
        if not row["kept"]:
            continue
        vote_columns: Mapping[str, Any] = NO_VOTES
        if row["item_id"] in votes:
            vote_columns = {**votes[row["item_id"]], "voter": voter}
        # Only released items have columns of the release; columns of the filters are dropped.
        values = {**row, **vote_columns, "release": None}
        items.append({name: values[name] for name in BENCHMARK.schema.names})
    return items
