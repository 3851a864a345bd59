"""Which items the released scripts attribute."""

import random
from collections.abc import Sequence

SEED = 1520


def published_sample(item_ids: Sequence[str], valid: Sequence[bool], n: int | None) -> list[str]:
    """The items that MM-SHAP's scripts for encoders attribute, in their order.

    They seed anew for each instrument, draw from all of its items and pass over what people did not find valid after
    that, so that a draw of 100 gives fewer.

    Args:
        item_ids: All items of the instrument in the order of the released file.
        valid: Whether at least two annotators chose the caption.
        n: How many are drawn; None takes all. A smaller instrument is taken whole.
    Source:
        MM-SHAP's released scripts at 00a66bf.
    """
    places: Sequence[int] = range(len(item_ids))
    if n is not None and n < len(item_ids):
        places = random.Random(SEED).sample(places, n)
    return [item_ids[place] for place in places if valid[place]]
