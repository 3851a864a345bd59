"""Samples of the published runs; all other samples follow the rule of `core.sampling`.

A published sample is drawn from all rows of a file in file order, because the draw depends on the
number of rows. docs/reference/sources.md says which of the samples can be reproduced.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from waltz.core.errors import UserError

Row = Mapping[str, object]


@dataclass(frozen=True)
class PublishedSample:
    """The rule by which the published runs drew rows of a file.

    Attributes:
        n: Number of rows.
        seed: Seed of the draw.
        draw: Takes rows, n and seed; returns the drawn rows in the order in which the runs used
            them.
        reproducible: True where the rule gives the published sample from the original file.
    """

    n: int
    seed: int
    draw: Callable[[Sequence[Row], int, int], list[Row]]
    reproducible: bool


def shuffle_with_pandas(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """Shuffle rows as `pandas.DataFrame.sample(frac=1)` does, and return the first n, or all where
    there are fewer.
    """
    return [
        rows[index] for index in np.random.RandomState(seed).permutation(len(rows))[:n]
    ]


def shuffle_with_python(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """Shuffle the rows as `random.shuffle` does, and return the first n, or all where there are
    fewer.
    """
    shuffled_rows = list(rows)
    random.Random(seed).shuffle(shuffled_rows)
    return shuffled_rows[:n]


def sample_with_python(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """Draw n rows as `random.sample` does from the rows in file order."""
    _check_size(rows, n)
    return random.Random(seed).sample(list(rows), n)


def sample_with_python_by_id(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """Draw n rows as `random.sample` does from the rows sorted by id, where ids are compared as
    texts.
    """
    return sample_with_python(
        sorted(rows, key=lambda row: str(row["source_id"])), n, seed
    )


def sample_with_numpy(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """Draw n rows as the legacy `choice` of NumPy does without replacement."""
    _check_size(rows, n)
    return [
        rows[index]
        for index in np.random.RandomState(seed).choice(len(rows), n, replace=False)
    ]


def sample_with_numpy_by_image(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """Draw n rows with NumPy and keep one row of each image: its last drawn row, in the position of
    its first.
    """
    # A dictionary keeps the position of the first value of a key, and the last value.
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
"""The published samples by data set, with the kind of model where both kinds have a sample."""


def select_published_ids(
    name: str, rows: Sequence[Row], n: int | None = None
) -> list[str]:
    """Return the ids of the rows that the published runs used, in their order.

    Args:
        name: One of `PUBLISHED_SAMPLES`.
        rows: All rows of the file in file order, rejected ones included.
        n: Number of rows to return, the first rows of the published sample. A larger n draws more
            rows; from a file with fewer rows than the published sample, all rows are drawn. None
            returns the published sample.
    Raises:
        UserError: The name is unknown, or the file has fewer than n rows.
    """
    if name not in PUBLISHED_SAMPLES:
        raise UserError(
            f"no published sample is known for this data set (got {name!r}, expected {', '.join(PUBLISHED_SAMPLES)});"
            " name one of these"
        )
    sample = PUBLISHED_SAMPLES[name]
    if n is None:
        size = sample.n
    elif n > len(rows):
        size = n  # the draw refuses it where it needs all n
    else:
        # A shorter sample is the beginning of the published one, a longer one a longer draw.
        size = min(max(sample.n, n), len(rows))
    drawn_rows = sample.draw(rows, size, sample.seed)
    return [str(row["source_id"]) for row in drawn_rows][:n]


ENCODER_SEED, DECODER_SEED = 1520, 42
"""Seeds of the released scripts for encoders (MM-SHAP) and for decoders (CC-SHAP-VLM)."""


def draw_items_and_foils_for_encoders(
    items: int, n: int | None
) -> tuple[list[int], list[int]]:
    """Draw the items that the released scripts for encoders attribute, and the items whose texts
    are their foils.

    Args:
        items: Number of items that were read.
        n: Number of items to draw; None, or a number that is not below `items`, takes all in their
            order.
    Returns:
        Two lists of positions of the same length. The foils are among the drawn items; an item may
        draw itself.
    """
    generator = random.Random(ENCODER_SEED)
    positions = list(range(items))
    if n is not None and n < items:
        positions = generator.sample(range(items), n)
    # The same generator draws items and foils, so the order of the draws must stay.
    foil_positions = [generator.sample(positions, 1)[0] for _ in positions]
    return positions, foil_positions


def draw_foils_for_decoders(ids: Sequence[str], n: int) -> list[tuple[str, bool]]:
    """Draw for the first n items the id of the item whose caption is the foil, and whether the
    right caption is (A).

    The released script draws both in turn from one generator; it draws the foil from all items
    sorted by id. That it draws nothing else from the generator is read from the code, not confirmed
    by an output.

    Args:
        ids: Ids of all items of the file.
        n: Number of items.
    """
    generator = random.Random(DECODER_SEED)
    pool = sorted(ids)
    draws = []
    for _ in range(n):
        foil_id = generator.sample(pool, 1)[0]
        is_caption_first = generator.choice([0, 1]) == 0
        draws.append((foil_id, is_caption_first))
    return draws


def draw_caption_first(n: int) -> list[bool]:
    """Draw for each of n items whether the caption is (A) and the foil (B) in the pairwise question
    for decoders.
    """
    generator = random.Random(DECODER_SEED)
    return [generator.choice([0, 1]) == 0 for _ in range(n)]


def _check_size(rows: Sequence[Row], n: int) -> None:
    if n > len(rows):
        raise UserError(
            f"too few rows for the published sample (got {len(rows)}, expected at least {n}); is the file complete?"
        )
