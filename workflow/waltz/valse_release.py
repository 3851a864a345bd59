"""The release of VALSE: its files, the numbers of valid items, and the form of their fields.

The list contains only published instruments. Instruments that users register (`waltz.instruments`)
do not belong here, so that they change no order, size or chart of the papers.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ReleasedInstrument:
    """Facts about one instrument in the release.

    Attributes:
        file: Name of the released file, without `.json`.
        dataset: Name that the release gives to the origin of the images.
        source_format: Format of the source from which the instrument was built.
        valid_items: Number of valid items.
        needs_source_row: Whether items have a field that only the row of their source contains.
        numeric_index: Whether the field `dataset_idx` is a whole number.
    """

    file: str
    dataset: str
    source_format: str
    valid_items: int
    needs_source_row: bool = False
    numeric_index: bool = False


RELEASE: Mapping[str, ReleasedInstrument] = {
    # Positions: file, dataset, source format, number of valid items.
    "existence": ReleasedInstrument(
        "existence", "visual7w", "visual7w", 505, needs_source_row=True
    ),
    "plurality": ReleasedInstrument(
        "plurals",
        "coco2017",
        "coco-captions",
        851,
        needs_source_row=True,
        numeric_index=True,
    ),
    "counting-balanced": ReleasedInstrument(
        "counting-hard", "visual7w", "visual7w", 868
    ),
    "counting-small": ReleasedInstrument(
        "counting-small-quant", "visual7w", "visual7w", 900
    ),
    "counting-adversarial": ReleasedInstrument(
        "counting-adversarial", "visual7w", "visual7w", 691
    ),
    "relations": ReleasedInstrument(
        "relations", "coco_2017", "coco-captions", 535, numeric_index=True
    ),
    "action-replacement": ReleasedInstrument("action-replacement", "SWiG", "swig", 648),
    "actant-swap": ReleasedInstrument("actant-swap", "SWiG", "swig", 949),
    "coreference-standard": ReleasedInstrument(
        "coreference-standard", "VisDial_v1.0", "visdial", 708, needs_source_row=True
    ),
    "coreference-clean": ReleasedInstrument(
        "coreference-hard", "VisDial_v1.0", "visdial", 104, needs_source_row=True
    ),
    "foil-it": ReleasedInstrument(
        "foil-it", "FOIL dataset", "foil-it", 943, numeric_index=True
    ),
}
"""Instruments of the release by name, in the order of VALSE's tables."""

PUBLISHED_VALID_ITEMS: Mapping[str, int] = {
    name: RELEASE[name].valid_items
    for name in ("foil-it", *(name for name in RELEASE if name != "foil-it"))
}
"""Number of valid items by instrument, in the order of the released scripts for accuracy and
T-SHAP: FOIL-it first.
"""
