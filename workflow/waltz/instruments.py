"""The instruments of VALSE, one entry each: what it is built from, by which code, and what its release looks like.

Data only: the code of an instrument is named by import path, so that this module imports nothing of the stages.
"""

from dataclasses import dataclass

SWIG_TABLES = (
    "foils/swig_nouns.yaml",
    "resources/wordnet/verbs.tsv",
    "resources/wordnet/nouns.tsv",
)
"""Files of the package that instruments built from SWiG read."""
COCO_TABLES = ("foils/coco_nouns.yaml",)
"""Files of the package that foils of nouns in captions read."""


@dataclass(frozen=True)
class Instrument:
    """One instrument of the benchmark.

    Attributes:
        piece: The VALSE piece that it belongs to.
        source_format: Format of the source that it is built from.
        other_format: Another format that its maker can build it from; empty for none.
        maker: Import path of the module whose `build_candidates` makes its candidates.
        release_file: Name of its file in the release, without `.json`.
        release_dataset: Name that the release gives to the origin of its images, in `source_format`.
        released_items: Number of valid items in the release.
        proposal_key: Key under `proposals` of the model that proposes its foils; None where rules make them.
        tables: Files of the package that its maker reads.
        needs_source_row: True where an exported item has a field that only the row of its source holds.
        numeric_index: True where the release writes `dataset_idx` as a whole number.
    """

    piece: str
    source_format: str
    maker: str
    release_file: str
    release_dataset: str
    released_items: int
    proposal_key: str | None = None
    tables: tuple[str, ...] = ()
    other_format: str = ""
    needs_source_row: bool = False
    numeric_index: bool = False


INSTRUMENTS = {
    "existence": Instrument(
        piece="existence",
        source_format="visual7w",
        maker="waltz.foils.existence",
        release_file="existence",
        release_dataset="visual7w",
        released_items=505,
        tables=COCO_TABLES,
        other_format="coco-captions",
        needs_source_row=True,
    ),
    "plurality": Instrument(
        piece="plurality",
        source_format="coco-captions",
        maker="waltz.foils.plurality",
        release_file="plurals",
        release_dataset="coco2017",
        released_items=851,
        needs_source_row=True,
        numeric_index=True,
    ),
    "counting-balanced": Instrument(
        piece="counting",
        source_format="visual7w",
        maker="waltz.foils.counting",
        release_file="counting-hard",
        release_dataset="visual7w",
        released_items=868,
    ),
    "counting-small": Instrument(
        piece="counting",
        source_format="visual7w",
        maker="waltz.foils.counting",
        release_file="counting-small-quant",
        release_dataset="visual7w",
        released_items=900,
    ),
    "counting-adversarial": Instrument(
        piece="counting",
        source_format="visual7w",
        maker="waltz.foils.counting",
        release_file="counting-adversarial",
        release_dataset="visual7w",
        released_items=691,
    ),
    "relations": Instrument(
        piece="relations",
        source_format="coco-captions",
        maker="waltz.foils.relations",
        release_file="relations",
        release_dataset="coco_2017",
        released_items=535,
        proposal_key="spans",
        numeric_index=True,
    ),
    "action-replacement": Instrument(
        piece="actions",
        source_format="swig",
        maker="waltz.foils.action_replacement",
        release_file="action-replacement",
        release_dataset="SWiG",
        released_items=648,
        proposal_key="verbs",
        tables=SWIG_TABLES,
    ),
    "actant-swap": Instrument(
        piece="actions",
        source_format="swig",
        maker="waltz.foils.actant_swap",
        release_file="actant-swap",
        release_dataset="SWiG",
        released_items=949,
        tables=SWIG_TABLES,
    ),
    "coreference-standard": Instrument(
        piece="coreference",
        source_format="visdial",
        maker="waltz.foils.coreference",
        release_file="coreference-standard",
        release_dataset="VisDial_v1.0",
        released_items=708,
        needs_source_row=True,
    ),
    "coreference-clean": Instrument(
        piece="coreference",
        source_format="visdial",
        maker="waltz.foils.coreference",
        release_file="coreference-hard",
        release_dataset="VisDial_v1.0",
        released_items=104,
        needs_source_row=True,
    ),
    "foil-it": Instrument(
        piece="nouns",
        source_format="foil-it",
        other_format="coco-captions",
        maker="waltz.foils.foil_it",
        release_file="foil-it",
        release_dataset="FOIL dataset",
        released_items=943,
        tables=COCO_TABLES,
        numeric_index=True,
    ),
}
"""Instruments by name, in the order of VALSE's tables."""

FILTER_MODELS = {
    "grammaticality": ("likelihood", "acceptability"),
    "contradiction": ("nli",),
    "ranking": ("likelihood", "acceptability", "ranking"),
}
"""Keys under `filters` of the models that each filter of an instrument asks."""
