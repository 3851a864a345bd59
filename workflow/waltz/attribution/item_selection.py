"""Selection of the items to attribute."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from waltz.core.files import parquet
from waltz.core.sampling import sample
from waltz.core.schema import BENCHMARK, CONDITIONS, PROBE_CONDITIONS
from waltz.evaluation.items import select_items
from waltz.evaluation.prompting.questions import assign_orders
from waltz.evaluation.vqa import select_questions
from waltz.fidelity import get_fidelity

ATTRIBUTED_FORM, PUBLISHED_PROBES = "simplified", 50
"""Captions of CV-Probes that are attributed: 50 samples in the paper, each under four conditions."""


def select_attributed_items(
    file: str | Path, profile: str, scored: str, scored_sample: int | None, n: int | None, seed: int
) -> list[dict[str, Any]]:
    """Select the items of a data set to attribute.

    In `equations` a seeded sample of the items that are scored; in `published` the valid items among
    those that the released scripts draw. Of CV-Probes, in both, complete groups of simplified captions; in `published`
    as many as in the paper, unless the study says how many.

    Args:
        file: Parquet of the benchmark or of CV-Probes.
        scored: `valid` or `all`, as in `evaluation.items`.
        scored_sample: Size of the sample that is scored, or None.
        n: Size of the sample (groups, of CV-Probes), or None for all that are scored.
    """
    if "condition" in parquet.read_schema(file).names:
        default = PUBLISHED_PROBES if get_fidelity(profile).sampling == "released" else None
        return select_probes(parquet.read_rows(file, CONDITIONS), default if n is None else n, seed)
    benchmark = parquet.read(file, BENCHMARK)
    if get_fidelity(profile).sampling == "released":
        rows = benchmark.to_pylist()
        ids = select_published_sample([row["item_id"] for row in rows], [row["valid"] is not False for row in rows], n)
    else:
        rows = select_items(benchmark, scored, scored_sample, seed).to_pylist()
        ids = sample([row["item_id"] for row in rows], None if n is None else min(n, len(rows)), seed)
    items_by_id = {row["item_id"]: row for row in rows}
    return [items_by_id[item_id] for item_id in ids]


def select_probes(items: Sequence[Mapping[str, Any]], n: int | None, seed: int) -> list[dict[str, Any]]:
    """Return the rows of a seeded sample of groups, one per condition, so that all conditions have the same actions.

    A group (an image with an action) without one of the four conditions is not drawn; of several simplified
    captions of one condition the first is used.

    Args:
        items: Rows of CV-Probes in the order of its file; those that are not simplified are skipped.
        n: Number of groups, or None for all; all where there are fewer.
    """
    first: dict[tuple[str, str], Mapping[str, Any]] = {}
    for item in items:
        if item["form"] == ATTRIBUTED_FORM:
            first.setdefault((item["group"], item["condition"]), item)
    groups = dict.fromkeys(group for group, _ in first)
    complete_groups = [group for group in groups if all((group, condition) in first for condition in PROBE_CONDITIONS)]
    sampled_groups = sample(complete_groups, None if n is None else min(n, len(complete_groups)), seed)
    return [dict(first[group, condition]) for group in sampled_groups for condition in PROBE_CONDITIONS]


def select_attributed_questions(
    rows: Sequence[Mapping[str, Any]], dataset: str, entry: Mapping[str, Any], profile: str, n: int | None, seed: int
) -> list[dict[str, Any]]:
    """Select the questions whose answers by an encoder are attributed, among those that it answers.

    In `equations` a seeded sample; in `published` the first of the published draw, where the study uses that.

    Args:
        rows: All rows of a source, of the layout `QUESTIONS`, in file order.
        entry: The data set's entry: size and choice.
        n: Number of questions, or None for all that are answered.
    """
    questions, _ = select_questions(dataset, rows, entry["size"], seed, entry.get("choice"))
    if get_fidelity(profile).sampling == "released" and entry.get("choice"):
        return questions[:n]
    sampled_ids = set(
        sample([item["item_id"] for item in questions], None if n is None else min(n, len(questions)), seed)
    )
    return [item for item in questions if item["item_id"] in sampled_ids]


def select_decoder_items(
    file: str | Path, dataset: str, profile: str, scored: str, scored_sample: int | None, n: int | None, seed: int
) -> tuple[list[dict[str, Any]], dict[str, bool]]:
    """Select the items of a data set whose answers by a decoder are attributed, with the order of their captions.

    In `equations` those of encoders; in `published` the first valid items in file order, as the released scripts for
    decoders take them. Orders are those of the evaluated answers.

    Args:
        file: Parquet of the benchmark.
        scored: `valid` or `all`, as in `evaluation.items`.
        scored_sample: Size of the sample that is scored in `equations`, or None.
        n: Number of items, or None for all that are scored; 100 in the paper.
        seed: Seed of both samples and of the orders in `equations`.
    Returns:
        Rows of the benchmark, and whether the caption stands first, by item.
    """
    benchmark = parquet.read(file, BENCHMARK)
    orders = assign_orders(select_items(benchmark, scored, None, seed).to_pylist(), dataset, profile, seed)
    if get_fidelity(profile).sampling == "released":
        return select_items(benchmark, "valid", None, seed).to_pylist()[:n], orders
    return select_attributed_items(file, profile, scored, scored_sample, n, seed), orders


PUBLISHED_SEED = 1520


def select_published_sample(item_ids: Sequence[str], valid: Sequence[bool], n: int | None) -> list[str]:
    """Select the items that MM-SHAP's scripts for encoders attribute, in their order.

    They seed anew for each instrument, draw from all of its items and then skip those that annotators did not find
    valid, so that a draw of 100 gives fewer.

    Args:
        item_ids: All items of the instrument in the order of the released file.
        valid: Whether at least two annotators chose the caption.
        n: Number of items to draw; None, or a smaller instrument, means all.
    Source:
        MM-SHAP's released scripts at 00a66bf.
    """
    places: Sequence[int] = range(len(item_ids))
    if n is not None and n < len(item_ids):
        places = random.Random(PUBLISHED_SEED).sample(places, n)
    return [item_ids[place] for place in places if valid[place]]
