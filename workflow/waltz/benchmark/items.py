"""Raw files that hold finished items, as benchmarks."""

from typing import Any

from waltz.benchmark.votes import count_votes, read_annotations
from waltz.sources.formats.pairs import read_pairs
from waltz.sources.formats.valse import read_release

Rows = list[dict[str, Any]]


def read_items(
    path: str, *, form: str, dataset: str, source: str, annotations: str | None, valid_votes: int
) -> tuple[Rows, list[dict[str, str]]]:
    """Items of a raw file, with the votes that annotations give them.

    Args:
        path: The raw file.
        form: `valse-release` or `pairs`.
        dataset: Name of the data set; for the release, its instrument.
        source: Name of the source in the study.
        annotations: CSV of single annotations, or None.
        valid_votes: Votes for the caption that make an item valid.
    Returns:
        Rows of the benchmark layout, rows of the annotations layout.
    Raises:
        UserError: Either file has a fault.
    """
    items = read_release(path, dataset, valid_votes) if form == "valse-release" else read_pairs(path, dataset, source)
    if annotations is None:
        return items, []
    answers = read_annotations(annotations, (item["item_id"] for item in items))
    votes = count_votes(answers, valid_votes)
    return [{**item, **votes.get(item["item_id"], {})} for item in items], answers
