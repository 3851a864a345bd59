"""Which answers of decoders are attributed."""

from pathlib import Path
from typing import Any

from waltz.attribution.chosen import to_attribute
from waltz.core import parquet
from waltz.core.schema import BENCHMARK
from waltz.evaluation.decoders import orders_of
from waltz.evaluation.items import select


def answers_to_attribute(
    file: str | Path, dataset: str, profile: str, scored: str, scored_sample: int | None, n: int | None, seed: int
) -> tuple[list[dict[str, Any]], dict[str, bool]]:
    """The items of a data set whose answers by a decoder are attributed, and which of their captions are (A).

    In `equations` those of encoders; in `published` the first valid items in file order, as the released scripts for
    decoders take them. Orders are those of the evaluated answers.

    Args:
        file: Parquet of the benchmark.
        dataset: Name of the data set in the study.
        profile: `published` or `equations`.
        scored: `valid` or `all`, as in `evaluation.items`.
        scored_sample: Size of the sample that is scored in `equations`, or None.
        n: Number of items, or None for all that are scored; 100 in print.
        seed: Seed of both samples and of the orders in `equations`.
    Returns:
        Rows of the benchmark, and whether the caption stands first, by item.
    """
    benchmark = parquet.read(file, BENCHMARK)
    orders = orders_of(select(benchmark, scored, None, seed).to_pylist(), dataset, profile, seed)
    if profile == "published":
        return select(benchmark, "valid", None, seed).to_pylist()[:n], orders
    return to_attribute(file, profile, scored, scored_sample, n, seed), orders
