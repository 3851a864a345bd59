"""Which items of a benchmark are scored, and with which texts."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from waltz.core.errors import UserError
from waltz.core.sampling import sample
from waltz.evaluation.metrics.scored_pairs import ALIGNMENT, MISMATCHED


def select(benchmark: pa.Table, items: str, n: int | None, seed: int) -> pa.Table:
    """The items to score, in the order of the file.

    Args:
        benchmark: Rows of the benchmark layout.
        items: `valid` takes what people found valid and what nobody voted on, `all` takes everything.
        n: Size of the sample, or None for all; a smaller data set is taken whole.
        seed: Seed of the sample.
    Raises:
        UserError: Nothing is left.
    """
    chosen = benchmark
    if items == "valid":
        chosen = benchmark.filter(pc.fill_null(benchmark.column("valid"), True))
    if not chosen.num_rows:
        raise UserError(f"{benchmark.num_rows} items, none of them valid: set evaluation.items to `all`")
    ids = chosen.column("item_id").to_pylist()
    picked = sample(ids, None if n is None else min(n, len(ids)), seed)
    return chosen.filter(pc.is_in(chosen.column("item_id"), pa.array(picked, pa.string())))


def texts(item: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Roles and texts of a benchmark item; a row of CV-Probes has a caption alone."""
    if "condition" in item:
        return [("caption", item["caption"])]
    foil = MISMATCHED if item["instrument"] == ALIGNMENT else "foil"
    return [("caption", item["caption"]), (foil, item["foil"])]
