"""A number that a page states, and its place among the measurements."""

from dataclasses import dataclass

CLIP, MATCHER, LLAVA = "scenes-clip", "scenes-matcher", "scenes-llava"
SMOLLM2 = "smollm2-135m-instruct"


@dataclass(frozen=True)
class Place:
    """Place of a number among the measurements.

    Attributes:
        measurement: Name of its file, without the ending.
        quantity: As in the layout `MEASURES`, like the fields after it but the last.
        decimals: Decimals in the text.
    """

    measurement: str
    quantity: str
    model: str = ""
    factor: str = ""
    level: str = ""
    dataset: str = ""
    decimals: int = 1
