"""Numbers of tables that are made from other numbers: sums, averages, what print leaves to the reader."""

from collections.abc import Callable, Mapping

import numpy as np

from waltz.attribution.t_shap import skew
from waltz.consistency.summary.rescaling import CC_SHAPS, SETTINGS, rescaled
from waltz.core.intervals import Measure
from waltz.instruments import INSTRUMENTS
from waltz.reporting.tables.cells import COMPARED_PROFILE
from waltz.reporting.tables.compare_to_paper import RANDOM, StudyFacts
from waltz.reporting.tables.declaration import AVERAGE, DERIVED, ENCODER, SETTING_SEPARATOR, VISION, Declaration
from waltz.reporting.tables.declared.construction import PIECES
from waltz.reporting.tables.numbers import DEVIATION, Number, Numbers, number_of_text
from waltz.reporting.tables.paper_values import Key, PaperValue

PrintedCells = Mapping[Key, PaperValue]
Derive = Callable[[Declaration, Numbers, PrintedCells, str, StudyFacts], Numbers]
"""From a table, our numbers, the printed ones, a profile and the study to more numbers."""

SOURCES = {"visual7w": "Visual7W", "coco-captions": "MSCOCO", "swig": "SWiG", "visdial": "VisDial v1.0"}
"""Printed name of each format of raw data."""
RELEASED = "the study takes finished items: it makes no foils of this piece"
TESTS = {
    "counterfactual_edits": (
        "an adjective or adverb is inserted into the input",
        "does not change its answer, or names the inserted word in the explanation of the new one",
        "all models",
    ),
    "input_from_explanation": (
        "the explanation takes the place of the sensible sentence",
        "answers with the nonsensical sentence",
        "language models, ComVE",
    ),
    "biasing_features": (
        "a remark suggests another answer",
        "keeps its answer, or tells of the remark",
        "all models",
    ),
    "early_answering": ("only the first third of the chain of thought is given", "changes its answer", "all models"),
    "filler_tokens": ("the chain of thought is replaced by fillers", "changes its answer", "all models"),
    "adding_mistakes": ("a mistake is put into the chain of thought", "changes its answer", "all models"),
    "paraphrasing": ("the chain of thought is paraphrased", "keeps its answer", "all models"),
}
"""What each test changes, when it finds a model consistent, and of whom it is asked (thesis 5.2)."""


def derive_numbers(
    declaration: Declaration, numbers: Numbers, printed: PrintedCells, profile: str, study: StudyFacts
) -> Numbers:
    """All numbers that a table asks to be made, beside those that are given."""
    found = dict(numbers)
    for name in declaration.derived:
        found |= DERIVED_NUMBERS[name](declaration, found, printed, profile, study)
    return found


def _sum_validation(_: Declaration, numbers: Numbers, printed: PrintedCells, profile: str, __: StudyFacts) -> Numbers:
    """The overall row of the validation, over all printed instruments."""
    names = list(dict.fromkeys(key[2] for key in printed if key[2] != "overall"))
    sums = {
        metric: _sum_measures([numbers.get(("validation", metric, "", name, "")) for name in names])
        for metric in ("instances", "valid", "unanimous")
    }
    whole = sums["valid" if profile == COMPARED_PROFILE else "instances"]
    shares = {
        "valid_percent": _divide_measures(sums["valid"], sums["instances"]),
        "unanimous_percent": _divide_measures(sums["unanimous"], whole),
    }
    undefined = Measure(None, 0, reason="not defined over all instruments")
    others = dict.fromkeys(("lexical_items", "js", "js_valid", "alpha", "alpha_valid"), undefined)
    return {
        ("validation", metric, "", "overall", ""): Number(measure)
        for metric, measure in {**sums, **shares, **others}.items()
    }


def _describe_pieces(_: Declaration, numbers: Numbers, __: PrintedCells, ___: str, study: StudyFacts) -> Numbers:
    """What the pieces of the study hold, and how their foils are made."""
    found: Numbers = {}
    for piece, names in PIECES.items():
        measure = _sum_measures([numbers.get(("validation", "valid", "", name, "")) for name in names])
        found[DERIVED, "examples", "", piece, ""] = Number(measure)
        built = [study.built[name] for name in names if name in study.built]
        missing = Number(Measure(None, 0, reason=RELEASED))
        flags = {"gruen": "grammaticality", "nli": "contradiction"}
        for metric, name in flags.items():
            uses = any(name in entry["filters"] for entry in built)  # type: ignore[operator]
            found[DERIVED, metric, "", piece, ""] = number_of_text("yes" if uses else "no") if built else missing
        proposes = any(INSTRUMENTS[name].proposal_key for name in names)
        found[DERIVED, "mlm", "", piece, ""] = number_of_text("yes" if proposes else "no") if built else missing
        formats = sorted({SOURCES.get(str(entry["format"]), str(entry["format"])) for entry in built})
        found[DERIVED, "source_dataset", "", piece, ""] = number_of_text(", ".join(formats)) if built else missing
        present = [name for name in names if ("validation", "valid", "", name, "") in numbers]
        found[DERIVED, "instruments", "", piece, ""] = number_of_text(", ".join(present)) if present else missing
    return found


def _select_examples(declaration: Declaration, numbers: Numbers, _: PrintedCells, __: str, ___: StudyFacts) -> Numbers:
    """Items of the instruments of the table's piece."""
    return {
        (DERIVED, metric, model, dataset, setting): number
        for name in declaration.example_datasets
        for (source, metric, model, dataset, setting), number in numbers.items()
        if source == "samples" and dataset == name
    }


def _place_verbs(_: Declaration, numbers: Numbers, printed: PrintedCells, __: str, study: StudyFacts) -> Numbers:
    """Our verb at the place of the printed one; ours in the order of their names where print is not compared."""
    ours = {place[4]: number for place, number in numbers.items() if place[:2] == ("probes", "verb")}
    if not study.compared:
        return {
            (DERIVED, "verb", "", "cv-probes", str(place)): ours[verb] for place, verb in enumerate(sorted(ours), 1)
        }
    return {
        (DERIVED, "verb", "", "cv-probes", key[3]): ours[cell.value]
        for key, cell in printed.items()
        if cell.value in ours
    }


def _describe_tests(_: Declaration, __: Numbers, ___: PrintedCells, ____: str, _____: StudyFacts) -> Numbers:
    """The overview of the tests."""
    return {
        (DERIVED, metric, "", test, SETTINGS[test]): number_of_text(text)
        for test, texts in TESTS.items()
        for metric, text in zip(("changed", "consistent_where", "applies_to"), texts, strict=True)
    }


def _describe_skew(_: Declaration, numbers: Numbers, printed: PrintedCells, __: str, study: StudyFacts) -> Numbers:
    """Where a model's average T-SHAP leans to, beside the row of captions and that of foils."""
    names = list(dict.fromkeys(key[2] for key in printed if key[2] != AVERAGE))
    found: Numbers = {}
    for model in study.models:
        for metric, role in (("t_shap_c", "caption"), ("t_shap_f", "foil")):
            parts = [numbers.get(("shares", f"t_shap:{role}", model, name, "alignment")) for name in names]
            values = [part.measure.value for part in parts if part is not None and part.measure.value is not None]
            if len(values) == len(names):
                text = skew(float(np.mean(values)) / 100)
                found[DERIVED, "mm_skew", model, AVERAGE, metric] = number_of_text(text, len(values))
            elif any(part is not None for part in parts):
                reason = f"not averaged: {len(names) - len(values)} of {len(names)} data sets have no T-SHAP"
                found[DERIVED, "mm_skew", model, AVERAGE, metric] = Number(Measure(None, len(values), reason=reason))
    return found


def _rescale_averages(_: Declaration, numbers: Numbers, __: PrintedCells, ___: str, study: StudyFacts) -> Numbers:
    """C.1 over the printed data sets; over those that the study has where it is not compared."""
    found: Numbers = {}
    for model in study.models:
        whole = numbers.get(("consistency", "rescaled_average", model, AVERAGE, ""))
        if whole is None:
            continue
        sets = {place[3] for place in numbers if place[0] == "consistency" and place[2] == model} - {AVERAGE}
        missing = [name for name in TEXT_TASKS if name not in sets]
        if study.compared and (missing or len(sets) > len(TEXT_TASKS)):
            reason = f"not averaged: {len(missing)} of {len(TEXT_TASKS)} data sets were not run"
            whole = Number(Measure(None, whole.measure.n, reason=reason))
        found[DERIVED, "rescaled_average", model, "", ""] = whole
    return found


def _spread_over_seeds(
    declaration: Declaration, numbers: Numbers, _: PrintedCells, __: str, study: StudyFacts
) -> Numbers:
    """Means over seeds, their deviations and the number of each seed; what a number is stands behind its setting."""
    found: Numbers = {}
    for (source, metric, model, dataset, setting), number in numbers.items():
        name, colon, ending = metric.partition(":")
        taken = study.models.get(model) in declaration.model_kinds
        if source != "consistency" or name not in declaration.sources or not taken:
            continue
        if not colon:
            found[DERIVED, name, model, dataset, setting] = number
        elif metric.removesuffix(DEVIATION) == name:
            found[DERIVED, name, model, dataset, f"{setting}{SETTING_SEPARATOR}deviation"] = number
        elif ending.startswith("seed="):
            found[DERIVED, name, model, dataset, f"{setting}{SETTING_SEPARATOR}{ending.replace('=', ' ')}"] = number
    return found


def _average_spreads(_: Declaration, numbers: Numbers, __: PrintedCells, ___: str, study: StudyFacts) -> Numbers:
    """Mean deviation of T-SHAP over items, and mean rank correlation, over models of a kind and data sets."""
    found: Numbers = {}
    for kind, name in ((ENCODER, "encoders"), (VISION, "decoders")):
        of = {place: number for place, number in numbers.items() if study.models.get(place[2]) == kind}
        spreads = [n.sd for place, n in of.items() if place[1].startswith("t_shap:") and n.sd is not None]
        if spreads:
            found[DERIVED, "t_shap_sd", name, "", ""] = Number(Measure(float(np.mean(spreads)), len(spreads)))
        rhos = [n.measure.value for place, n in of.items() if place[1] == "rho:caption"]
        known = [rho for rho in rhos if rho is not None]
        if known:
            found[DERIVED, "rho_c", name, "", ""] = Number(Measure(float(np.mean(known)), len(known)))
    return found


TEXT_TASKS = ("e-snli", "disambiguation-qa", "comve", "causal-judgement", "logical-deduction")
DERIVED_NUMBERS: dict[str, Derive] = {
    "overall": _sum_validation,
    "pieces": _describe_pieces,
    "samples": _select_examples,
    "verbs": _place_verbs,
    "tests": _describe_tests,
    "skew": _describe_skew,
    "rescaled": _rescale_averages,
    "seeds": _spread_over_seeds,
    "spread": _average_spreads,
}
"""By the name that declarations use."""


def derive_paper_averages(printed: PrintedCells) -> dict[Key, PaperValue]:
    """C.1 as the printed Tables 5.2 and C.2 give it, a cell a model."""
    found = {}
    for model in dict.fromkeys(key[1] for key in printed if key[1] != RANDOM):
        cells = {
            (key[2], key[0]): Measure(float(cell.value), 1)
            for key, cell in printed.items()
            if key[1] == model and (key[0] in SETTINGS or key[0] in CC_SHAPS.values())
        }
        value = rescaled(cells, tuple(CC_SHAPS.values())).value
        key = ("rescaled_average", model, "", "")
        note = "made from the printed Tables 5.2 and C.2: the figure has no numbers"
        found[key] = PaperValue(key, f"{value:.1f}", "percent", note)
    return found


def _sum_measures(parts: list[Number | None]) -> Measure:
    present = [part.measure for part in parts if part is not None and part.measure.value is not None]
    if len(present) < len(parts):
        return Measure(None, 0, reason="not summed: the study does not hold all instruments with their votes")
    return Measure(sum(part.value or 0.0 for part in present), sum(part.n for part in present))


def _divide_measures(part: Measure, whole: Measure) -> Measure:
    if part.value is None or not whole.value:
        return Measure(None, 0, reason=part.reason or whole.reason)
    return Measure(100 * part.value / whole.value, int(whole.value))
