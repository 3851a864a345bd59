"""Single annotations: answers of people about the two texts in the order of presentation, and votes.

An annotator sees the image and two numbered texts, the caption first or second, and answers which of them
describes the image: `first`, `second`, `both`, `neither` or `cannot tell`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import krippendorff
import pandas as pd

from waltz.core.errors import UserError
from waltz.sources.raw_files import read_csv_records

ANSWERS = ("first", "second", "both", "neither", "cannot tell")
POSITIONS = ("first", "second")
ANNOTATION_COLUMNS = ("item_id", "annotator", "answer", "caption_position")


def read_annotations(path: str | Path, item_ids: Iterable[str]) -> list[dict[str, str]]:
    """Read the annotations of a CSV file with the columns `COLUMNS`.

    Raises:
        UserError: A column is missing, an answer or position is unknown, an item is not in the
            data set, or an annotator answered an item twice.
    """
    known_ids = set(item_ids)
    answered_pairs: set[tuple[str, str]] = set()
    rows = []
    for line, record in read_csv_records(path, required=ANNOTATION_COLUMNS):
        row = {name: record[name].strip() for name in ANNOTATION_COLUMNS}
        if row["answer"] not in ANSWERS:
            raise UserError(f"{path}: line {line}: answer {row['answer']!r} is none of {', '.join(ANSWERS)}")
        if row["caption_position"] not in POSITIONS:
            raise UserError(f"{path}: line {line}: caption_position {row['caption_position']!r} is not first or second")
        if row["item_id"] not in known_ids:
            raise UserError(f"{path}: line {line}: item {row['item_id']!r} is not in the data set")
        if (row["item_id"], row["annotator"]) in answered_pairs:
            raise UserError(
                f"{path}: line {line}: annotator {row['annotator']!r} answered item {row['item_id']!r} twice"
            )
        answered_pairs.add((row["item_id"], row["annotator"]))
        rows.append(row)
    return rows


def count_votes(annotations: Sequence[Mapping[str, str]], valid_votes: int) -> dict[str, dict[str, Any]]:
    """Return votes and validity by item id; `first` or `second` is a vote for caption or foil, all else is other."""
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for row in annotations:
        if row["answer"] not in POSITIONS:
            side = "other"
        else:
            side = "caption" if row["answer"] == row["caption_position"] else "foil"
        votes[row["item_id"]][side] += 1
    return {
        item_id: {
            "votes_caption": count["caption"],
            "votes_foil": count["foil"],
            "votes_other": count["other"],
            "valid": count["caption"] >= valid_votes and count["caption"] > count["foil"],
        }
        for item_id, count in votes.items()
    }


def compute_alpha(annotations: Sequence[Mapping[str, str]]) -> tuple[float | None, str | None]:
    """Compute Krippendorff's nominal alpha over the five answers as presented.

    Returns:
        Alpha in [-1, 1] and None, or None and the reason why it is undefined.
    """
    frame = pd.DataFrame(list(annotations), columns=list(ANNOTATION_COLUMNS))
    codes = frame.assign(code=frame["answer"].map({answer: code for code, answer in enumerate(ANSWERS)}))
    table = codes.pivot(index="annotator", columns="item_id", values="code")
    pairable = table.loc[:, table.notna().sum() > 1]
    if pairable.empty:
        return None, "no item has two annotations"
    if len(set(pairable.stack())) < 2:
        return None, "every annotation is the same, so alpha is undefined"
    return float(krippendorff.alpha(table.to_numpy(dtype=float), level_of_measurement="nominal")), None
