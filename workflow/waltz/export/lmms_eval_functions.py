"""Functions of the exported lmms-eval tasks; an export has a copy next to them, so that it needs no
waltz.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

Item = Mapping[str, Any]
"""Row of an exported data set: value by column."""
LABEL = re.compile(
    r"^\W*([AB])\W*$|\(([AB])\)|^\W*([AB])[).:]|\b(?:answer|option|caption)(?: is)?:? ([AB])\b"
)


def select_items(items: Any) -> Any:
    """Return the items of a `datasets.Dataset` whose image could be opened at the export."""
    return items.filter(lambda image: image is not None, input_columns="image")


def get_images(item: Item) -> list[Any]:
    """Return the image of an item in a list, as PIL in RGB."""
    return [item["image"].convert("RGB")]


def render_question(item: Item, lmms_eval_specific_kwargs: Mapping[str, str]) -> str:
    """Return a question that asks which of two texts describes the image; the item's id decides
    which text is (A).
    """
    first, second = item["caption"], item["foil"]
    if get_label(item) == "B":
        first, second = second, first
    return lmms_eval_specific_kwargs["question"].format(first=first, second=second)


def get_label(item: Item) -> str:
    """Return the label of the caption, `A` or `B`, each for about half of all ids."""
    return "AB"[hashlib.sha256(item["item_id"].encode()).digest()[0] % 2]


def score_answer(item: Item, results: list[str]) -> dict[str, float]:
    """Return two metrics, 1 or 0: `acc` if the answer is the caption's label, `answered` if it
    names a label.
    """
    match = LABEL.search(results[0].strip())
    label = None
    if match is not None:
        # Each alternative of the pattern has one group.
        label = next(filter(None, match.groups()))
    return {
        "acc": float(label == get_label(item)),
        "answered": float(label is not None),
    }
