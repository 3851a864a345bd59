"""Items of a benchmark, read from finished raw files, or built from candidates that passed the
filters.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from waltz.benchmark.balance import BalanceLimits, select_balanced
from waltz.benchmark.votes import ItemVotes, count_votes, read_annotations
from waltz.core.records import extend_record
from waltz.core.schema import AnnotationRecord, FilteredRecord, ItemRecord
from waltz.sources.formats.pairs import read_pairs, read_release

NOT_SELECTED = "balancing: not chosen"
"""Reason of rejection of a candidate that passed the filters but was not selected by balancing."""


def read_benchmark_items(
    path: str,
    *,
    form: str,
    dataset: str,
    source: str,
    annotations: str | None,
    valid_votes: int,
    columns: Mapping[str, str] | None = None,
) -> tuple[list[ItemRecord], list[AnnotationRecord], Counter[str]]:
    """Read the items of a raw file, and count the votes of its annotations on them.

    Args:
        form: `valse-release` or `pairs`.
        dataset: Name of the data set; for the release, its instrument.
        annotations: CSV of single annotations, or None.
        valid_votes: Number of votes for the caption that makes an item valid.
        columns: Columns of a file of pairs that have other names, as `read_pairs` takes them.
    Returns:
        The items with their votes, the annotations of these items, and the number of unusable items
        by reason.
    """
    if form == "valse-release":
        all_items = read_release(path, dataset, valid_votes)
    else:
        all_items = read_pairs(path, dataset, source, columns)
    items: dict[str, ItemRecord] = {}
    unusable: Counter[str] = Counter()
    for item in all_items:
        if item.rejected is None:
            items[item.item_id] = item
        else:
            unusable[item.rejected] += 1
    if annotations is None:
        return list(items.values()), [], unusable

    # Annotations may name unusable items, too; their answers do not count.
    all_answers = read_annotations(annotations, [item.item_id for item in all_items])
    answers = [answer for answer in all_answers if answer.item_id in items]
    for item_id, votes in count_votes(answers, valid_votes).items():
        items[item_id] = _add_votes(items[item_id], votes, voter=None)
    return list(items.values()), answers, unusable


def _add_votes(item: ItemRecord, votes: ItemVotes, voter: str | None) -> ItemRecord:
    """Return an item with its votes."""
    return replace(
        item,
        voter=voter,
        votes_caption=votes.caption,
        votes_foil=votes.foil,
        votes_other=votes.other,
        valid=votes.valid,
    )


def select_candidates(
    candidates: Sequence[FilteredRecord], limits: BalanceLimits, seed: int
) -> list[FilteredRecord]:
    """Balance the candidates of one instrument, and mark the candidates that become items.

    Args:
        candidates: Candidates after the filters.
        limits: Limits of the instrument.
        seed: Seed of the order in which equally good candidates are preferred.
    Returns:
        All candidates; `kept` is true for items, and `rejected` says why any other candidate is not
        an item.
    """
    filtered = [candidate for candidate in candidates if candidate.kept]
    selected_ids = select_balanced(filtered, limits, seed)
    marked = []
    for candidate in candidates:
        if candidate.kept and candidate.item_id not in selected_ids:
            candidate = replace(candidate, kept=False, rejected=NOT_SELECTED)
        marked.append(candidate)
    return marked


def build_items(
    candidates: Iterable[FilteredRecord],
    votes: Mapping[str, ItemVotes],
    voter: str | None,
) -> list[ItemRecord]:
    """Return the items of the selected candidates.

    Args:
        candidates: Candidates after balancing.
        votes: The votes by item id.
        voter: `people` or `oracle`; None where nobody voted.
    """
    items = []
    for candidate in candidates:
        if not candidate.kept:
            continue
        item = extend_record(candidate, ItemRecord)
        if item.item_id in votes:
            item = _add_votes(item, votes[item.item_id], voter)
        items.append(item)
    return items
