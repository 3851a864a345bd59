"""Tables of how the benchmark is built: thesis 3.1, A.2 to A.8, CV-Probes 1 and 2, the sources of VALSE's images."""

from waltz.reporting.tables.declaration import PAPER_SETTING, Declaration, locate_number

PIECES = {
    "existence": ("existence",),
    "plurality": ("plurality",),
    "counting": ("counting-balanced", "counting-adversarial", "counting-small"),
    "relations": ("relations",),
    "actions": ("action-replacement", "actant-swap"),
    "coreference": ("coreference-standard", "coreference-clean"),
}
"""Instruments by piece, in the order of the paper."""
PIECES_WITH_EXAMPLES = dict(zip(("A.3", "A.4", "A.5", "A.6", "A.7", "A.8"), PIECES, strict=True))
"""Piece by table of examples."""

VALIDATION = Declaration(
    id="thesis-A.2",
    title="Manual validation of each instrument",
    sources={
        metric: locate_number("validation", metric)
        for metric in (
            "instances",
            "valid",
            "valid_percent",
            "unanimous",
            "unanimous_percent",
            "lexical_items",
            "js",
            "js_valid",
            "alpha",
            "alpha_valid",
        )
    },
    rows=("dataset",),
    columns="metric",
    derived=("overall",),
    adds_own_datasets=True,
    notes=(
        "JS is the Jensen–Shannon distance (base 2, square root) between the lexical items of captions and of foils.",
        "In profile `published` the overall unanimous share is taken over the valid items, as in the thesis;"
        " in `equations` over all items, as in each row.",
    ),
)
OVERVIEW = Declaration(
    id="thesis-3.1",
    title="The pieces of VALSE",
    sources={
        metric: locate_number("derived", metric)
        for metric in ("instruments", "examples", "foil_generation_method", "mlm", "gruen", "nli", "source_dataset")
    },
    rows=("metric",),
    columns="dataset",
    derived=("pieces",),
    profile_independent=True,
    extra_sources=("validation",),
    known_reasons={
        "instruments": "names, not compared",
        "foil_generation_method": "words of the authors: nothing to measure",
    },
    notes=(
        "MLM: a masked language model proposes foils. GRUEN, NLI: foils are filtered by grammaticality, by"
        " contradiction. Ours: the settings of the study's instruments; a study of released items builds none.",
    ),
)
IMAGES = Declaration(
    id="valse-paper-1",
    title="Where the images of VALSE's pieces come from",
    sources={"image_source": locate_number("derived", "image_source")},
    rows=("metric",),
    columns="dataset",
    profile_independent=True,
    known_reasons={"image_source": "not measured: sources say which files they are, not where their images are from"},
)
SAMPLES = tuple(
    Declaration(
        id=f"thesis-{number}",
        title=f"Items of the piece {piece}",
        sources={metric: locate_number("derived", metric, PAPER_SETTING) for metric in ("caption", "foil", "image")},
        rows=("dataset", "setting"),
        columns="metric",
        paper_table_ids=(),
        derived=("samples",),
        profile_independent=True,
        field_titles={"dataset": "instrument", "setting": "item"},
        extra_sources=("samples",),
        example_datasets=PIECES[piece],
        notes=("Ours are the first valid items in the order of their ids; the thesis shows hand-picked ones.",),
    )
    for number, piece in PIECES_WITH_EXAMPLES.items()
)
VERBS = Declaration(
    id="cv-probes-1",
    title="Context-dependent verbs of CV-Probes",
    sources={"verb": locate_number("derived", "verb", PAPER_SETTING)},
    rows=("setting",),
    columns="metric",
    derived=("verbs",),
    profile_independent=True,
    field_titles={"setting": "number"},
    extra_sources=("probes",),
    notes=("Ours stands next to the paper's verb where the study's items hold it; the paper names lemmas.",),
)
PAIRS = Declaration(
    id="cv-probes-2",
    title="Image-caption pairs of CV-Probes",
    sources={"image_caption_pairs": locate_number("probes", "image_caption_pairs", PAPER_SETTING)},
    rows=("setting",),
    columns="metric",
    profile_independent=True,
    field_titles={"setting": "captions"},
)
TABLES = (OVERVIEW, VALIDATION, *SAMPLES, IMAGES, VERBS, PAIRS)
