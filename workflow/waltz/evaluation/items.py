"""Items that are scored: those of a benchmark, and pairs of an image's text with that of another image.

The text of a question is question, answer and a full stop. The text of another image is drawn at random, so it can be
true of the image by chance; only the texts of the image itself are excluded. The published draws exclude nothing.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from waltz.core.errors import UserError
from waltz.core.sampling import rank, sample
from waltz.evaluation.settings import ALIGNMENT, MISMATCHED
from waltz.sources.published_samples import (
    PUBLISHED_SAMPLES,
    draw_foils_for_decoders,
    draw_items_and_foils_for_encoders,
    select_published_ids,
)

Row = Mapping[str, Any]
NO_OTHER_TEXT = "no other image has another text"
MOST_DRAWS = 100
"""Random draws before all candidates are listed."""


def select_items(benchmark: pa.Table, items: str, n: int | None, seed: int) -> pa.Table:
    """Return the items to score, in the order of the file.

    Args:
        benchmark: Rows of the benchmark layout.
        items: `valid` takes items that annotators found valid and items without votes, `all` takes all.
        n: Size of the sample, or None for all; a smaller data set is taken as a whole.
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


def get_text(row: Row) -> str | None:
    """Return the text that describes a row's image: its caption, or question, answer and full stop; None without one.

    Args:
        row: A row of the layout `CAPTIONS`, `QUESTIONS` or `BENCHMARK`.
    Source:
        The scripts of MM-SHAP (thesis 4.4.1).
    """
    if "caption" in row:
        return str(row["caption"])
    return f"{row['question']} {row['answer']}." if row["answer"] is not None else None


def build_mismatched_items(
    name: str, rows: Sequence[Row], n: int | None, seed: int, choice: str | None = None
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Build items whose caption is the text of an image and whose foil is the text of another image.

    Args:
        rows: All rows of a source, of the layout `CAPTIONS`, `QUESTIONS` or `BENCHMARK`, in file order.
        n: Number of items; None takes one for each image, or all of a published draw.
        seed: Seed of items and foils. An item's foil depends on its id, the seed and the source, not on n.
        choice: `mscoco-encoders`, `mscoco-decoders`, `vqa-encoders` or `gqa-encoders`, to take items and foils of the
            published runs (`build_published_items`). Otherwise one row per image is taken, and n of these by seeded
            rank.
    Returns:
        Rows of the benchmark layout, and the rows that cannot be used, counted by reason.
    Raises:
        UserError: Fewer than n images have a text, or nothing gives an item.
    """
    if choice is not None:
        return build_published_items(name, rows, n, choice)
    usable, texts, unusable = _list_texts_by_id(rows)
    ids = _select_one_per_image(name, usable.values(), n, seed)
    texts_of_image: dict[str, set[str]] = {}
    for source_id, row in usable.items():
        texts_of_image.setdefault(row["image"], set()).add(_normalize(texts[source_id]))
    pool = list(usable)
    items = []
    for source_id in ids:
        row = usable[source_id]
        item_id = f"{name}:{source_id}"
        foil_id = _draw_other_text(pool, texts, texts_of_image[row["image"]], Random(f"{seed}:{item_id}"))
        if foil_id is None:
            unusable[NO_OTHER_TEXT] += 1
        else:
            items.append(_build_item(item_id, name, row, texts[source_id], texts[foil_id]))
    if not items:
        raise UserError(f"alignment.{name}: none of {len(rows)} rows gives an item: {dict(unusable.most_common(3))}")
    return items, unusable


def build_published_items(
    name: str, rows: Sequence[Row], n: int | None, choice: str
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Build the items of high discrepancy of the published runs, with their foils.

    MSCOCO is the captions of the released FOIL-it items, valid or not: all of them for encoders, the first n for
    decoders, whose items record in `release` the order of the two options. The foil is the text of an item drawn at
    random, which may be the item itself. VQA and GQA are the questions that the scripts for encoders drew.

    Args:
        rows: All rows of the source in file order, as in `build_mismatched_items`.
        n: Number of items, None for all of the published draw. Encoders' scripts draw a smaller number at random.
        choice: As in `build_mismatched_items`.
    Raises:
        UserError: There are fewer than n rows, or nothing gives an item.
    Source:
        The released scripts of MM-SHAP (00a66bf) and CC-SHAP-VLM (07f150d).
    """
    usable, texts, unusable = _list_texts_by_id(rows)
    if not usable:
        raise UserError(f"alignment.{name}: none of {len(rows)} rows gives an item: {dict(unusable.most_common(3))}")
    if n is not None and n > len(rows):
        raise UserError(f"alignment.{name}.size: {n} items asked for, {len(rows)} can be drawn; ask for fewer")
    records: list[str | None]
    if choice == "mscoco-decoders":
        ids = list(usable)[:n]
        drawn = draw_foils_for_decoders(list(usable), len(ids))
        foils = [foil for foil, _ in drawn]
        records = [json.dumps({"foil_from": foil, "caption_first": first}) for foil, first in drawn]
    else:
        pool = list(usable)
        if choice in PUBLISHED_SAMPLES:
            published = select_published_ids(choice, rows, min(PUBLISHED_SAMPLES[choice].n, len(rows)))
            pool = [row_id for row_id in published if row_id in usable]
        chosen, others = draw_items_and_foils_for_encoders(len(pool), n)
        ids, foils = [pool[index] for index in chosen], [pool[index] for index in others]
        records = [None] * len(ids)
    items = [
        {**_build_item(f"{name}:{own}", name, usable[own], texts[own], texts[foil]), "release": record}
        for own, foil, record in zip(ids, foils, records, strict=True)
    ]
    return items, unusable


def get_published_order(item: Row) -> bool | None:
    """Return whether a published run showed an item's caption as (A); None where the item does not record it."""
    if item["instrument"] != ALIGNMENT or not item.get("release"):
        return None
    return bool(json.loads(item["release"])["caption_first"])


def _list_texts_by_id(rows: Sequence[Row]) -> tuple[dict[str, Row], dict[str, str], Counter[str]]:
    """Return usable rows and their texts by id, in file order, and the number of other rows by reason."""
    unusable: Counter[str] = Counter()
    usable, texts = {}, {}
    for row in rows:
        text = get_text(row)
        if row["rejected"] is not None or text is None:
            unusable[row["rejected"] or "the answer is withheld"] += 1
        else:
            row_id = str(row.get("item_id", row["source_id"]))
            usable[row_id], texts[row_id] = row, text
    return usable, texts, unusable


def _select_one_per_image(name: str, rows: Iterable[Row], n: int | None, seed: int) -> list[str]:
    """Return the ids of n rows, at most one per image, in file order."""
    row_of_image: dict[str, Row] = {}
    for row in rows:
        selected = row_of_image.setdefault(row["image"], row)
        if rank(row["source_id"], seed) < rank(selected["source_id"], seed):
            row_of_image[row["image"]] = row
    if n is not None and n > len(row_of_image):
        raise UserError(
            f"alignment.{name}.size: {n} items asked for, {len(row_of_image)} images have a text; ask for fewer"
        )
    return sample([row["source_id"] for row in row_of_image.values()], n, seed)


def _draw_other_text(pool: Sequence[str], texts: Mapping[str, str], excluded: set[str], rng: Random) -> str | None:
    """Return the id of a random row whose text is not excluded; None where there is none."""
    for _ in range(MOST_DRAWS):
        source_id = rng.choice(pool)
        if _normalize(texts[source_id]) not in excluded:
            return source_id
    candidates = [source_id for source_id in pool if _normalize(texts[source_id]) not in excluded]
    return rng.choice(candidates) if candidates else None


def _normalize(text: str) -> str:
    """Return a text without case and extra whitespace."""
    return " ".join(text.casefold().split())


def _build_item(item_id: str, name: str, row: Row, caption: str, foil: str) -> dict[str, Any]:
    return {
        "item_id": item_id,
        "instrument": ALIGNMENT,
        "piece": name,
        "source": row["source"],
        "source_id": row["source_id"],
        "split": row["split"],
        "image": row["image"],
        "caption": caption,
        "foil": foil,
        "caption_phrases": [],
        "foil_phrases": [],
        "kept": True,
    }
