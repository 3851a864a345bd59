"""Functions of the exported lmms-eval tasks; an export has a copy next to them, so that it needs no
waltz.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

LABEL = re.compile(
    r"^\W*([AB])\W*$|\(([AB])\)|^\W*([AB])[).:]|\b(?:answer|option|caption)(?: is)?:? ([AB])\b"
)


def select_items(items: Any) -> Any:
    """Return the items of a `datasets.Dataset` whose image could be opened at the export."""
    return items.filter(lambda image: image is not None, input_columns="image")


def get_images(item: Mapping[str, Any]) -> list[Any]:
    """Return the image of an item in a list, as PIL in RGB."""
    return [item["image"].convert("RGB")]


def render_question(
    item: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]
) -> str:
    """Return a question that asks which of two texts describes the image; the item's id decides
    which text is (A).
    """
    texts = [item["caption"], item["foil"]]
    first, second = texts if get_label(item) == "A" else texts[::-1]
    return str(lmms_eval_specific_kwargs["question"]).format(first=first, second=second)


def get_label(item: Mapping[str, Any]) -> str:
    """Return the label of the caption, `A` or `B`, each for about half of all ids."""
    return "AB"[hashlib.sha256(item["item_id"].encode()).digest()[0] % 2]


def score_answer(item: Mapping[str, Any], results: list[str]) -> dict[str, float]:
    """Return two metrics, 1 or 0: `acc` if the answer is the caption's label, `answered` if it
    names a label.
    """
    match = LABEL.search(results[0].strip())
    label = next(filter(None, match.groups())) if match else None
    return {
        "acc": float(label == get_label(item)),
        "answered": float(label is not None),
    }
