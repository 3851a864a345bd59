"""The registered instruments: the source, the code and the models from which each instrument is
built.

VALSE has eleven instruments (`waltz.valse_release`). The code of an instrument is named by its
import path, so that this module does not import the stages.
"""

from dataclasses import dataclass

SWIG_TABLES = (
    "foils/swig_nouns.yaml",
    "resources/wordnet/verbs.tsv",
    "resources/wordnet/nouns.tsv",
)
"""Packaged files that the makers of instruments from SWiG read."""
COCO_TABLES = ("foils/coco_nouns.yaml",)
"""Packaged files that makers of foils with exchanged nouns read."""


@dataclass(frozen=True)
class Instrument:
    """Entry of one instrument of the benchmark.

    Attributes:
        piece: Piece of VALSE (linguistic phenomenon) to which the instrument belongs.
        source_format: Format of the source from which the instrument is built.
        other_format: Second format from which the maker can build it; empty if there is none.
        maker: Import path of the module whose `build_candidates` makes the candidates.
        proposal_key: Key under `proposals` of the model that proposes foils; None if rules make
            them.
        tables: Packaged files that the maker reads.
    """

    piece: str
    source_format: str
    maker: str
    proposal_key: str | None = None
    tables: tuple[str, ...] = ()
    other_format: str = ""


INSTRUMENTS = {
    # Visual7W and COCO captions are sources of images and annotations, see
    # docs/reference/sources.md.
    "existence": Instrument(
        piece="existence",
        source_format="visual7w",
        maker="waltz.foils.existence",
        tables=COCO_TABLES,
        other_format="coco-captions",
    ),
    "plurality": Instrument(
        piece="plurality",
        source_format="coco-captions",
        maker="waltz.foils.plurality",
    ),
    # The three counting instruments share a maker; they differ in the numbers of caption and foil.
    "counting-balanced": Instrument(
        piece="counting",
        source_format="visual7w",
        maker="waltz.foils.counting",
        other_format="coco-captions",
    ),
    "counting-small": Instrument(
        piece="counting",
        source_format="visual7w",
        maker="waltz.foils.counting",
        other_format="coco-captions",
    ),
    "counting-adversarial": Instrument(
        piece="counting",
        source_format="visual7w",
        maker="waltz.foils.counting",
        other_format="coco-captions",
    ),
    # A masked language model proposes the foils of relations and of replaced actions.
    "relations": Instrument(
        piece="relations",
        source_format="coco-captions",
        maker="waltz.foils.relations",
        proposal_key="spans",
    ),
    "action-replacement": Instrument(
        piece="actions",
        source_format="swig",
        maker="waltz.foils.action_replacement",
        proposal_key="verbs",
        tables=SWIG_TABLES,
    ),
    "actant-swap": Instrument(
        piece="actions",
        source_format="swig",
        maker="waltz.foils.actant_swap",
        tables=SWIG_TABLES,
    ),
    # Both take a caption, a question with a pronoun and its answer from VisDial; the foil has the
    # other answer.
    "coreference-standard": Instrument(
        piece="coreference",
        source_format="visdial",
        maker="waltz.foils.coreference",
    ),
    "coreference-clean": Instrument(
        piece="coreference",
        source_format="visdial",
        maker="waltz.foils.coreference",
    ),
    "foil-it": Instrument(
        piece="nouns",
        source_format="foil-it",
        other_format="coco-captions",
        maker="waltz.foils.foil_it",
        tables=COCO_TABLES,
    ),
}
"""Instruments by name: the instruments of VALSE in the order of its tables, then added ones."""

SHORT_NAMES = {
    "counting": "counting-balanced",
    "nouns": "foil-it",
    "prepositions": "relations",
    "coreference": "coreference-standard",
}
"""Instruments by the short names that commands accept as well."""

CAPTION_OR_QUESTION = (
    'a caption, or a question with its answer ("How many dogs are there? Three.")'
)
DIALOGUE = 'a caption, a question and yes or no ("A dog on a bed. Is it asleep? Yes.")'
TEXT_INPUTS = {
    "plurality": "a caption",
    "existence": CAPTION_OR_QUESTION,
    "counting-balanced": CAPTION_OR_QUESTION,
    "counting-small": f"{CAPTION_OR_QUESTION}; numbers up to 3",
    "counting-adversarial": f"{CAPTION_OR_QUESTION}; from 4 to fewer than 4",
    "relations": "a caption with a preposition of place; a small language model ranks the foils",
    "foil-it": "a caption with a noun of COCO's categories",
    "coreference-standard": DIALOGUE,
    "coreference-clean": DIALOGUE,
}
"""What the command `waltz foil` takes as a text, by instrument; other instruments need more than a
text.
"""

RANKER = "smollm2-135m-instruct"
"""Registered language model that ranks foils where no masked one is at hand."""

FILTER_MODELS = {
    "grammaticality": ("likelihood", "acceptability"),
    "contradiction": ("nli",),
    "ranking": ("likelihood", "acceptability", "ranking"),
}
"""For each filter, the keys under `filters` of the models that judge the candidates."""
