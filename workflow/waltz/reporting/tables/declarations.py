"""All tables of the report: those of the papers, two of single seeds, which they only plot, and of measurements."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from waltz.consistency.metrics import RESCALED_AVERAGES, SHARED, T_SHAP_COLUMNS
from waltz.reporting.tables.cells import COMPARED_PROFILE
from waltz.reporting.tables.declaration import (
    ENCODER,
    LANGUAGE,
    PAPER_SETTING,
    VISION,
    Declaration,
    NumberSource,
    locate_number,
    locate_numbers,
)

# The models of the papers

CLIP_ALIASES = {"clip": ("clip", "clip-vit-base-patch32")}
CV_PROBES_ALIASES = {
    **CLIP_ALIASES,
    "blip": ("blip", "blip-itm-base-coco"),
    "blip2": ("blip2", "blip2-itm-vit-g"),
    "albef": ("albef", "albef-mscoco"),
}
"""Encoders of CV-Probes."""
CV_PROBES_CHECKPOINTS = (
    "The paper names no checkpoints. Ours: lxmert, albef-mscoco, blip-itm-base-coco, blip2-itm-vit-g, flava. The paper"
    ' compares ViT-g with "ViT-B or ViT-L used in other models"; only BLIP has a ViT-L, so that its BLIP may be'
    " blip-itm-large-coco."
)
TWELVE_IN_ONE_ALIASES = {"vilbert-12in1": ("vilbert-12in1-itm",)}
"""The papers use the alignment head of 12-in-1 (thesis 3.5.1, VALSE appendix D); `vilbert-12in1` is its retrieval
head."""
GPT_ALIASES = {"gpt1": ("gpt1",), "gpt2": ("gpt2-large",)}
"""GPT1 and GPT2 of the VALSE tables; the GPT2 of Table 5.2 is the small one."""
LXMERT_ANSWERING = {"lxmert": ("lxmert-vqa", "lxmert-gqa")}
"""LXMERT's checkpoints that answer questions, in addition to the one that aligns."""
VISUALBERT_INPUT = {
    "visualbert": "the thesis gives it two sentences (3.5.4, footnote 12), ours are scored one at a time; its regions"
    " are of LXMERT's detector, not of the one that it was trained with",
}
"""How the input of VisualBERT differs from the thesis's."""
NOT_REPRODUCIBLE = {"albef-vqa": "not reproducible: the checkpoint has no ITM head"}

# How the benchmark is built: thesis 3.1, A.2 to A.8, CV-Probes 1 and 2, the sources of VALSE's images

PIECES = {
    "existence": ("existence",),
    "plurality": ("plurality",),
    "counting": ("counting-balanced", "counting-adversarial", "counting-small"),
    "relations": ("relations",),
    "actions": ("action-replacement", "actant-swap"),
    "coreference": ("coreference-standard", "coreference-clean"),
}
"""Instruments by piece, in the order of the paper."""

PIECES_OVERVIEW = Declaration(
    id="thesis-3.1",
    title="The pieces of VALSE",
    sources=locate_numbers(
        "derived", ("instruments", "examples", "foil_generation_method", "mlm", "gruen", "nli", "source_dataset")
    ),
    rows=("metric",),
    derived=("pieces",),
    only_profile=COMPARED_PROFILE,
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
VALIDATION = Declaration(
    id="thesis-A.2",
    title="Manual validation of each instrument",
    sources=locate_numbers(
        "validation",
        (
            *("instances", "valid", "valid_percent", "unanimous", "unanimous_percent", "lexical_items"),
            *("js", "js_valid", "alpha", "alpha_valid"),
        ),
    ),
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
EXAMPLES = tuple(
    Declaration(
        id=f"thesis-{number}",
        title=f"Items of the piece {piece}",
        sources=locate_numbers("derived", ("caption", "foil", "image"), PAPER_SETTING),
        rows=("dataset", "setting"),
        columns="metric",
        paper_table_ids=(),
        derived=("samples",),
        only_profile=COMPARED_PROFILE,
        field_titles={"dataset": "instrument", "setting": "item"},
        extra_sources=("samples",),
        example_datasets=instruments,
        notes=("Ours are the first valid items in the order of their ids; the thesis shows hand-picked ones.",),
    )
    for number, (piece, instruments) in zip(("A.3", "A.4", "A.5", "A.6", "A.7", "A.8"), PIECES.items(), strict=True)
)
IMAGES = Declaration(
    id="valse-paper-1",
    title="Where the images of VALSE's pieces come from",
    sources=locate_numbers("derived", ("image_source",)),
    rows=("metric",),
    only_profile=COMPARED_PROFILE,
    known_reasons={"image_source": "not measured: sources say which files they are, not where their images are from"},
)
VERBS = Declaration(
    id="cv-probes-1",
    title="Context-dependent verbs of CV-Probes",
    sources=locate_numbers("derived", ("verb",), PAPER_SETTING),
    rows=("setting",),
    columns="metric",
    derived=("verbs",),
    only_profile=COMPARED_PROFILE,
    field_titles={"setting": "number"},
    extra_sources=("probes",),
    notes=("Ours stands next to the paper's verb where the study's items hold it; the paper names lemmas.",),
)
PAIRS = Declaration(
    id="cv-probes-2",
    title="Image-caption pairs of CV-Probes",
    sources=locate_numbers("probes", ("image_caption_pairs",), PAPER_SETTING),
    rows=("setting",),
    columns="metric",
    only_profile=COMPARED_PROFILE,
    field_titles={"setting": "captions"},
)

# Accuracy: thesis 3.4, 3.5, A.1, the decoders paper's 1, CV-Probes 3 and 4

ALIGNMENT = "alignment"
TEXT_SETTINGS = (ALIGNMENT, "perplexity")
"""Settings of scores of single texts."""
AVERAGED = "The average weighs each data set the same; its ± is the deviation over data sets."

PAIRWISE = Declaration(
    id="thesis-3.4",
    title="Pairwise ranking accuracy on VALSE",
    sources=locate_numbers("evaluation", ("acc_r", "acc", "min_pc_pf", "auroc"), *TEXT_SETTINGS),
    model_kinds=(ENCODER, LANGUAGE),
    model_aliases={**CLIP_ALIASES, **TWELVE_IN_ONE_ALIASES, **GPT_ALIASES},
    known_reasons=NOT_REPRODUCIBLE,
    model_notes=VISUALBERT_INPUT,
    adds_own_datasets=True,
    notes=(
        "A language model's score of a text is minus its log perplexity; it sees no image.",
        "12-in-1 is read through its alignment head, as the papers state; its retrieval head has a row of its own.",
        AVERAGED,
    ),
)
ALL_METRICS = replace(
    PAIRWISE,
    id="thesis-A.1",
    title="All metrics on VALSE",
    sources=locate_numbers("evaluation", ("acc_r", "acc", "p_c", "p_f", "min_pc_pf", "auroc"), *TEXT_SETTINGS),
    adds_own_datasets=False,
)
DECODERS = Declaration(
    id="thesis-3.5",
    title="VL decoders on all of VALSE",
    sources={
        **locate_numbers("evaluation", ("acc_r",), "pairwise"),
        **locate_numbers("evaluation", ("acc", "p_c", "p_f"), "single"),
    },
    model_kinds=(VISION,),
    adds_own_datasets=True,
    notes=("acc_r: which of caption and foil describes the image. p_c, p_f: whether a text does.", AVERAGED),
)
DECODERS_PAPER = replace(
    DECODERS, id="decoders-paper-1", title="VL decoders on all of VALSE, with mPLUG-Owl3", adds_own_datasets=False
)
PROBES = tuple(
    Declaration(
        id=f"cv-probes-{number}",
        title=f"Matching accuracy on CV-Probes, {form} captions",
        sources=locate_numbers("evaluation", ("accuracy",), PAPER_SETTING),
        rows=("model",),
        model_kinds=(ENCODER,),
        model_aliases=CV_PROBES_ALIASES,
        known_reasons=NOT_REPRODUCIBLE,
        notes=(CV_PROBES_CHECKPOINTS,),
    )
    for number, form in ((3, "original"), (4, "simplified"))
)

# Contributions of text and image: thesis 4.1 to 4.3, B.1, CV-Probes 5 to 7, 10 and 11

SHARE = (
    "T-SHAP: text's share of the magnitude of all Shapley values, in percent; the image's is 100 minus it. Its ± is the"
    " deviation over items."
)
CAPTION_SHARE = locate_number("shares", "t_shap:caption", ALIGNMENT)
FOIL_SHARE = locate_number("shares", "t_shap:foil", ALIGNMENT)
SKEW = locate_numbers("derived", ("mm_skew",), PAPER_SETTING)

QUESTIONS = Declaration(
    id="thesis-4.1",
    title="Encoders on questions and on texts of other images",
    sources={
        "accuracy": locate_number("evaluation", "accuracy", "answering", "open"),
        "t_shap": locate_number("shares", "t_shap:answer", "answering", "open"),
        **locate_numbers("evaluation", ("p_c", "p_f", "acc_r"), ALIGNMENT),
        "t_shap_c": CAPTION_SHARE,
        "t_shap_f": (*locate_number("shares", "t_shap:mismatched", ALIGNMENT), *FOIL_SHARE),
    },
    rows=("model",),
    columns="metric",
    column_groups=("setting", "dataset"),
    model_kinds=(ENCODER,),
    model_aliases=CLIP_ALIASES,
    extra_models=LXMERT_ANSWERING,
    dataset_aliases={
        ("vqa", "isa"): ("vqa-pairs-released", "vqa-pairs"),
        ("gqa", "isa"): ("gqa-pairs-released", "gqa-pairs"),
        ("mscoco", "isa"): ("mscoco-released", "mscoco"),
    },
    known_reasons=NOT_REPRODUCIBLE,
    notes=(
        "isa: an image with a text of its own, and with one of another image. MSCOCO is 1,500 images of the"
        " validation set by the thesis and in profile `equations`, 1,000 captions of FOIL-it in the released code and"
        " `published`.",
        SHARE,
    ),
)
ENCODER_SHARES = Declaration(
    id="thesis-4.2",
    title="Accuracy and T-SHAP of encoders on VALSE",
    sources={
        **locate_numbers("evaluation", ("acc_r", "acc"), ALIGNMENT),
        "t_shap_c": CAPTION_SHARE,
        **SKEW,
    },
    side_metrics=("mm_skew",),
    model_kinds=(ENCODER,),
    derived=("skew",),
    model_aliases=CLIP_ALIASES,
    known_reasons=NOT_REPRODUCIBLE,
    notes=(SHARE, AVERAGED),
)
ENCODER_SHARES_ALL = replace(
    ENCODER_SHARES,
    id="thesis-B.1",
    title="All scores and T-SHAP of encoders on VALSE",
    sources={
        **locate_numbers("evaluation", ("acc_r", "acc", "p_c", "p_f"), ALIGNMENT),
        "t_shap_c": CAPTION_SHARE,
        "t_shap_f": FOIL_SHARE,
        **SKEW,
    },
)
DECODER_SHARES = Declaration(
    id="thesis-4.3",
    title="Accuracy and T-SHAP of VL decoders on VALSE",
    sources={
        **locate_numbers("evaluation", ("acc_r",), "pairwise"),
        **locate_numbers("evaluation", ("p_c", "p_f"), "single"),
        "t_shap_r": locate_number("shares", "t_shap:", "pairwise"),
        "t_shap_c": locate_number("shares", "t_shap:caption", "single"),
        "t_shap_f": locate_number("shares", "t_shap:foil", "single"),
    },
    model_kinds=(VISION,),
    notes=(
        SHARE,
        "Accuracies are over all items that were scored, as in the released script; T-SHAP is over those that were"
        " attributed. The caption says 100 items. acc_r of the thesis mostly repeats Table C.25's, which is over the"
        " items of the tests.",
        AVERAGED,
    ),
)
VERB_SHARES = tuple(
    Declaration(
        id=f"cv-probes-{number}",
        title=f"T-SHAP and the verb's contribution on CV-Probes: {name}",
        sources=locate_numbers("attribution", ("t_shap_overall", "verb_shap", "verb_share"), PAPER_SETTING),
        rows=("model", "setting", "metric"),
        model_kinds=(ENCODER,),
        model_aliases={model: CV_PROBES_ALIASES[model]} if model in CV_PROBES_ALIASES else {},
        adds_other_models=number == 5,
        known_reasons=NOT_REPRODUCIBLE,
        notes=(
            "Rows name the class that the model predicts. The verb's contribution is in the unit of the score.",
            CV_PROBES_CHECKPOINTS,
        ),
    )
    for number, model, name in (
        (5, "blip", "BLIP"),
        (6, "blip2", "BLIP 2"),
        (7, "flava", "FLAVA"),
        (10, "lxmert", "LXMERT"),
        (11, "albef", "ALBEF"),
    )
)

# Self-consistency: thesis 5.1, 5.2, 5.5, C.1 to C.3, C.25, the decoders paper's 2 and 3, and single seeds, whose
# numbers the papers only plot (thesis C.2, C.4, C.5; decoders paper 7, 8)

POST_HOC_TESTS = ("counterfactual_edits", "input_from_explanation")
COT_TESTS = ("biasing_features", "early_answering", "filler_tokens", "adding_mistakes", "paraphrasing")
CC_SHAPS = ("cc_shap_posthoc", "cc_shap_cot")
ANSWER_SETTINGS = ("choice", "answering", "open")
"""Settings of answers to questions."""
ACCURACY = locate_number("evaluation", "accuracy", *ANSWER_SETTINGS)
ACCURACY_AFTER_COT = locate_number("evaluation", "accuracy", *(f"{setting}-after-cot" for setting in ANSWER_SETTINGS))
TESTED_ACCURACY = (
    *locate_number("consistency", "accuracy", PAPER_SETTING),
    *locate_number("evaluation", "acc_r", "pairwise"),
)
"""Accuracy of VL decoders in choosing between two texts, of the items of the tests where the model was tested."""
TESTED_ACCURACY_AFTER_COT = (
    *locate_number("consistency", "accuracy_cot", PAPER_SETTING),
    *locate_number("evaluation", "acc_r", "pairwise-after-cot"),
)
TESTS = (
    "Tests: percent of the items with a verdict that are consistent. CC-SHAP: -1 to 1. ± is the deviation over seeds,"
    " where there are several."
)


def _locate_consistency(*metrics: str) -> dict[str, tuple[NumberSource, ...]]:
    """Return the sources of metrics of the consistency stage."""
    return locate_numbers("consistency", metrics, PAPER_SETTING)


TEXT_METRICS = {
    "accuracy": ACCURACY,
    **_locate_consistency(*POST_HOC_TESTS, "cc_shap_posthoc"),
    "accuracy_cot": ACCURACY_AFTER_COT,
    **_locate_consistency(*COT_TESTS, "cc_shap_cot"),
}
VISION_METRICS = {
    **{
        metric: tuple(NumberSource("consistency", metric + suffix, (PAPER_SETTING,)) for suffix in ("", SHARED))
        for metric in T_SHAP_COLUMNS
    },
    **_locate_consistency(*CC_SHAPS, "counterfactual_edits", *COT_TESTS),
}
PLAYERS = (
    "T-SHAP: all tokens of the prompt are players in `published`, as in Table 4.3 in both profiles; in `equations`"
    " those that the prompts of answer and explanation share (metrics `t_shap_prediction_shared`,"
    " `t_shap_explanation_shared`)."
)

TESTS_OVERVIEW = Declaration(
    id="thesis-5.1",
    title="The self-consistency tests",
    sources=locate_numbers("derived", ("changed", "consistent_where", "applies_to"), PAPER_SETTING),
    rows=("setting", "dataset"),
    columns="metric",
    paper_table_ids=(),
    derived=("tests",),
    only_profile=COMPARED_PROFILE,
    field_titles={"dataset": "test", "setting": "explanation"},
)
TEXT_TASKS = Declaration(
    id="thesis-5.2",
    title="Language models: accuracy, tests and CC-SHAP on e-SNLI, disambiguation QA and ComVE",
    sources=TEXT_METRICS,
    rows=("dataset", "setting", "metric"),
    columns="model",
    model_kinds=(LANGUAGE,),
    notes=(TESTS,),
)
FURTHER_TEXT_TASKS = replace(
    TEXT_TASKS,
    id="thesis-C.2",
    title="Language models: accuracy, tests and CC-SHAP on causal judgement and logical deduction",
    sources={metric: places for metric, places in TEXT_METRICS.items() if metric != "input_from_explanation"},
)
RESCALED = Declaration(
    id="thesis-C.1",
    title="Tests and CC-SHAP averaged over all five text tasks",
    sources=locate_numbers("derived", RESCALED_AVERAGES),
    rows=("model",),
    columns="metric",
    model_kinds=(LANGUAGE,),
    paper_table_ids=("thesis-5.2", "thesis-C.2"),
    derived=("rescaled",),
    extra_sources=("consistency",),
    notes=(
        "CC-SHAP is moved from -1…1 to 0…100; measures are averaged in each data set, then data sets.",
        "The thesis plots bars without numbers: the paper values here are computed from Tables 5.2 and C.2.",
    ),
)
CORRELATIONS = Declaration(
    id="thesis-C.3",
    title="Correlation of CC-SHAP with the other tests",
    sources=locate_numbers(
        "correlations", ("counterfactual_edits", *COT_TESTS, "input_from_explanation"), PAPER_SETTING
    ),
    rows=("dataset", "setting", "metric"),
    columns="model",
    marks_best=False,
    model_kinds=(LANGUAGE,),
    notes=(
        "Point-biserial correlation times 100 over items; nan where a test or CC-SHAP is constant.",
        "The bar chart below the table in the thesis shows these cells.",
    ),
)
VISION_TASKS = Declaration(
    id="thesis-5.5",
    title="VL decoders: accuracy, T-SHAP, tests and CC-SHAP on questions and captions",
    sources={
        "accuracy": (*ACCURACY, *TESTED_ACCURACY),
        "accuracy_cot": (*ACCURACY_AFTER_COT, *TESTED_ACCURACY_AFTER_COT),
        **VISION_METRICS,
    },
    rows=("setting", "metric", "model"),
    model_kinds=(VISION,),
    dataset_aliases={
        **{name: (f"{name}-decoders",) for name in ("vqa", "gqa", "gqa-balanced")},
        "mscoco": ("mscoco-released-decoders", "mscoco"),
    },
    notes=(
        TESTS,
        PLAYERS,
        "Accuracy of questions is over the answers of stage evaluation. On MSCOCO it is acc_r, a caption with one of"
        " another image, over the items of the tests; for a model without tests, over all items that were scored.",
    ),
)
VISION_TASKS_PAPER = replace(
    VISION_TASKS,
    id="decoders-paper-2",
    title="VL decoders, with mPLUG-Owl3: accuracy, T-SHAP, tests and CC-SHAP",
)
TESTED_ITEMS = (
    "acc_r is over the items of the tests, with their orders of options; for a model without tests, over all items that"
    " were scored, with the orders of Table 3.5."
)
VALSE_TESTS = Declaration(
    id="thesis-C.25",
    title="VL decoders: accuracy, T-SHAP, tests and CC-SHAP on VALSE",
    sources={"acc_r": TESTED_ACCURACY, "acc_r_cot": TESTED_ACCURACY_AFTER_COT, **VISION_METRICS},
    rows=("setting", "metric", "model"),
    model_kinds=(VISION,),
    notes=(TESTS, PLAYERS, TESTED_ITEMS, AVERAGED),
)
VALSE_TESTS_PAPER = replace(
    VALSE_TESTS,
    id="decoders-paper-3",
    title="VL decoders, with mPLUG-Owl3: accuracy, T-SHAP, tests and CC-SHAP on VALSE",
)


def _declare_seeds(
    part: str, title: str, kind: str, metrics: Iterable[str], rows: tuple[str, ...], columns: str
) -> Declaration:
    """Declare a table of the numbers of single seeds."""
    return Declaration(
        id=f"seeds-{part}",
        title=f"{title} of each seed, and their deviation over seeds",
        sources=locate_numbers("derived", metrics, PAPER_SETTING),
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


SEED_ACCURACIES = ("accuracy", "accuracy_cot")
"""Accuracies of the answers that the tests start from, before and after a chain of thought; on pairs acc_r."""
SEEDS = (
    _declare_seeds(
        "images",
        "VL decoders: accuracy, tests, CC-SHAP and T-SHAP",
        VISION,
        (*SEED_ACCURACIES, "counterfactual_edits", *COT_TESTS, *CC_SHAPS, "t_shap_prediction", "t_shap_explanation"),
        rows=("metric", "setting", "model"),
        columns="dataset",
    ),
    _declare_seeds(
        "texts",
        "Language models: accuracy, tests and CC-SHAP",
        LANGUAGE,
        (*SEED_ACCURACIES, *POST_HOC_TESTS, *COT_TESTS, *CC_SHAPS),
        rows=("dataset", "metric", "setting"),
        columns="model",
    ),
)

# Paper values that occur in running text only

RUNNING_TEXT = Declaration(
    id="running-text",
    title="Numbers in running text only",
    sources={
        "accuracy": (
            *locate_number("attribution", "accuracy", PAPER_SETTING),
            *locate_number("attribution", "acc_r", PAPER_SETTING),
        ),
        **locate_numbers("attribution", ("perceptual_image", "perceptual_text"), PAPER_SETTING),
        "t_shap": locate_number("shares", "t_shap:answer", "answering", "open"),
        **locate_numbers("derived", ("t_shap_sd", "rho_c")),
        **locate_numbers("captions", ("gruen_mean",), PAPER_SETTING),
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

# What the measures are worth: one table a measurement

OF_ITEMS = "T-SHAP is in percent, differences and errors in points; intervals are over scenes."


def _declare_measurement(
    measurement: str,
    title: str,
    metrics: Iterable[str],
    varied: str,
    *notes: str,
    rows: tuple[str, ...] = ("model", "setting"),
    columns: str = "metric",
    quantities: Mapping[str, str] | None = None,
) -> Declaration:
    """Declare the table of one measurement of the measures.

    Args:
        measurement: Name of its file.
        metrics: Its quantities, in order.
        varied: What the setting names.
        quantities: Names of quantities in the file, by metric, that differ from it.
    """
    names = {metric: (quantities or {}).get(metric, metric) for metric in metrics}
    return Declaration(
        id=f"measures-{measurement.replace('_', '-')}",
        title=title,
        sources={metric: locate_number(measurement, name, PAPER_SETTING) for metric, name in names.items()},
        rows=rows,
        columns=columns,
        paper_table_ids=(),
        ragged=True,
        marks_best=False,
        only_profile="equations",
        field_titles={"setting": varied},
        notes=(*notes, "docs/explanation/measures.md and calibration.md say what follows from it."),
    )


MEASUREMENTS = {
    "bias": _declare_measurement(
        "bias",
        "Bias and error of T-SHAP from few evaluations, against exact values",
        (
            *("t_shap", "t_shap_corrected", "bias", "bias_corrected"),
            *("bias_towards_players", "bias_towards_players_corrected"),
            *("error", "error_corrected", "covered", "evaluations_for_1_point"),
        ),
        "permutations, estimator",
        OF_ITEMS,
        "Permutations: all is the exact value. Evaluations for ± 1 point: of one item, in 95 of 100 draws.",
    ),
    "controls": _declare_measurement(
        "controls",
        "T-SHAP and CC-SHAP where there is nothing to find",
        ("t_shap", "t_shap_difference", "t_shap_sd_networks", "correlation", "cc_shap", "cc_shap_excess"),
        "control",
        OF_ITEMS,
    ),
    "multiverse": _declare_measurement(
        "multiverse",
        "Choices that papers leave open, and the rankings that survive them",
        ("t_shap", "t_shap_difference", "kendall_tau", "ranking_survives"),
        "choice",
        OF_ITEMS,
        "Rankings are those of data sets by mean T-SHAP; without a model, that of models. Of choices that are crossed"
        " the table has the means over all, and over those with a level; the file has each.",
    ),
    "released_faults": _declare_measurement(
        "released_faults",
        "Deviations of the released code from the definitions, one by one",
        [
            f"{quantity}{suffix}"
            for quantity in ("t_shap_c", "t_shap_f", "t_shap_answer", "t_shap_explanation", "cc_shap")
            for suffix in ("", "_difference", "_absolute_difference")
        ],
        "fault",
        OF_ITEMS,
        "Differences are those of the same items with no fault. Encoders have T-SHAP of caption and foil; decoders have"
        " T-SHAP of answer and explanation, and CC-SHAP, over post-hoc explanations and chains of thought.",
        "Faults of outputs and prompts have no meaning for encoders; the old split has none for CC-SHAP.",
        rows=("metric", "model", "setting"),
        columns="dataset",
    ),
    "ground_truth": _declare_measurement(
        "ground_truth",
        "T-SHAP where the share of text is known: rulers, and built games",
        ("t_shap", "known_share", "t_shap_difference", "error", "ordered"),
        "estimator, players",
        OF_ITEMS,
        rows=("model", "dataset", "setting"),
    ),
    "calibration": _declare_measurement(
        "calibration",
        "Self-consistency tests and CC-SHAP on constructed decoders",
        ("specificity", "sensitivity", "cc_shap", "auroc"),
        "profile, test",
        "Specificity: items of faithful decoders that are called consistent; sensitivity: items of the others that are"
        " called inconsistent.",
        rows=("metric", "setting"),
        columns="model",
    ),
    "ceiling": _declare_measurement(
        "ceiling",
        "Agreement of attributions that are drawn twice, and the ceiling of CC-SHAP",
        (
            *("cc_shap", "cc_shap_crossed", "retest_answer", "retest_explanation"),
            *("split_halves", "ceiling", "share_of_ceiling", "skipped"),
        ),
        "permutations",
        quantities={
            "cc_shap_crossed": "cc_shap crossed",
            "retest_answer": "retest of answer",
            "retest_explanation": "retest of explanation",
            "split_halves": "split halves",
            "share_of_ceiling": "share of ceiling",
        },
    ),
    "plausibility": _declare_measurement(
        "plausibility",
        "acc_r where a language model finds caption and foil equally likely",
        ("acc_r", "acc_r_equal", "acc_r_matched", "likelihood_difference"),
        "filters",
        "Matched items are the third with the smallest differences of log-likelihood.",
        rows=("dataset", "model", "setting"),
        quantities={
            "acc_r_equal": "acc_r at equal likelihood",
            "acc_r_matched": "acc_r matched",
            "likelihood_difference": "difference",
        },
    ),
    "power": _declare_measurement(
        "power",
        "Smallest differences between two models that paired tests detect",
        ("discordant", "design_effect", "acc_r_difference", "acc_r_detectable", "acc_difference", "acc_detectable"),
        "items",
        rows=("dataset", "model", "setting"),
        quantities={"design_effect": "design effect"}
        | {
            metric: metric.replace("_diff", " diff").replace("_detect", " detect")
            for metric in ("acc_r_difference", "acc_r_detectable", "acc_difference", "acc_detectable")
        },
    ),
}
"""By measurement, in the order of the report."""

# In the order of the report: the thesis, then the other papers, then the measures

TABLES = {
    table.id: table
    for table in (
        *(PIECES_OVERVIEW, PAIRWISE, DECODERS),
        *(QUESTIONS, ENCODER_SHARES, DECODER_SHARES),
        *(TESTS_OVERVIEW, TEXT_TASKS, VISION_TASKS),
        *(ALL_METRICS, VALIDATION, *EXAMPLES, ENCODER_SHARES_ALL),
        *(RESCALED, FURTHER_TEXT_TASKS, CORRELATIONS, VALSE_TESTS),
        *(IMAGES, DECODERS_PAPER, VISION_TASKS_PAPER, VALSE_TESTS_PAPER),
        *(VERBS, PAIRS, *PROBES, *VERB_SHARES),
        *(RUNNING_TEXT, *SEEDS),
        *MEASUREMENTS.values(),
    )
}
"""By id."""
