"""Items of a benchmark, read from finished raw files, or built from candidates that passed the
filters.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from waltz.benchmark.balance import BalanceLimits, find_lowest_cap, select_balanced
from waltz.benchmark.votes import count_votes, read_annotations
from waltz.core.schema import FilteredRecord, ItemRecord, PairRecord
from waltz.sources.formats.pairs import read_pairs, read_release

Rows = list[dict[str, Any]]

NOT_SELECTED = "balancing: not chosen"
"""Reason of rejection of a candidate that passed the filters but was not selected by balancing."""
VOTE_COLUMNS = ("votes_caption", "votes_foil", "votes_other", "valid")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceSettings:
    """Hold the settings by which a study balances the candidates of one instrument.

    Attributes:
        size: As in `BalanceLimits`, like all other attributes.
        cap: The limit, or `even` for the lowest cap that still reaches the size.
        foil_cap: The limit, or `even`.
    """

    size: int | None = None
    js: float | None = None
    cap: int | Literal["even"] | None = None
    foil_cap: int | Literal["even"] | None = None
    halves: bool = False


def build_balance_limits(
    settings: BalanceSettings, rows: Sequence[PairRecord]
) -> BalanceLimits:
    """Return the limits of a selection, in which a number replaces a cap `even`."""
    size = settings.size
    return BalanceLimits(
        size=size,
        js=settings.js,
        cap=_compute_cap(settings.cap, rows, "caption", size),
        foil_cap=_compute_cap(settings.foil_cap, rows, "foil", size),
        halves=settings.halves,
    )


def _compute_cap(
    cap: int | str | None,
    rows: Sequence[PairRecord],
    text_role: str,
    size: int | None,
) -> int | None:
    if not isinstance(cap, str):
        return cap
    # The cap is "even". Without a size, it must allow every candidate.
    return find_lowest_cap(rows, text_role, len(rows) if size is None else size)


def select_candidates(
    candidates: Sequence[FilteredRecord], settings: BalanceSettings, seed: int
) -> list[FilteredRecord]:
    """Balance the candidates of one instrument, and mark the candidates that become items.

    Args:
        candidates: Candidates after the filters.
        seed: Seed of the order in which equally good candidates are preferred.
    Returns:
        All candidates; `kept` is true for items, and `rejected` says why any other candidate is not
        an item.
    """
    filtered = [candidate for candidate in candidates if candidate.kept]
    selected_ids = select_balanced(
        filtered, build_balance_limits(settings, filtered), seed
    )
    marked = []
    for candidate in candidates:
        if candidate.kept and candidate.item_id not in selected_ids:
            candidate = replace(candidate, kept=False, rejected=NOT_SELECTED)
        marked.append(candidate)
    return marked


def build_items(
    candidates: Iterable[FilteredRecord],
    votes: Mapping[str, Mapping[str, Any]],
    voter: str | None,
) -> list[ItemRecord]:
    """Return the items of the selected candidates.

    Args:
        candidates: Candidates after balancing.
        votes: votes_caption, votes_foil, votes_other and valid by item id.
        voter: `people` or `oracle`; None where nobody voted.
    """
    items = []
    for candidate in candidates:
        if not candidate.kept:
            continue
        columns = {
            field.name: getattr(candidate, field.name) for field in fields(candidate)
        }
        if candidate.item_id in votes:
            item_votes = votes[candidate.item_id]
            columns |= {name: item_votes[name] for name in VOTE_COLUMNS}
            columns["voter"] = voter
        items.append(ItemRecord(**columns))
    return items
