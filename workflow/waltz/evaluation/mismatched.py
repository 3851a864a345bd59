"""High discrepancy: the text of an image beside that of another one, from captions or from questions with answers.

The text of a question is question, answer and a full stop. The other text is drawn at random, so that now and then it
is true of the image by chance; only texts that the image itself has are left out.
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

NO_OTHER = "no other image has another text"
DRAWS = 100
"""Draws after which what can be drawn is listed."""


def text_of(row: Row) -> str | None:
    """The text that describes a row's image: its caption, or question, answer and full stop; None without an answer.

    Args:
        row: A row of the layout `CAPTIONS` or `QUESTIONS`.
    Source:
        The scripts of MM-SHAP (thesis 4.4.1).
    """
    if "caption" in row:
        return str(row["caption"])
    return f"{row['question']} {row['answer']}." if row["answer"] is not None else None


def mismatched_items(
    name: str, rows: Sequence[Row], n: int | None, seed: int, choice: str | None = None
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Items whose caption is the text of an image and whose foil that of another image.

    Args:
        name: Name of the data set.
        rows: All rows of a source, of the layout `CAPTIONS` or `QUESTIONS`, in file order.
        n: How many items; None takes one of each image.
        seed: Seed of items and foils. An item's foil hangs on its id, the seed and the source, not on n.
        choice: One of `sources.selection.PUBLISHED`, to take the rows of the published runs (all usable ones of the
            first n drawn). Otherwise one row an image is taken, and n of these by seeded rank.
    Returns:
        Rows of the benchmark layout, and the rows that cannot be used, counted by reason.
    Raises:
        UserError: Fewer than n images have a text, or nothing gives an item.
    """
    unusable: Counter[str] = Counter()
    texts: dict[str, str] = {}
    for row in rows:
        text = text_of(row)
        if row["rejected"] is not None or text is None:
            unusable[row["rejected"] or "the answer is withheld"] += 1
        else:
            texts[row["source_id"]] = text
    usable = {row["source_id"]: row for row in rows if row["source_id"] in texts}
    if choice is not None:
        ids = [source_id for source_id in select_published_ids(choice, rows, n) if source_id in usable]
    else:
        ids = _one_an_image(name, usable.values(), n, seed)
    own: dict[str, set[str]] = {}
    for source_id, row in usable.items():
        own.setdefault(row["image"], set()).add(_plain(texts[source_id]))
    pool = list(usable)
    items = []
    for source_id in ids:
        row = usable[source_id]
        item_id = f"{name}:{source_id}"
        other = _other(pool, texts, own[row["image"]], Random(f"{seed}:{item_id}"))
        if other is None:
            unusable[NO_OTHER] += 1
        else:
            items.append(_item(item_id, name, row, texts[source_id], texts[other]))
    if not items:
        raise UserError(f"alignment.{name}: none of {len(rows)} rows gives an item: {dict(unusable.most_common(3))}")
    return items, unusable


def _one_an_image(name: str, rows: Iterable[Row], n: int | None, seed: int) -> list[str]:
    """Ids of n rows, at most one an image, in file order."""
    first: dict[str, Row] = {}
    for row in rows:
        known = first.setdefault(row["image"], row)
        if rank(row["source_id"], seed) < rank(known["source_id"], seed):
            first[row["image"]] = row
    if n is not None and n > len(first):
        raise UserError(f"alignment.{name}.size: {n} items asked for, {len(first)} images have a text; ask for fewer")
    return sample([row["source_id"] for row in first.values()], n, seed)


def _other(pool: Sequence[str], texts: Mapping[str, str], own: set[str], rng: Random) -> str | None:
    """Id of a random row whose text is none of the image's own, of which its rows' texts are a part."""
    for _ in range(DRAWS):
        drawn = rng.choice(pool)
        if _plain(texts[drawn]) not in own:
            return drawn
    left = [source_id for source_id in pool if _plain(texts[source_id]) not in own]
    return rng.choice(left) if left else None


def _plain(text: str) -> str:
    """A text as it is compared: without case and extra blanks."""
    return " ".join(text.casefold().split())


def _item(item_id: str, name: str, row: Row, caption: str, foil: str) -> dict[str, Any]:
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
