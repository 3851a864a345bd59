"""All tables of the report, stage by stage: those of the papers, and two of single seeds, which they only plot."""

from collections.abc import Iterable

from waltz.reporting.tables.declaration import (
    ENCODER,
    LANGUAGE,
    PAPER_SETTING,
    VISION,
    Declaration,
    NumberSource,
    locate_number,
)

CLIP_ALIASES = {"clip": ("clip", "clip-vit-base-patch32")}
CV_PROBES_ALIASES = {
    **CLIP_ALIASES,
    "blip": ("blip", "blip-itm-base-coco"),
    "blip2": ("blip2", "blip2-itm-vit-g"),
    "albef": ("albef", "albef-mscoco"),
}
"""Encoders of CV-Probes, which does not say which checkpoint of ALBEF it took."""
LXMERT_ANSWERING = {"lxmert": ("lxmert-vqa", "lxmert-gqa")}
"""LXMERT's checkpoints that answer questions, in addition to the one that aligns."""
GPT_ALIASES = {"gpt1": ("gpt1",), "gpt2": ("gpt2-large",)}
"""GPT1 and GPT2 of the VALSE tables; the GPT2 of Table 5.2 is the small one."""

NOT_REPRODUCIBLE = {"albef-vqa": "not reproducible: the checkpoint has no ITM head"}


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
PIECES_OVERVIEW = Declaration(
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
CONSTRUCTION_TABLES = (PIECES_OVERVIEW, VALIDATION, *SAMPLES, IMAGES, VERBS, PAIRS)


TEXT_SETTINGS = ("alignment", "perplexity")
"""Settings of scores of single texts."""
AVERAGED = "The average weighs each data set the same; its ± is the deviation over data sets."

PAIRWISE = Declaration(
    id="thesis-3.4",
    title="Pairwise ranking accuracy on VALSE",
    sources={
        metric: locate_number("evaluation", metric, *TEXT_SETTINGS) for metric in ("acc_r", "acc", "min_pc_pf", "auroc")
    },
    rows=("metric", "model"),
    columns="dataset",
    model_kinds=(ENCODER, LANGUAGE),
    model_aliases={**CLIP_ALIASES, **GPT_ALIASES},
    known_reasons=NOT_REPRODUCIBLE,
    adds_own_datasets=True,
    notes=("A language model's score of a text is minus its log perplexity; it sees no image.", AVERAGED),
)
ALL_METRICS = Declaration(
    id="thesis-A.1",
    title="All metrics on VALSE",
    sources={
        metric: locate_number("evaluation", metric, *TEXT_SETTINGS)
        for metric in ("acc_r", "acc", "p_c", "p_f", "min_pc_pf", "auroc")
    },
    rows=("metric", "model"),
    columns="dataset",
    model_kinds=(ENCODER, LANGUAGE),
    model_aliases={**CLIP_ALIASES, **GPT_ALIASES},
    known_reasons=NOT_REPRODUCIBLE,
    notes=PAIRWISE.notes,
)
DECODER_SCORES = {
    "acc_r": locate_number("evaluation", "acc_r", "pairwise"),
    "acc": locate_number("evaluation", "acc", "single"),
    "p_c": locate_number("evaluation", "p_c", "single"),
    "p_f": locate_number("evaluation", "p_f", "single"),
}
DECODERS = Declaration(
    id="thesis-3.5",
    title="VL decoders on all of VALSE",
    sources=DECODER_SCORES,
    rows=("metric", "model"),
    columns="dataset",
    model_kinds=(VISION,),
    adds_own_datasets=True,
    notes=("acc_r: which of caption and foil describes the image. p_c, p_f: whether a text does.", AVERAGED),
)
DECODERS_PAPER = Declaration(
    id="decoders-paper-1",
    title="VL decoders on all of VALSE, with mPLUG-Owl3",
    sources=DECODER_SCORES,
    rows=("metric", "model"),
    columns="dataset",
    model_kinds=(VISION,),
    notes=DECODERS.notes,
)


def _declare_probes(number: int, form: str) -> Declaration:
    """Declare a table of matching accuracy on CV-Probes."""
    return Declaration(
        id=f"cv-probes-{number}",
        title=f"Matching accuracy on CV-Probes, {form} captions",
        sources={"accuracy": (NumberSource("evaluation", "accuracy", (PAPER_SETTING,)),)},
        rows=("model",),
        columns="dataset",
        model_kinds=(ENCODER,),
        model_aliases=CV_PROBES_ALIASES,
        known_reasons=NOT_REPRODUCIBLE,
    )


ACCURACY_TABLES = (
    PAIRWISE,
    DECODERS,
    ALL_METRICS,
    DECODERS_PAPER,
    _declare_probes(3, "original"),
    _declare_probes(4, "simplified"),
)


ALIGNMENT = "alignment"
SHARE = (
    "T-SHAP: text's share of the magnitude of all Shapley values, in percent; the image's is 100 minus it. Its ± is the"
    " deviation over items."
)
SKEW = (NumberSource("derived", "mm_skew", (PAPER_SETTING,)),)


def _locate_t_shap(role: str, *settings: str) -> tuple[NumberSource, ...]:
    """Return the source of T-SHAP of texts of a role."""
    return locate_number("shares", f"t_shap:{role}", *settings)


QUESTIONS = Declaration(
    id="thesis-4.1",
    title="Encoders on questions and on texts of other images",
    sources={
        "accuracy": locate_number("evaluation", "accuracy", "answering", "open"),
        "t_shap": _locate_t_shap("answer", "answering", "open"),
        "p_c": locate_number("evaluation", "p_c", ALIGNMENT),
        "p_f": locate_number("evaluation", "p_f", ALIGNMENT),
        "acc_r": locate_number("evaluation", "acc_r", ALIGNMENT),
        "t_shap_c": _locate_t_shap("caption", ALIGNMENT),
        "t_shap_f": (*_locate_t_shap("mismatched", ALIGNMENT), *_locate_t_shap("foil", ALIGNMENT)),
    },
    rows=("model",),
    columns="metric",
    column_groups=("setting", "dataset"),
    model_kinds=(ENCODER,),
    model_aliases=CLIP_ALIASES,
    extra_models=LXMERT_ANSWERING,
    dataset_aliases={("vqa", "isa"): ("vqa-pairs",), ("gqa", "isa"): ("gqa-pairs",), ("mscoco", "isa"): ("mscoco",)},
    known_reasons=NOT_REPRODUCIBLE,
    notes=("isa: an image with a text of its own, and with one of another image.", SHARE),
)
ENCODER_SHARES = Declaration(
    id="thesis-4.2",
    title="Accuracy and T-SHAP of encoders on VALSE",
    sources={
        "acc_r": locate_number("evaluation", "acc_r", ALIGNMENT),
        "acc": locate_number("evaluation", "acc", ALIGNMENT),
        "t_shap_c": _locate_t_shap("caption", ALIGNMENT),
        "mm_skew": SKEW,
    },
    rows=("metric", "model"),
    columns="dataset",
    side_metrics=("mm_skew",),
    model_kinds=(ENCODER,),
    derived=("skew",),
    model_aliases=CLIP_ALIASES,
    known_reasons=NOT_REPRODUCIBLE,
    notes=(SHARE, AVERAGED),
)
ENCODER_SHARES_ALL = Declaration(
    id="thesis-B.1",
    title="All scores and T-SHAP of encoders on VALSE",
    sources={
        "acc_r": locate_number("evaluation", "acc_r", ALIGNMENT),
        "acc": locate_number("evaluation", "acc", ALIGNMENT),
        "p_c": locate_number("evaluation", "p_c", ALIGNMENT),
        "p_f": locate_number("evaluation", "p_f", ALIGNMENT),
        "t_shap_c": _locate_t_shap("caption", ALIGNMENT),
        "t_shap_f": _locate_t_shap("foil", ALIGNMENT),
        "mm_skew": SKEW,
    },
    rows=("metric", "model"),
    columns="dataset",
    side_metrics=("mm_skew",),
    model_kinds=(ENCODER,),
    derived=("skew",),
    model_aliases=CLIP_ALIASES,
    known_reasons=NOT_REPRODUCIBLE,
    notes=ENCODER_SHARES.notes,
)
DECODER_SHARES = Declaration(
    id="thesis-4.3",
    title="Accuracy and T-SHAP of VL decoders on VALSE",
    sources={
        "acc_r": locate_number("evaluation", "acc_r", "pairwise"),
        "p_c": locate_number("evaluation", "p_c", "single"),
        "p_f": locate_number("evaluation", "p_f", "single"),
        "t_shap_r": locate_number("shares", "t_shap:", "pairwise"),
        "t_shap_c": _locate_t_shap("caption", "single"),
        "t_shap_f": _locate_t_shap("foil", "single"),
    },
    rows=("metric", "model"),
    columns="dataset",
    model_kinds=(VISION,),
    notes=(
        SHARE,
        "Accuracies are over all items that were scored, T-SHAP over those that were attributed; the thesis takes 100.",
        AVERAGED,
    ),
)


def _declare_verbs(number: int, model: str, name: str, adds_other_models: bool = False) -> Declaration:
    """Declare a table of T-SHAP and the verb's contribution on CV-Probes."""
    return Declaration(
        id=f"cv-probes-{number}",
        title=f"T-SHAP and the verb's contribution on CV-Probes: {name}",
        sources={
            metric: (NumberSource("attribution", metric, (PAPER_SETTING,)),)
            for metric in ("t_shap_overall", "verb_shap", "verb_share")
        },
        rows=("model", "setting", "metric"),
        columns="dataset",
        model_kinds=(ENCODER,),
        model_aliases={model: CV_PROBES_ALIASES[model]} if model in CV_PROBES_ALIASES else {},
        adds_other_models=adds_other_models,
        known_reasons=NOT_REPRODUCIBLE,
        notes=("Rows name the class that the model predicts. The verb's contribution is in the unit of the score.",),
    )


SHARE_TABLES = (
    QUESTIONS,
    ENCODER_SHARES,
    DECODER_SHARES,
    ENCODER_SHARES_ALL,
    _declare_verbs(5, "blip", "BLIP", adds_other_models=True),
    _declare_verbs(6, "blip2", "BLIP 2"),
    _declare_verbs(7, "flava", "FLAVA"),
    _declare_verbs(10, "lxmert", "LXMERT"),
    _declare_verbs(11, "albef", "ALBEF"),
)


POST_HOC, COT = "post-hoc", "cot"
COT_TESTS = ("biasing_features", "early_answering", "filler_tokens", "adding_mistakes", "paraphrasing")
ANSWER_SETTINGS = ("choice", "answering", "open")
"""Settings of answers to questions."""
ACCURACY = (
    *locate_number("evaluation", "accuracy", *ANSWER_SETTINGS),
    *locate_number("evaluation", "acc_r", "pairwise"),
)
ACCURACY_AFTER_COT = (
    *locate_number("evaluation", "accuracy", *(f"{setting}-after-cot" for setting in ANSWER_SETTINGS)),
    *locate_number("evaluation", "acc_r", "pairwise-after-cot"),
)
TESTS = (
    "Tests: percent of the items with a verdict that are consistent. CC-SHAP: -1 to 1. ± is the deviation over seeds,"
    " where there are several."
)


def _locate_consistency(*metrics: str) -> dict[str, tuple[NumberSource, ...]]:
    """Return the sources of metrics of the consistency stage."""
    return {metric: (NumberSource("consistency", metric, (PAPER_SETTING,)),) for metric in metrics}


def _locate_correlations(metrics: Iterable[str]) -> dict[str, tuple[NumberSource, ...]]:
    """Return the sources of tests' correlations with CC-SHAP."""
    return {metric: (NumberSource("correlations", metric, (PAPER_SETTING,)),) for metric in metrics}


TEXT_METRICS = {
    "accuracy": ACCURACY,
    **_locate_consistency("counterfactual_edits", "input_from_explanation", "cc_shap_posthoc"),
    "accuracy_cot": ACCURACY_AFTER_COT,
    **_locate_consistency(*COT_TESTS, "cc_shap_cot"),
}
IMAGE_METRICS = {
    "accuracy": ACCURACY,
    "accuracy_cot": ACCURACY_AFTER_COT,
    **_locate_consistency("t_shap_prediction", "t_shap_explanation", "cc_shap_posthoc", "cc_shap_cot"),
    **_locate_consistency("counterfactual_edits", *COT_TESTS),
}
PAIR_METRICS = {
    "acc_r": locate_number("evaluation", "acc_r", "pairwise"),
    "acc_r_cot": locate_number("evaluation", "acc_r", "pairwise-after-cot"),
    **_locate_consistency("t_shap_prediction", "t_shap_explanation", "cc_shap_posthoc", "cc_shap_cot"),
    **_locate_consistency("counterfactual_edits", *COT_TESTS),
}


def _declare_seeds(
    part: str, title: str, kind: str, metrics: Iterable[str], rows: tuple[str, ...], columns: str
) -> Declaration:
    """Declare a table of the numbers of single seeds."""
    return Declaration(
        id=f"seeds-{part}",
        title=title,
        sources={metric: locate_number("derived", metric, PAPER_SETTING) for metric in metrics},
        rows=rows,
        columns=columns,
        model_kinds=(kind,),
        paper_table_ids=(),
        derived=("seeds",),
        extra_sources=("consistency",),
        marks_best=False,
        field_titles={"setting": "explanation, seed"},
        notes=(TESTS, "The papers plot deviations over three runs, without numbers."),
    )


def _declare_texts(number: str, title: str, *omitted_metrics: str) -> Declaration:
    """Declare a table of language models on text tasks."""
    return Declaration(
        id=f"thesis-{number}",
        title=title,
        sources={metric: places for metric, places in TEXT_METRICS.items() if metric not in omitted_metrics},
        rows=("dataset", "setting", "metric"),
        columns="model",
        model_kinds=(LANGUAGE,),
        notes=(TESTS,),
    )


def _declare_images(table: str, title: str) -> Declaration:
    """Declare a table of vision-language decoders on questions and captions."""
    return Declaration(
        id=table,
        title=title,
        sources=IMAGE_METRICS,
        rows=("setting", "metric", "model"),
        columns="dataset",
        model_kinds=(VISION,),
        dataset_aliases={name: (f"{name}-decoders",) for name in ("vqa", "gqa", "gqa-balanced")},
        notes=(TESTS, "Accuracy on MSCOCO is acc_r: a caption with one of another image."),
    )


def _declare_pairs(table: str, title: str) -> Declaration:
    """Declare a table of vision-language decoders on VALSE."""
    return Declaration(
        id=table,
        title=title,
        sources=PAIR_METRICS,
        rows=("setting", "metric", "model"),
        columns="dataset",
        model_kinds=(VISION,),
        notes=(TESTS, AVERAGED),
    )


TESTS_OVERVIEW = Declaration(
    id="thesis-5.1",
    title="The self-consistency tests",
    sources={
        metric: locate_number("derived", metric, PAPER_SETTING)
        for metric in ("changed", "consistent_where", "applies_to")
    },
    rows=("setting", "dataset"),
    columns="metric",
    paper_table_ids=(),
    derived=("tests",),
    profile_independent=True,
    field_titles={"dataset": "test", "setting": "explanation"},
)
RESCALED = Declaration(
    id="thesis-C.1",
    title="Tests and CC-SHAP averaged over all five text tasks",
    sources={"rescaled_average": locate_number("derived", "rescaled_average")},
    rows=("model",),
    columns="metric",
    model_kinds=(LANGUAGE,),
    paper_table_ids=("thesis-5.2", "thesis-C.2"),
    derived=("rescaled",),
    extra_sources=("consistency",),
    notes=(
        "CC-SHAP is moved from -1…1 to 0…100; tests and CC-SHAP are averaged in each data set, then data sets.",
        "The thesis plots bars without numbers: the paper values here are computed from Tables 5.2 and C.2.",
    ),
)
CORRELATIONS = Declaration(
    id="thesis-C.3",
    title="Correlation of CC-SHAP with the other tests",
    sources=_locate_correlations(("counterfactual_edits", *COT_TESTS, "input_from_explanation")),
    rows=("dataset", "setting", "metric"),
    columns="model",
    marks_best=False,
    model_kinds=(LANGUAGE,),
    notes=(
        "Point-biserial correlation times 100 over items; nan where a test or CC-SHAP is constant.",
        "The bar chart below the table in the thesis shows these cells.",
    ),
)
CONSISTENCY_TABLES = (
    TESTS_OVERVIEW,
    _declare_texts("5.2", "Language models: accuracy, tests and CC-SHAP on e-SNLI, disambiguation QA and ComVE"),
    _declare_images("thesis-5.5", "VL decoders: accuracy, T-SHAP, tests and CC-SHAP on questions and captions"),
    RESCALED,
    _declare_texts(
        "C.2",
        "Language models: accuracy, tests and CC-SHAP on causal judgement and logical deduction",
        "input_from_explanation",
    ),
    CORRELATIONS,
    _declare_pairs("thesis-C.25", "VL decoders: accuracy, T-SHAP, tests and CC-SHAP on VALSE"),
    _declare_seeds(
        "texts",
        "Language models: tests and CC-SHAP of each seed, and their deviation over seeds",
        LANGUAGE,
        ("counterfactual_edits", "input_from_explanation", *COT_TESTS, "cc_shap_posthoc", "cc_shap_cot"),
        rows=("dataset", "metric", "setting"),
        columns="model",
    ),
    _declare_seeds(
        "images",
        "VL decoders: tests, CC-SHAP and T-SHAP of each seed, and their deviation over seeds",
        VISION,
        (
            *("counterfactual_edits", *COT_TESTS, "cc_shap_posthoc", "cc_shap_cot"),
            *("t_shap_prediction", "t_shap_explanation"),
        ),
        rows=("metric", "setting", "model"),
        columns="dataset",
    ),
    _declare_images("decoders-paper-2", "VL decoders, with mPLUG-Owl3: accuracy, T-SHAP, tests and CC-SHAP"),
    _declare_pairs("decoders-paper-3", "VL decoders, with mPLUG-Owl3: accuracy, T-SHAP, tests and CC-SHAP on VALSE"),
)


RUNNING_TEXT = Declaration(
    id="running-text",
    title="Numbers in running text only",
    sources={
        "accuracy": (
            NumberSource("attribution", "accuracy", (PAPER_SETTING,)),
            NumberSource("attribution", "acc_r", (PAPER_SETTING,)),
        ),
        "perceptual_image": locate_number("attribution", "perceptual_image", PAPER_SETTING),
        "perceptual_text": locate_number("attribution", "perceptual_text", PAPER_SETTING),
        "t_shap": locate_number("shares", "t_shap:answer", "answering", "open"),
        "t_shap_sd": locate_number("derived", "t_shap_sd"),
        "rho_c": locate_number("derived", "rho_c"),
        "gruen_mean": locate_number("captions", "gruen_mean", PAPER_SETTING),
    },
    rows=("metric", "model", "dataset", "setting"),
    columns="profile",
    derived=("spread",),
    extra_models=LXMERT_ANSWERING,
    extra_sources=("shares",),
    adds_other_models=False,
    ragged=True,
    notes=(
        "accuracy: with one modality removed. ρ: rank correlation of a caption accepted as a match with its T-SHAP;"
        " the thesis says that it is about 0.02 for all models and rarely above 0.12.",
    ),
)
RUNNING_TEXT_TABLES = (RUNNING_TEXT,)


DOCUMENTS = ("thesis", "valse-paper", "decoders-paper", "cv-probes", "running-text", "seeds")


def _place(table: Declaration) -> tuple[int, list[tuple[int, int | str]]]:
    """Documents one after another, tables in the order of their numbers, appendices last."""
    document = next(place for place, name in enumerate(DOCUMENTS) if table.id.startswith(name))
    number = table.id.removeprefix(DOCUMENTS[document]).strip("-")
    return document, [(0, int(part)) if part.isdigit() else (1, part) for part in number.split(".")]


TABLES = {
    table.id: table
    for table in sorted(
        (*CONSTRUCTION_TABLES, *ACCURACY_TABLES, *SHARE_TABLES, *CONSISTENCY_TABLES, *RUNNING_TEXT_TABLES), key=_place
    )
}
"""By id."""
