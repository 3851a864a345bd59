"""Our numbers by the places that declarations name: read from result files, or derived from other numbers."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from waltz.attribution.t_shap import classify_skew
from waltz.consistency.metrics import (
    CC_SHAP_METRICS,
    RESCALED_AVERAGES,
    SETTING_OF_TEST,
    SHARED,
    compute_rescaled_average,
    select_rescaled,
)
from waltz.core.files import parquet
from waltz.core.intervals import Measure
from waltz.core.schema import BENCHMARK, CONDITIONS, MEASURES, METRICS, PROBE_CAPTIONS, SHARES, STATISTICS, Layout
from waltz.instruments import INSTRUMENTS
from waltz.measures.rows import SINGLE
from waltz.reporting.tables.cells import COMPARED_PROFILE
from waltz.reporting.tables.declaration import (
    AVERAGE,
    DERIVED,
    ENCODER,
    PAPER_SETTING,
    SETTING_SEPARATOR,
    VISION,
    Declaration,
)
from waltz.reporting.tables.declarations import MEASUREMENTS, PIECES
from waltz.reporting.tables.paper_values import RANDOM, Key, PaperValue

Row = Mapping[str, Any]
Place = tuple[str, str, str, str, str]
"""Kind of file, metric, model, data set, setting."""
Position = tuple[str, str, str]
"""Metric, data set, setting of a cell."""
DEVIATION = ":sd"
UNDEFINED = "nan"
"""Text of a correlation that is not defined, as in the papers."""
EXAMPLES = 5
"""Items of an instrument in a table of examples."""


@dataclass(frozen=True)
class Number:
    """One number of ours, or a text that stands in place of one.

    Attributes:
        measure: The number, or the reason why there is none.
        sd: Standard deviation: over items (T-SHAP), over seeds (tests), over data sets (averages).
        text: Text shown in place of a number.
    """

    measure: Measure
    sd: float | None = None
    text: str = ""


Numbers = dict[Place, Number]


@dataclass(frozen=True)
class StudyFacts:
    """Facts about a study that all of its tables need.

    Attributes:
        models: ENCODER, LANGUAGE or VISION by name of a model, in order.
        compared: Whether the study's data are those of the papers; synthetic scenes are not.
        confidence: Coverage of the intervals, between 0 and 1.
        built: Instruments that the study builds: format of the source and names of the filters.
        datasets: Data sets of captions and foils.
        skipped: Models and data sets that it names and could not run, with the reason.
    """

    models: Mapping[str, str]
    compared: bool
    confidence: float
    built: Mapping[str, Mapping[str, Any]]
    datasets: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)


def number_of_text(text: str, n: int = 0) -> Number:
    """Return a text that stands for a number, taken from n items."""
    return Number(Measure(None, n), text=text)


def read_numbers(files: Mapping[str, Sequence[str]], profile: str) -> Numbers:
    """Read all numbers of a profile from result files.

    Args:
        files: Parquet files by kind, a key of `READERS`; other kinds are ignored.
        profile: Profile whose rows are read; files without profiles serve all.
    """
    numbers: Numbers = {}
    for kind, paths in files.items():
        if kind not in READERS:
            continue
        layout, read = READERS[kind]
        for path in paths:
            rows = parquet.read_rows(path, layout)
            of_profile = [row for row in rows if row.get("profile", profile) == profile]
            numbers |= {(kind, *place): number for place, number in read(of_profile)}
    return numbers


PlacedNumbers = Iterable[tuple[tuple[str, str, str, str], Number]]


def _read_measure(row: Row) -> Measure:
    return Measure(row["value"], row["n"], row["ci_low"], row["ci_high"], row["reason"])


def _read_metrics(rows: Sequence[Row]) -> PlacedNumbers:
    """Yield the rows of `METRICS`; a row `paraphrasing:sd` is the standard deviation of `paraphrasing`."""
    rows_by_place = {(row["metric"], row["model"], row["dataset"], row["setting"]): row for row in rows}
    for (metric, *others), row in rows_by_place.items():
        deviation = rows_by_place.get((f"{metric}{DEVIATION}", *others))
        yield (metric, *others), Number(_read_measure(row), deviation["value"] if deviation else None)


def _read_correlations(rows: Sequence[Row]) -> PlacedNumbers:
    """Yield correlations; undefined ones get a text."""
    for place, number in _read_metrics(rows):
        undefined = number.measure.value is None and number.measure.n > 1
        yield place, Number(number.measure, number.sd, UNDEFINED if undefined else "")


def _read_shares(rows: Sequence[Row]) -> PlacedNumbers:
    """Yield T-SHAP and its rank correlation with the score, by role."""
    for row in rows:
        place = (row["model"], row["dataset"], row["setting"])
        share = Number(_read_measure(row), row["sd"])
        yield (f"t_shap:{row['role']}", *place), share
        yield (f"rho:{row['role']}", *place), Number(Measure(row["rho"], row["n"], row["rho_low"], row["rho_high"]))
        if row["setting"] == "pairwise":
            yield ("t_shap:", *place), share


def _read_statistics(rows: Sequence[Row]) -> PlacedNumbers:
    """Yield the statistics of validation."""
    for row in rows:
        yield (row["metric"], "", row["dataset"], ""), Number(_read_measure(row))


def _read_conditions(rows: Sequence[Row]) -> PlacedNumbers:
    """Yield the verbs of CV-Probes, and the numbers of images with captions of each kind."""
    for verb in sorted({row["verb"] for row in rows}):
        yield ("verb", "", "cv-probes", verb), number_of_text(verb, sum(row["verb"] == verb for row in rows))
    for setting, condition in (("context-dependent", "+img+cap"), ("non-context-dependent", "-img-cap")):
        count = sum(row["condition"] == condition and row["form"] == "original" for row in rows)
        yield ("image_caption_pairs", "", "cv-probes", setting), Number(Measure(float(count), count))


def _read_captions(rows: Sequence[Row]) -> PlacedNumbers:
    """Yield the mean grammaticality of CV-Probes' captions: of all, and of those that are used."""
    for setting, captions in (("all", rows), ("selected", [row for row in rows if not row["rejected"]])):
        scores = [row["grammaticality"] for row in captions if row["grammaticality"] is not None]
        if scores:
            spread = float(np.std(scores, ddof=1)) if len(scores) > 1 else None
            mean = Measure(float(np.mean(scores)), len(scores))
            yield ("gruen_mean", "", "cv-probes", setting), Number(mean, spread)


def _read_examples(rows: Sequence[Row]) -> PlacedNumbers:
    """Yield caption, foil and image of the first valid items of an instrument."""
    valid_items = sorted((row for row in rows if row["valid"] is not False), key=lambda row: str(row["item_id"]))
    for number, row in enumerate(valid_items[:EXAMPLES], 1):
        for metric in ("caption", "foil", "image"):
            yield (metric, "", row["instrument"], str(number)), number_of_text(row[metric], 1)


def _read_measurements(rows: Sequence[Row]) -> PlacedNumbers:
    """Yield the numbers of a measurement but for single combinations; what was varied and its value are the setting."""
    for row in rows:
        if row["factor"] == SINGLE:
            continue
        setting = ": ".join(filter(None, (row["factor"], row["level"])))
        yield (row["quantity"], row["model"], row["dataset"], setting), Number(_read_measure(row))


READERS: dict[str, tuple[Layout, Callable[[Sequence[Row]], PlacedNumbers]]] = {
    "evaluation": (METRICS, _read_metrics),
    "attribution": (METRICS, _read_metrics),
    "consistency": (METRICS, _read_metrics),
    "correlations": (METRICS, _read_correlations),
    "shares": (SHARES, _read_shares),
    "validation": (STATISTICS, _read_statistics),
    "probes": (CONDITIONS, _read_conditions),
    "captions": (PROBE_CAPTIONS, _read_captions),
    "samples": (BENCHMARK, _read_examples),
    **dict.fromkeys(MEASUREMENTS, (MEASURES, _read_measurements)),
}
"""Layout and reader by kind of file."""


def list_places(declaration: Declaration, position: Position, model: str) -> Iterator[Place]:
    """Yield the places where our number of a cell is looked for, in order.

    Args:
        position: Metric, data set and setting of the paper value.
        model: Our name of the model.
    """
    metric, dataset, setting = position
    for source in declaration.sources[metric]:
        for name in dict.fromkeys((*declaration.find_dataset_aliases(dataset, setting), dataset)):
            for source_setting in source.settings:
                actual = setting if source_setting == PAPER_SETTING else source_setting
                yield source.source, source.metric, model, name, actual


# Numbers derived from other numbers

PaperValues = Mapping[Key, PaperValue]
TEXT_TASKS = ("e-snli", "disambiguation-qa", "comve", "causal-judgement", "logical-deduction")
SOURCES = {"visual7w": "Visual7W", "coco-captions": "MSCOCO", "swig": "SWiG", "visdial": "VisDial v1.0"}
"""Name in the papers of each format of raw data."""
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
"""For each test: what it changes, when a model is consistent, which models it applies to (thesis 5.2)."""


@dataclass(frozen=True)
class _Inputs:
    """What the numbers of one table are derived from, in one profile."""

    declaration: Declaration
    numbers: Numbers
    paper_values: PaperValues
    profile: str
    study: StudyFacts


def derive_numbers(
    declaration: Declaration, numbers: Numbers, paper_values: PaperValues, profile: str, study: StudyFacts
) -> Numbers:
    """Return our numbers together with those that a table derives from them."""
    derived = dict(numbers)
    for name in declaration.derived:
        derived |= DERIVED_NUMBERS[name](_Inputs(declaration, derived, paper_values, profile, study))
    return derived


def _sum_validation(inputs: _Inputs) -> Numbers:
    """Sum the statistics of validation over all instruments of the paper."""
    names = list(dict.fromkeys(key[2] for key in inputs.paper_values if key[2] != "overall"))
    sums = {
        metric: _sum_measures([inputs.numbers.get(("validation", metric, "", name, "")) for name in names])
        for metric in ("instances", "valid", "unanimous")
    }
    counted = sums["valid" if inputs.profile == COMPARED_PROFILE else "instances"]
    shares = {
        "valid_percent": _divide_measures(sums["valid"], sums["instances"]),
        "unanimous_percent": _divide_measures(sums["unanimous"], counted),
    }
    undefined = Measure(None, 0, reason="not defined over all instruments")
    others = dict.fromkeys(("lexical_items", "js", "js_valid", "alpha", "alpha_valid"), undefined)
    return {
        ("validation", metric, "", "overall", ""): Number(measure)
        for metric, measure in {**sums, **shares, **others}.items()
    }


def _sum_measures(parts: Sequence[Number | None]) -> Measure:
    """Return the sum of numbers, or no value where one is missing."""
    present = [part.measure for part in parts if part is not None and part.measure.value is not None]
    if len(present) < len(parts):
        return Measure(None, 0, reason="not summed: the study does not hold all instruments with their votes")
    return Measure(sum(part.value or 0.0 for part in present), sum(part.n for part in present))


def _divide_measures(part: Measure, total: Measure) -> Measure:
    """Return a part in percent of a total."""
    if part.value is None or not total.value:
        return Measure(None, 0, reason=part.reason or total.reason)
    return Measure(100 * part.value / total.value, int(total.value))


def _describe_pieces(inputs: _Inputs) -> Numbers:
    """Describe the pieces of the study: their sizes, and how their foils are made."""
    derived: Numbers = {}
    missing = Number(Measure(None, 0, reason=RELEASED))
    for piece, names in PIECES.items():
        valid = {name: inputs.numbers.get(("validation", "valid", "", name, "")) for name in names}
        present = [name for name, number in valid.items() if number is not None]
        built = [inputs.study.built[name] for name in names if name in inputs.study.built]
        filters = {name for entry in built for name in entry["filters"]}
        texts = {
            "gruen": "yes" if "grammaticality" in filters else "no",
            "nli": "yes" if "contradiction" in filters else "no",
            "mlm": "yes" if any(INSTRUMENTS[name].proposal_key for name in names) else "no",
            "source_dataset": ", ".join(sorted({SOURCES.get(entry["format"], entry["format"]) for entry in built})),
        }
        numbers = {
            "examples": Number(_sum_measures(list(valid.values()))),
            "instruments": number_of_text(", ".join(present)) if present else missing,
            **{metric: number_of_text(text) if built else missing for metric, text in texts.items()},
        }
        derived |= {(DERIVED, metric, "", piece, ""): number for metric, number in numbers.items()}
    return derived


def _select_examples(inputs: _Inputs) -> Numbers:
    """Select the examples of the table's instruments."""
    return {
        (DERIVED, *place[1:]): number
        for name in inputs.declaration.example_datasets
        for place, number in inputs.numbers.items()
        if place[0] == "samples" and place[3] == name
    }


def _place_verbs(inputs: _Inputs) -> Numbers:
    """Place our verbs where the paper has them; in alphabetical order where the study is not compared."""
    ours = {place[4]: number for place, number in inputs.numbers.items() if place[:2] == ("probes", "verb")}
    if inputs.study.compared:
        verbs = {key[3]: cell.value for key, cell in inputs.paper_values.items() if cell.value in ours}
    else:
        verbs = {str(position): verb for position, verb in enumerate(sorted(ours), 1)}
    return {(DERIVED, "verb", "", "cv-probes", setting): ours[verb] for setting, verb in verbs.items()}


def _describe_tests(_: _Inputs) -> Numbers:
    """Describe the self-consistency tests."""
    return {
        (DERIVED, metric, "", test, SETTING_OF_TEST[test]): number_of_text(text)
        for test, texts in TESTS.items()
        for metric, text in zip(("changed", "consistent_where", "applies_to"), texts, strict=True)
    }


def _describe_skew(inputs: _Inputs) -> Numbers:
    """Describe the modality that a model's average T-SHAP leans to, for captions and for foils."""
    names = list(dict.fromkeys(key[2] for key in inputs.paper_values if key[2] != AVERAGE))
    derived: Numbers = {}
    for model in inputs.study.models:
        for metric, role in (("t_shap_c", "caption"), ("t_shap_f", "foil")):
            parts = [inputs.numbers.get(("shares", f"t_shap:{role}", model, name, "alignment")) for name in names]
            present = [part for part in parts if part is not None]
            values = [part.measure.value for part in present if part.measure.value is not None]
            if len(values) == len(names):
                text = classify_skew(float(np.mean(values)) / 100)
                derived[DERIVED, "mm_skew", model, AVERAGE, metric] = number_of_text(text, len(values))
            elif present:
                reason = f"not averaged: {len(names) - len(values)} of {len(names)} data sets have no T-SHAP"
                derived[DERIVED, "mm_skew", model, AVERAGE, metric] = Number(Measure(None, len(values), reason=reason))
    return derived


def _rescale_averages(inputs: _Inputs) -> Numbers:
    """Average tests and CC-SHAP over the paper's data sets; over the study's own where it is not compared (C.1)."""
    derived: Numbers = {}
    for model, metric in itertools.product(inputs.study.models, RESCALED_AVERAGES):
        average = inputs.numbers.get(("consistency", metric, model, AVERAGE, ""))
        if average is None:
            continue
        datasets = {place[3] for place in inputs.numbers if place[0] == "consistency" and place[2] == model} - {AVERAGE}
        missing = [name for name in TEXT_TASKS if name not in datasets]
        if inputs.study.compared and (missing or len(datasets) > len(TEXT_TASKS)):
            reason = f"not averaged: {len(missing)} of {len(TEXT_TASKS)} data sets were not run"
            average = Number(Measure(None, average.measure.n, reason=reason))
        derived[DERIVED, metric, model, "", ""] = average
    return derived


def _spread_over_seeds(inputs: _Inputs) -> Numbers:
    """Collect means over seeds, their standard deviations, and the number of each seed."""
    derived: Numbers = {}
    for (source, metric, model, dataset, setting), number in inputs.numbers.items():
        name, colon, statistic = metric.partition(":")
        name = name.removesuffix(SHARED)
        is_in_table = inputs.study.models.get(model) in inputs.declaration.model_kinds
        if source != "consistency" or name not in inputs.declaration.sources or not is_in_table:
            continue
        if not colon:
            derived[DERIVED, name, model, dataset, setting] = number
        elif statistic == "sd":
            derived[DERIVED, name, model, dataset, f"{setting}{SETTING_SEPARATOR}deviation"] = number
        elif statistic.startswith("seed="):
            seed = statistic.replace("=", " ")
            derived[DERIVED, name, model, dataset, f"{setting}{SETTING_SEPARATOR}{seed}"] = number
    return derived


def _average_spreads(inputs: _Inputs) -> Numbers:
    """Average the standard deviation of T-SHAP over items, and the rank correlation, over models of a kind."""
    derived: Numbers = {}
    for kind, name in ((ENCODER, "encoders"), (VISION, "decoders")):
        of_kind = [
            (place[1], number) for place, number in inputs.numbers.items() if inputs.study.models.get(place[2]) == kind
        ]
        spreads = [number.sd for metric, number in of_kind if metric.startswith("t_shap:")]
        rhos = [number.measure.value for metric, number in of_kind if metric == "rho:caption"]
        for metric, numbers in (("t_shap_sd", spreads), ("rho_c", rhos)):
            values = [value for value in numbers if value is not None]
            if values:
                derived[DERIVED, metric, name, "", ""] = Number(Measure(float(np.mean(values)), len(values)))
    return derived


DERIVED_NUMBERS: dict[str, Callable[[_Inputs], Numbers]] = {
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
"""Functions by the names that declarations use."""


def derive_paper_averages(paper_values: PaperValues) -> dict[Key, PaperValue]:
    """Compute the averages of figure C.1, three per model, from the paper's tables 5.2 and C.2."""
    derived = {}
    for model in dict.fromkeys(key[1] for key in paper_values if key[1] != RANDOM):
        cells = {
            (key[2], key[0]): Measure(float(cell.value), 1)
            for key, cell in paper_values.items()
            if key[1] == model and (key[0] in SETTING_OF_TEST or key[0] in CC_SHAP_METRICS.values())
        }
        note = "computed from tables 5.2 and C.2 of the paper: the figure has no numbers"
        for metric in RESCALED_AVERAGES:
            value = compute_rescaled_average(select_rescaled(cells, metric), tuple(CC_SHAP_METRICS.values())).value
            key = (metric, model, "", "")
            derived[key] = PaperValue(key, f"{value:.1f}", "percent", note)
    return derived
