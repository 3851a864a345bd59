"""High discrepancy: the text of an image against that of another one, from captions or from questions with answers.

The text of a question is question, answer and a full stop. The other text is drawn at random, so it can be true of the
image by chance; only the texts of the image itself are excluded.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

from waltz.core.errors import UserError
from waltz.core.sampling import rank, sample
from waltz.evaluation.metrics.scored_pairs import ALIGNMENT
from waltz.sources.published_samples import select_published_ids

Row = Mapping[str, Any]

NO_OTHER_TEXT = "no other image has another text"
MOST_DRAWS = 100
"""Random draws before all candidates are listed."""


def get_text(row: Row) -> str | None:
    """Return the text that describes a row's image: its caption, or question, answer and full stop; None without one.

    Args:
        row: A row of the layout `CAPTIONS` or `QUESTIONS`.
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
        name: Name of the data set.
        rows: All rows of a source, of the layout `CAPTIONS` or `QUESTIONS`, in file order.
        n: Number of items; None takes one for each image.
        seed: Seed of items and foils. An item's foil depends on its id, the seed and the source, not on n.
        choice: One of `sources.published_samples.PUBLISHED`, to take the rows of the published runs (all usable ones of
            the first n drawn). Otherwise one row per image is taken, and n of these by seeded rank.
    Returns:
        Rows of the benchmark layout, and the rows that cannot be used, counted by reason.
    Raises:
        UserError: Fewer than n images have a text, or nothing gives an item.
    """
    unusable: Counter[str] = Counter()
    texts: dict[str, str] = {}
    for row in rows:
        text = get_text(row)
        if row["rejected"] is not None or text is None:
            unusable[row["rejected"] or "the answer is withheld"] += 1
        else:
            texts[row["source_id"]] = text
    usable = {row["source_id"]: row for row in rows if row["source_id"] in texts}
    if choice is not None:
        ids = [source_id for source_id in select_published_ids(choice, rows, n) if source_id in usable]
    else:
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
