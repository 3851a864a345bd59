"""Samples of the published runs; `core.sampling` holds the rule that is used everywhere else.

All draws are over every row of a file in file order, because they depend on the number of rows.
docs/reference/sources.md says which of them can be reproduced.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from waltz.core.errors import UserError

Row = Mapping[str, Any]


@dataclass(frozen=True)
class PublishedSample:
    """Rule by which the published runs drew n rows of a file; `reproducible` given the original file.

    `draw` takes the rows, n and the seed; it returns the rows drawn in the order in which they were used.
    """

    n: int
    seed: int
    draw: Callable[[Sequence[Row], int, int], list[Row]]
    reproducible: bool


def shuffle_with_pandas(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """Return the first n of the rows as `pandas.DataFrame.sample(frac=1)` shuffles them; all where there are fewer."""
    return [rows[index] for index in np.random.RandomState(seed).permutation(len(rows))[:n]]


def shuffle_with_python(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """Return the first n of the rows as `random.shuffle` shuffles them; all where there are fewer."""
    shuffled_rows = list(rows)
    random.Random(seed).shuffle(shuffled_rows)
    return shuffled_rows[:n]


def sample_with_python(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """Return n rows as `random.sample` draws them in file order."""
    _check_size(rows, n)
    return random.Random(seed).sample(list(rows), n)


def sample_with_python_by_id(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """Return n rows as `random.sample` draws them from the rows sorted by id, ids compared as texts."""
    return sample_with_python(sorted(rows, key=lambda row: str(row["source_id"])), n, seed)


def sample_with_numpy(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """Return n rows as numpy's legacy `choice` without replacement draws them."""
    _check_size(rows, n)
    return [rows[index] for index in np.random.RandomState(seed).choice(len(rows), n, replace=False)]


def sample_with_numpy_by_image(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """Draw n rows with numpy; of each image the last row drawn takes the position of the first."""
    by_image = {row["image"]: row for row in sample_with_numpy(rows, n, seed)}
    return list(by_image.values())


PUBLISHED_SAMPLES: Mapping[str, PublishedSample] = {
    "comve": PublishedSample(100, 42, shuffle_with_pandas, True),
    "esnli": PublishedSample(100, 42, shuffle_with_pandas, True),
    "bbh": PublishedSample(100, 42, shuffle_with_python, True),
    "vqa-encoders": PublishedSample(1500, 0, sample_with_numpy_by_image, True),
    "nlvr2-encoders": PublishedSample(1500, 0, sample_with_numpy, True),
    "gqa-encoders": PublishedSample(1500, 42, sample_with_python, False),
    "vqa-decoders": PublishedSample(300, 0, sample_with_numpy_by_image, True),
    "gqa-decoders": PublishedSample(300, 42, sample_with_python_by_id, True),
}
"""The published draws by data set and kind of model."""


def select_published_ids(name: str, rows: Sequence[Row], n: int | None = None) -> list[str]:
    """Return the ids of the rows that the published runs used, in their order.

    Args:
        name: One of `PUBLISHED_SAMPLES`.
        rows: All rows of the file in file order, rejected ones included.
        n: Number of rows, the first of what the published runs drew; more are drawn where n is more, and all of a file
            that has fewer. None takes all that the published runs drew.
    Raises:
        UserError: The name is unknown, or the file has fewer than n rows.
    """
    if name not in PUBLISHED_SAMPLES:
        raise UserError(
            f"no published sample is known for this data set (got {name!r}, expected {', '.join(PUBLISHED_SAMPLES)})"
        )
    sample = PUBLISHED_SAMPLES[name]
    size = sample.n if n is None else n if n > len(rows) else min(max(sample.n, n), len(rows))
    return [str(row["source_id"]) for row in sample.draw(rows, size, sample.seed)][:n]


ENCODER_SEED, DECODER_SEED = 1520, 42
"""Seeds of the released scripts for encoders (MM-SHAP at 00a66bf) and for decoders (CC-SHAP-VLM at 07f150d)."""


def draw_foils_for_encoders(n: int) -> list[int]:
    """Return for each of n items the position of the item whose text is its foil; an item may draw itself."""
    return draw_items_and_foils_for_encoders(n, None)[1]


def draw_items_and_foils_for_encoders(items: int, n: int | None) -> tuple[list[int], list[int]]:
    """Return positions of the items that the scripts for encoders attribute, and of those whose texts are their foils.

    Args:
        items: Number of items that were read.
        n: Number of items to draw; None, or as many as there are, takes all in their order.
    Returns:
        Both of the same length; the foils are among the drawn items, and an item may draw itself.
    """
    generator = random.Random(ENCODER_SEED)
    chosen = list(range(items)) if n is None or n >= items else generator.sample(range(items), n)
    return chosen, [generator.sample(chosen, 1)[0] for _ in chosen]


def draw_foils_for_decoders(ids: Sequence[str], n: int) -> list[tuple[str, bool]]:
    """Return for the first n items the id of the item whose caption is the foil, and whether the own caption is (A).

    The released script draws both in turn from one generator, the foil from all items sorted by id. That nothing else
    is drawn from it follows from the code, not from an output.

    Args:
        ids: Ids of all items of the file.
        n: Number of items.
    """
    generator, pool = random.Random(DECODER_SEED), sorted(ids)
    return [(generator.sample(pool, 1)[0], generator.choice([0, 1]) == 0) for _ in range(n)]


def draw_caption_first(n: int, seed: int = DECODER_SEED) -> list[bool]:
    """Return for each of n items whether the caption is (A) and the foil (B) in the decoders' pairwise question."""
    generator = random.Random(seed)
    return [generator.choice([0, 1]) == 0 for _ in range(n)]


def _check_size(rows: Sequence[Row], n: int) -> None:
    if n > len(rows):
        raise UserError(
            f"too few rows for the published sample (got {len(rows)}, expected at least {n}); is the file complete?"
        )
