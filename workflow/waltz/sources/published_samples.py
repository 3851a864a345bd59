"""Which samples the published runs took; `core.sampling` holds the rule that is used everywhere else.

All draws are over every row of a file in file order, because they hang on the number of rows. What can be had again:

- ComVE, e-SNLI: the file shuffled by pandas with seed 42, its first 100. The first two items of either task, and
  the fifth of e-SNLI, agree with a public output of the released script (its runs of mistral-7b-chat). A file in
  another order gives other items.
- BBH: `data` shuffled by Python's `random`, seed 42, its first 100. The generator is the same in every version of
  Python; that nothing drew from it between seeding and shuffling was read in the code, not seen in an output.
- VALSE, decoders: the first k valid items in file order; which of caption and foil stands first as (A) is one
  `random.choice` an item, seed 42.
- VQA, encoders (1,500) and decoders (300), NLVR2, encoders (1,500): numpy's `choice` without replacement, seed 0. VQA
  rows are then kept by image, so the later of two questions on one image takes the place of the earlier and fewer
  than 1,500 or 300 remain. NLVR2 keeps one of its two images, and only those that could be downloaded at the time.
- GQA, decoders (300): Python's `random.sample` over the questions sorted by id, with the generator seeded 42 at the
  start of the run; what loading a model draws from it in between is not known.
- GQA, encoders (1,500): `random.sample` before any seed was set. These items cannot be had again; here the same draw is
  made with seed 42 over the file order, and differs from the published one.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from waltz.core.errors import UserError

Row = Mapping[str, Any]


@dataclass(frozen=True)
class PublishedSample:
    """How the published runs chose among the rows of a file.

    Attributes:
        n: How many rows they drew.
        seed: Seed of the draw.
        draw: Takes the rows, n and the seed; returns the rows drawn in the order in which they were used.
        reproducible: Whether the draw is the published one, given the original file.
    """

    n: int
    seed: int
    draw: Callable[[Sequence[Row], int, int], list[Row]]
    reproducible: bool


def shuffle_with_pandas(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """The first n of the rows as `pandas.DataFrame.sample(frac=1)` shuffles them; all where there are fewer."""
    order = pd.Series(range(len(rows))).sample(frac=1, random_state=seed)
    return [rows[place] for place in order.iloc[:n]]


def shuffle_with_python(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """The first n of the rows as `random.shuffle` leaves them; all where there are fewer."""
    order = list(rows)
    random.Random(seed).shuffle(order)
    return order[:n]


def sample_with_python(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """n rows as `random.sample` draws them in file order."""
    return random.Random(seed).sample(list(rows), _enough(rows, n))


def sample_with_python_by_id(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """n rows as `random.sample` draws them from the rows sorted by id, ids compared as texts."""
    return sample_with_python(sorted(rows, key=lambda row: str(row["source_id"])), n, seed)


def sample_with_numpy(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """n rows as numpy's legacy `choice` without replacement draws them."""
    places = np.random.RandomState(seed).choice(len(rows), _enough(rows, n), replace=False)
    return [rows[place] for place in places]


def sample_with_numpy_by_image(rows: Sequence[Row], n: int, seed: int) -> list[Row]:
    """As `numpy_sampled`, then of each image the row drawn last, in the place of the one drawn first."""
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
    """Ids of the rows that the published runs took, in their order.

    Args:
        name: One of `PUBLISHED`.
        rows: All rows of the file in file order, rejected ones included.
        n: How many to draw; None draws as many as the published runs.
    Raises:
        UserError: The name is unknown, or a draw without replacement asks for more rows than there are.
    """
    if name not in PUBLISHED_SAMPLES:
        raise UserError(
            f"no published choice of samples is known for {name!r}; there are {', '.join(PUBLISHED_SAMPLES)}"
        )
    choice = PUBLISHED_SAMPLES[name]
    return [str(row["source_id"]) for row in choice.draw(rows, choice.n if n is None else n, choice.seed)]


def select_first_valid_ids(items: Sequence[Row], n: int) -> list[str]:
    """Ids of the first n valid items of the benchmark in file order; all where there are fewer."""
    return [str(item["item_id"]) for item in items if item["valid"]][:n]


def draw_caption_first(n: int, seed: int = 42) -> list[bool]:
    """For each of n items in turn, whether the caption is (A) and the foil (B) in the decoders' pairwise question."""
    generator = random.Random(seed)
    return [generator.choice([0, 1]) == 0 for _ in range(n)]


def _enough(rows: Sequence[Row], n: int) -> int:
    if n > len(rows):
        raise UserError(f"cannot draw {n} of {len(rows)} rows; is the file whole?")
    return n
