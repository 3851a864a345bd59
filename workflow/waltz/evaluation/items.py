"""Items that are scored: the items of a benchmark, and items that pair an image's text with the
text of another image.

The text of a question is question, answer and a full stop. The text of another image is drawn at
random, so it can be true of the image by chance; only the texts of the image itself are excluded.
The published draws exclude nothing.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from random import Random

from waltz.core.errors import UserError
from waltz.core.layout import Row
from waltz.core.sampling import rank, sample
from waltz.core.schema import ItemRecord, ProbeRecord
from waltz.core.text_diff import fold_text
from waltz.evaluation.settings import ALIGNMENT, MISMATCHED, WITHHELD
from waltz.sources.published_samples import (
    PUBLISHED_SAMPLES,
    draw_foils_for_decoders,
    draw_items_and_foils_for_encoders,
    select_published_ids,
)

NO_OTHER_TEXT = "no other image has another text"
MAX_DRAWS = 100
"""Number of random draws that are tried before all candidates are listed."""


def select_items(
    benchmark: Sequence[ItemRecord], scored: str, n: int | None, seed: int
) -> list[ItemRecord]:
    """Return the items that are scored, in the order of the file.

    Args:
        benchmark: All items of a data set.
        scored: `valid` takes items that annotators found valid and items without votes, `all` takes
            all items.
        n: Size of the sample, or None for all; a smaller data set is taken completely. Items of one
            group are drawn together, so that there may be one item less.
        seed: Seed of the sample.
    Raises:
        UserError: The data set has no items, or none is valid.
    """
    items = list(benchmark)
    if not items:
        raise UserError(
            "the data set has no items: filters or frequency balancing left none of its foils;"
            " take more captions, or allow another `js` or other `filters` of the instrument"
        )
    if scored == "valid":
        # An item without votes has None here, and counts as valid.
        items = [item for item in items if item.valid is not False]
    if not items:
        raise UserError(
            f"{len(benchmark)} items, none of them valid: set evaluation.items to `all`"
        )
    return _sample_groups(items, n, seed)


def _sample_groups(
    items: Sequence[ItemRecord], n: int | None, seed: int
) -> list[ItemRecord]:
    """Return a sample of at most n items, or of one group, that contains all items of a group or
    none; an item without a group is a group of its own.
    """
    ids_by_group: dict[str, list[str]] = defaultdict(list)
    for item in items:
        ids_by_group[item.group or item.item_id].append(item.item_id)

    sampled_ids: set[str] = set()
    for group in sorted(ids_by_group, key=lambda name: (rank(name, seed), name)):
        ids = ids_by_group[group]
        # The first group is taken even if it is larger than the sample.
        if sampled_ids and _exceeds(len(sampled_ids) + len(ids), n):
            break
        sampled_ids.update(ids)
    return [item for item in items if item.item_id in sampled_ids]


def _exceeds(n_items: int, limit: int | None) -> bool:
    return limit is not None and n_items > limit


def list_texts(item: ItemRecord | ProbeRecord) -> list[tuple[str, str]]:
    """Return the roles and texts of an item: caption and foil, or only a caption for an item of
    CV-Probes.
    """
    if isinstance(item, ProbeRecord):
        return [("caption", item.caption)]
    foil_role = MISMATCHED if item.instrument == ALIGNMENT else "foil"
    return [("caption", item.caption), (foil_role, item.foil)]


def get_text(row: Row) -> str | None:
    """Return the text that describes the image of a row: the caption, or question, answer and full
    stop.

    It is None if the answer is missing.

    Args:
        row: A row of the layout `CAPTIONS`, `QUESTIONS` or `BENCHMARK`.
    Source:
        The scripts of MM-SHAP (thesis 4.4.1).
    """
    if "caption" in row:
        return str(row["caption"])
    if row["answer"] is None:
        return None
    return f"{row['question']} {row['answer']}."


def build_mismatched_items(
    name: str, rows: Sequence[Row], n: int | None, seed: int, choice: str | None = None
) -> tuple[list[ItemRecord], Counter[str]]:
    """Build items whose caption is the text of an image and whose foil is the text of another
    image.

    Args:
        name: Name of the data set.
        rows: All rows of a source, of the layout `CAPTIONS`, `QUESTIONS` or `BENCHMARK`, in file
            order.
        n: Number of items; None takes one item for each image, or all items of a published draw.
        seed: Seed of items and foils. The foil of an item depends on its id, the seed and the
            source, not on n.
        choice: `mscoco-encoders`, `mscoco-decoders`, `vqa-encoders` or `gqa-encoders`, which take
            items and foils of the published runs (`build_published_items`). None takes one row for
            each image, and n of these by seeded rank.
    Returns:
        The items; and the number of rows that cannot be used, by reason.
    Raises:
        UserError: Fewer than n images have a text, or no row gives an item.
    """
    if choice is not None:
        return build_published_items(name, rows, n, choice)
    usable, texts, unusable = _list_texts_by_id(rows)
    ids = _select_one_per_image(name, usable.values(), n, seed)
    # All texts of an image may be true of it, so that none of them can be its foil.
    texts_of_image: dict[str, set[str]] = {}
    for source_id, row in usable.items():
        texts_of_image.setdefault(row["image"], set()).add(_normalize(texts[source_id]))
    # The foil may be the text of any usable row, even if the row is not selected as an item.
    pool = list(usable)
    items = []
    for source_id in ids:
        row = usable[source_id]
        item_id = f"{name}:{source_id}"
        foil_id = _draw_other_text(
            pool, texts, texts_of_image[row["image"]], Random(f"{seed}:{item_id}")
        )
        if foil_id is None:
            unusable[NO_OTHER_TEXT] += 1
        else:
            items.append(
                _build_item(item_id, name, row, texts[source_id], texts[foil_id])
            )
    if not items:
        raise _build_no_item_error(name, rows, unusable)
    return items, unusable


def _build_no_item_error(
    name: str, rows: Sequence[Row], unusable: Counter[str]
) -> UserError:
    reasons = dict(unusable.most_common(3))
    return UserError(
        f"alignment.{name}: none of {len(rows)} rows gives an item: {reasons}; name another source"
    )


def build_published_items(
    name: str, rows: Sequence[Row], n: int | None, choice: str
) -> tuple[list[ItemRecord], Counter[str]]:
    """Build the items of high discrepancy that the published runs used, with their foils.

    The items of MSCOCO are the captions of the released FOIL-it items, valid or not: all of them
    for encoders, the first n for decoders. Items for decoders record in `release` the order of the
    two options. The foil is the text of an item that is drawn at random, and may be the item
    itself. The items of VQA and GQA are the questions that the scripts for encoders drew.

    Args:
        name: Name of the data set.
        rows: All rows of the source in file order, as in `build_mismatched_items`.
        n: Number of items; None takes the whole published draw. The scripts for encoders draw a
            smaller number at random.
        choice: See `build_mismatched_items`.
    Raises:
        UserError: There are fewer than n rows, or no row gives an item.
    Source:
        The released scripts of MM-SHAP and CC-SHAP-VLM (`fidelity.RELEASED_CODE`).
    """
    usable, texts, unusable = _list_texts_by_id(rows)
    if not usable:
        raise _build_no_item_error(name, rows, unusable)
    if n is not None and n > len(rows):
        raise UserError(
            f"alignment.{name}.size: {n} items asked for, {len(rows)} can be drawn; ask for fewer"
        )
    if choice == "mscoco-decoders":
        draws = _draw_for_decoders(list(usable)[:n], list(usable))
    else:
        draws = _draw_for_encoders(_list_published_pool(usable, rows, choice), n)
    items = []
    for item_id, foil_id, release in draws:
        items.append(
            _build_item(
                f"{name}:{item_id}",
                name,
                usable[item_id],
                texts[item_id],
                texts[foil_id],
                release,
            )
        )
    return items, unusable


def _list_published_pool(
    usable: Mapping[str, Row], rows: Sequence[Row], choice: str
) -> list[str]:
    """Return the ids of the rows from which the published scripts for encoders drew."""
    if choice not in PUBLISHED_SAMPLES:
        return list(usable)
    size = min(PUBLISHED_SAMPLES[choice].n, len(rows))
    return [
        row_id
        for row_id in select_published_ids(choice, rows, size)
        if row_id in usable
    ]


def _draw_for_encoders(
    pool: Sequence[str], n: int | None
) -> list[tuple[str, str, str | None]]:
    """Return, for each item, its id, the id of its foil's row as the scripts for encoders drew it,
    and no record.
    """
    # One generator draws items and foils, in the order of the released script.
    chosen, foils = draw_items_and_foils_for_encoders(len(pool), n)
    return [
        (pool[index], pool[foil], None)
        for index, foil in zip(chosen, foils, strict=True)
    ]


def _draw_for_decoders(
    ids: Sequence[str], pool: Sequence[str]
) -> list[tuple[str, str, str | None]]:
    """Return, for each item, its id, the id of its foil's row as the scripts for decoders drew it,
    and a record.

    The record is JSON, with the foil's row and the order of the two options.
    """
    draws: list[tuple[str, str, str | None]] = []
    for item_id, (foil_id, caption_first) in zip(
        ids, draw_foils_for_decoders(pool, len(ids)), strict=True
    ):
        release = json.dumps({"foil_from": foil_id, "caption_first": caption_first})
        draws.append((item_id, foil_id, release))
    return draws


def get_published_order(item: ItemRecord) -> bool | None:
    """Return whether a published run showed the caption of an item as (A); None if the item does
    not record it.
    """
    if item.instrument != ALIGNMENT or not item.release:
        return None
    return bool(json.loads(item.release)["caption_first"])


def _list_texts_by_id(
    rows: Sequence[Row],
) -> tuple[dict[str, Row], dict[str, str], Counter[str]]:
    """Return usable rows by id, their texts by id, both in file order, and the number of other rows
    by reason.
    """
    unusable: Counter[str] = Counter()
    usable: dict[str, Row] = {}
    texts: dict[str, str] = {}
    for row in rows:
        text = get_text(row)
        if row["rejected"] is not None or text is None:
            unusable[row["rejected"] or WITHHELD] += 1
            continue
        row_id = str(row.get("item_id", row["source_id"]))
        usable[row_id] = row
        texts[row_id] = text
    return usable, texts, unusable


def _select_one_per_image(
    name: str, rows: Iterable[Row], n: int | None, seed: int
) -> list[str]:
    """Return the ids of n rows, at most one per image, in file order."""
    row_of_image: dict[str, Row] = {}
    for row in rows:
        selected = row_of_image.setdefault(row["image"], row)
        # The row of lowest rank is taken for each image, so that the order of the file does not
        # matter.
        if rank(row["source_id"], seed) < rank(selected["source_id"], seed):
            row_of_image[row["image"]] = row
    if n is not None and n > len(row_of_image):
        raise UserError(
            f"alignment.{name}.size: {n} items asked for, {len(row_of_image)} images have a text; ask for fewer"
        )
    return sample([row["source_id"] for row in row_of_image.values()], n, seed)


def _draw_other_text(
    pool: Sequence[str], texts: Mapping[str, str], excluded: set[str], rng: Random
) -> str | None:
    """Return the id of a random row whose text is not excluded; None if every text is excluded."""
    # A few draws find a text in almost every source; listing all candidates for each item would
    # take long.
    for _ in range(MAX_DRAWS):
        source_id = rng.choice(pool)
        if _normalize(texts[source_id]) not in excluded:
            return source_id
    candidates = [
        source_id for source_id in pool if _normalize(texts[source_id]) not in excluded
    ]
    if not candidates:
        return None
    return rng.choice(candidates)


def _normalize(text: str) -> str:
    """Normalize a text for comparison: remove differences of case, whitespace and Unicode form."""
    return fold_text(text).casefold()


def _build_item(
    item_id: str,
    name: str,
    row: Row,
    caption: str,
    foil: str,
    release: str | None = None,
) -> ItemRecord:
    return ItemRecord(
        item_id=item_id,
        instrument=ALIGNMENT,
        piece=name,
        source=row["source"],
        source_id=row["source_id"],
        split=row["split"],
        image=row["image"],
        caption=caption,
        foil=foil,
        caption_phrases=[],
        foil_phrases=[],
        kept=True,
        release=release,
    )
