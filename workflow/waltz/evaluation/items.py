"""Items of a benchmark that are scored, and their texts."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from waltz.core.errors import UserError
from waltz.core.sampling import sample
from waltz.evaluation.metrics.scored_pairs import ALIGNMENT, MISMATCHED


def select_items(benchmark: pa.Table, items: str, n: int | None, seed: int) -> pa.Table:
    """Return the items to score, in the order of the file.

    Args:
        benchmark: Rows of the benchmark layout.
        items: `valid` takes items that annotators found valid and items without votes, `all` takes all.
        n: Size of the sample, or None for all; a smaller data set is taken as a whole.
        seed: Seed of the sample.
    Raises:
        UserError: No item is left.
    """
    selected = benchmark
    if items == "valid":
        selected = benchmark.filter(pc.fill_null(benchmark.column("valid"), True))
    if not selected.num_rows:
        raise UserError(f"{benchmark.num_rows} items, none of them valid: set evaluation.items to `all`")
    ids = selected.column("item_id").to_pylist()
    sampled_ids = sample(ids, None if n is None else min(n, len(ids)), seed)
    return selected.filter(pc.is_in(selected.column("item_id"), pa.array(sampled_ids, pa.string())))


def list_texts(item: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return roles and texts of a benchmark item; a row of CV-Probes has only a caption."""
    if "condition" in item:
        return [("caption", item["caption"])]
    foil_role = MISMATCHED if item["instrument"] == ALIGNMENT else "foil"
    return [("caption", item["caption"]), (foil_role, item["foil"])]
