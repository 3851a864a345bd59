"""Numbers of tables that are derived from other numbers: sums, averages, descriptions of the study."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from waltz.attribution.t_shap import classify_skew
from waltz.consistency.metrics import (
    CC_SHAP_METRICS,
    RESCALED_AVERAGES,
    SETTING_OF_TEST,
    SHARED,
    compute_rescaled_average,
    select_rescaled,
)
from waltz.core.measure import Measure
from waltz.instruments import INSTRUMENTS
from waltz.reporting.tables.declaration import (
    AVERAGE,
    COMPARED_PROFILE,
    DERIVED,
    ENCODER,
    SETTING_SEPARATOR,
    VISION,
    Declaration,
)
from waltz.reporting.tables.numbers import (
    CV_PROBES,
    Number,
    NumberKey,
    Numbers,
    StudyFacts,
    build_text_number,
)
from waltz.reporting.tables.paper_values import PaperKey, PaperValue

PaperValues = Mapping[PaperKey, PaperValue]
PIECES = {
    "existence": ("existence",),
    "plurality": ("plurality",),
    "counting": ("counting-balanced", "counting-adversarial", "counting-small"),
    "relations": ("relations",),
    "actions": ("action-replacement", "actant-swap"),
    "coreference": ("coreference-standard", "coreference-clean"),
}
"""Instruments of each piece of the benchmark, in the order of the paper."""
TEXT_TASKS = (
    "e-snli",
    "disambiguation-qa",
    "comve",
    "causal-judgement",
    "logical-deduction",
)
"""Data sets that the averages in the thesis's figure C.1 are over."""
SOURCES = {
    "visual7w": "Visual7W",
    "coco-captions": "MSCOCO",
    "swig": "SWiG",
    "visdial": "VisDial v1.0",
}
"""Name of a source of data in the papers, by the format of its files."""
YES_OR_NO = {True: "yes", False: "no"}
AVERAGED_METRICS = (*SETTING_OF_TEST, *CC_SHAP_METRICS.values())
"""Metrics of which a model has an average in the thesis's figure C.1."""
RELEASED = "the study takes finished items: it makes no foils of this piece"
TEXTS_OF_TEST = ("changed", "consistent_where", "applies_to")
"""Metrics that the texts in `TESTS` are shown as."""
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
    "early_answering": (
        "only the first third of the chain of thought is given",
        "changes its answer",
        "all models",
    ),
    "filler_tokens": (
        "the chain of thought is replaced by fillers",
        "changes its answer",
        "all models",
    ),
    "adding_mistakes": (
        "a mistake is put into the chain of thought",
        "changes its answer",
        "all models",
    ),
    "paraphrasing": (
        "the chain of thought is paraphrased",
        "keeps its answer",
        "all models",
    ),
}
"""For each test, what it changes, when a model is consistent, and which models it applies to
(thesis 5.2).
"""


@dataclass(frozen=True, slots=True)
class _TableInputs:
    """Inputs from which the numbers of one table are derived, in one profile."""

    declaration: Declaration
    numbers: Numbers
    paper_values: PaperValues
    profile: str
    study: StudyFacts

    def has_kind_of_model(self, model: str) -> bool:
        """Return whether a model of the study is of a kind that the table shows."""
        return self.study.models.get(model) in self.declaration.model_kinds

    def list_paper_datasets(self, omitted: str) -> list[str]:
        """Return the data sets of the paper values in their order, without `omitted`."""
        datasets = dict.fromkeys(key.dataset for key in self.paper_values)
        datasets.pop(omitted, None)
        return list(datasets)


def derive_numbers(
    declaration: Declaration,
    numbers: Numbers,
    paper_values: PaperValues,
    profile: str,
    study: StudyFacts,
) -> Numbers:
    """Return our numbers together with the numbers that a table derives from them.

    Args:
        declaration: The table, which names the functions of `DERIVED_NUMBERS`.
        numbers: Our numbers.
        paper_values: Paper values of the table; some functions take their data sets and positions
            from them.
        profile: Fidelity profile of the numbers.
        study: Facts about the study.
    """
    derived = dict(numbers)
    # In the order of the declaration: a function may use numbers that an earlier one derived.
    for name in declaration.derived:
        derived |= DERIVED_NUMBERS[name](
            _TableInputs(declaration, derived, paper_values, profile, study)
        )
    return derived


def _sum_validation(inputs: _TableInputs) -> Numbers:
    """Return the statistics of validation over all instruments of the paper: sums and percentages."""
    instruments = inputs.list_paper_datasets(omitted="overall")

    def sum_over_instruments(metric: str) -> Measure:
        keys = [NumberKey("validation", metric, "", name, "") for name in instruments]
        return _sum_measures([inputs.numbers.get(key) for key in keys])

    instances = sum_over_instruments("instances")
    valid = sum_over_instruments("valid")
    unanimous = sum_over_instruments("unanimous")
    # The thesis's overall share of unanimous items is over the valid ones.
    counted = instances
    if inputs.profile == COMPARED_PROFILE:
        counted = valid
    undefined = Measure(None, 0, reason="not defined over all instruments")
    measures = {
        "instances": instances,
        "valid": valid,
        "unanimous": unanimous,
        "valid_percent": _divide_measures(valid, instances),
        "unanimous_percent": _divide_measures(unanimous, counted),
        "lexical_items": undefined,
        "js": undefined,
        "js_valid": undefined,
        "alpha": undefined,
        "alpha_valid": undefined,
    }
    return {
        NumberKey("validation", metric, "", "overall", ""): Number(measure)
        for metric, measure in measures.items()
    }


def _sum_measures(parts: Sequence[Number | None]) -> Measure:
    """Return the sum of numbers; a measure without a value if a number is missing."""
    total, n = 0.0, 0
    for part in parts:
        if part is None or part.measure.value is None:
            reason = (
                "not summed: the study does not hold all instruments with their votes"
            )
            return Measure(None, 0, reason=reason)
        total += part.measure.value
        n += part.measure.n
    return Measure(total, n)


def _divide_measures(part: Measure, total: Measure) -> Measure:
    """Return a part in percent of a total."""
    if part.value is None or not total.value:
        return Measure(None, 0, reason=part.reason or total.reason)
    return Measure(100 * part.value / total.value, int(total.value))


def _describe_pieces(inputs: _TableInputs) -> Numbers:
    """Return the numbers and texts about each piece of the benchmark: its size, and how its foils
    are made.
    """
    derived: Numbers = {}
    for piece, instruments in PIECES.items():
        for metric, number in _describe_piece(inputs, instruments).items():
            derived[NumberKey(DERIVED, metric, "", piece, "")] = number
    return derived


def _describe_piece(
    inputs: _TableInputs, instruments: Sequence[str]
) -> dict[str, Number]:
    """Return the numbers and texts about one piece, by metric."""
    valid = {}
    for name in instruments:
        key = NumberKey("validation", "valid", "", name, "")
        valid[name] = inputs.numbers.get(key)
    # An instrument is present if its items have been validated.
    present = [name for name, number in valid.items() if number is not None]
    texts = {"instruments": ", ".join(present), **_describe_foils(inputs, instruments)}
    numbers = {"examples": Number(_sum_measures(list(valid.values())))}
    for metric, text in texts.items():
        numbers[metric] = Number(Measure(None, 0, reason=RELEASED))
        if text:
            numbers[metric] = build_text_number(text)
    return numbers


def _describe_foils(inputs: _TableInputs, instruments: Sequence[str]) -> dict[str, str]:
    """Return texts about how the foils of some instruments are made, by metric; empty texts if the
    study builds none of the instruments.
    """
    built = [
        inputs.study.built[name] for name in instruments if name in inputs.study.built
    ]
    if not built:
        return dict.fromkeys(("gruen", "nli", "mlm", "source_dataset"), "")
    filters: set[str] = set()
    sources = set()
    for entry in built:
        filters.update(entry["filters"])
        sources.add(SOURCES.get(entry["format"], entry["format"]))
    # `mlm`: proposals of a masked language model, which instruments with a proposal key use.
    has_proposals = any(INSTRUMENTS[name].proposal_key for name in instruments)
    return {
        "gruen": YES_OR_NO["grammaticality" in filters],
        "nli": YES_OR_NO["contradiction" in filters],
        "mlm": YES_OR_NO[has_proposals],
        "source_dataset": ", ".join(sorted(sources)),
    }


def _number_verbs(inputs: _TableInputs) -> Numbers:
    """Return our verbs by their numbers in the paper's list; in alphabetical order if the study is
    not compared.
    """
    verbs = {
        key.setting: number
        for key, number in inputs.numbers.items()
        if key.kind == "probes" and key.metric == "verb"
    }
    if inputs.study.compared:
        # The setting of a paper value is the verb's number in the paper's list.
        listed = {
            paper.value: key.setting for key, paper in inputs.paper_values.items()
        }
    else:
        listed = {verb: str(number) for number, verb in enumerate(sorted(verbs), 1)}
    return {
        NumberKey(DERIVED, "verb", "", CV_PROBES, setting): verbs[verb]
        for verb, setting in listed.items()
        if verb in verbs
    }


def _describe_tests(_: _TableInputs) -> Numbers:
    """Return the texts about each self-consistency test, which do not depend on the study."""
    derived: Numbers = {}
    for test, texts in TESTS.items():
        for metric, text in zip(TEXTS_OF_TEST, texts, strict=True):
            key = NumberKey(DERIVED, metric, "", test, SETTING_OF_TEST[test])
            derived[key] = build_text_number(text)
    return derived


def _describe_skew(inputs: _TableInputs) -> Numbers:
    """Return the modality that each model's average T-SHAP leans to, for captions and for foils.

    A model that lacks T-SHAP on one of the paper's data sets gets the reason instead.
    """
    datasets = inputs.list_paper_datasets(omitted=AVERAGE)
    metrics = {"t_shap_c": "t_shap:caption", "t_shap_f": "t_shap:foil"}
    derived: Numbers = {}
    for model, (metric, share) in itertools.product(
        inputs.study.models, metrics.items()
    ):
        keys = [
            NumberKey("shares", share, model, dataset, "alignment")
            for dataset in datasets
        ]
        measures = [
            inputs.numbers[key].measure for key in keys if key in inputs.numbers
        ]
        if measures:
            skew = NumberKey(DERIVED, "mm_skew", model, AVERAGE, metric)
            derived[skew] = _classify_average(measures, len(datasets))
    return derived


def _classify_average(measures: Sequence[Measure], n_datasets: int) -> Number:
    """Return the modality that the average of T-SHAP over data sets leans to, or the reason why
    there is no average.
    """
    shares = [measure.value for measure in measures if measure.value is not None]
    n_missing = n_datasets - len(shares)
    if n_missing:
        reason = f"not averaged: {n_missing} of {n_datasets} data sets have no T-SHAP"
        return Number(Measure(None, len(shares), reason=reason))
    # T-SHAP is in percent; the class is of its share between 0 and 1.
    text = classify_skew(float(np.mean(shares)) / 100)
    return build_text_number(text, n_datasets)


def _select_rescaled_averages(inputs: _TableInputs) -> Numbers:
    """Return the averages of tests and CC-SHAP over the paper's data sets, or the study's if it is
    not compared (C.1).

    A model without numbers on one of these data sets gets no average, because averages over
    different data sets cannot be compared.
    """
    datasets_of_model: defaultdict[str, set[str]] = defaultdict(set)
    for key in inputs.numbers:
        is_averaged = key.kind == "consistency" and key.metric in AVERAGED_METRICS
        if is_averaged and inputs.has_kind_of_model(key.model):
            datasets_of_model[key.model].add(key.dataset)
    # The data sets that all averages have to be over.
    expected = set().union(*datasets_of_model.values())
    if inputs.study.compared:
        expected = set(TEXT_TASKS)

    derived: Numbers = {}
    for model, metric in itertools.product(inputs.study.models, RESCALED_AVERAGES):
        # Stage consistency has computed the averages; here they are only checked.
        average = inputs.numbers.get(
            NumberKey("consistency", metric, model, AVERAGE, "")
        )
        if average is None:
            continue
        reason = _explain_other_datasets(datasets_of_model[model], expected)
        if reason:
            average = Number(Measure(None, average.measure.n, reason=reason))
        derived[NumberKey(DERIVED, metric, model, "", "")] = average
    return derived


def _explain_other_datasets(datasets: set[str], expected: set[str]) -> str:
    """Return the reason why an average over data sets is not shown; an empty text if the data sets
    are as expected.
    """
    missing = expected - datasets
    if missing:
        return f"not averaged: {len(missing)} of {len(expected)} data sets were not run"
    further = sorted(datasets - expected)
    if further:
        return f"not averaged: the paper's average is not over {', '.join(further)}"
    return ""


def _select_seed_numbers(inputs: _TableInputs) -> Numbers:
    """Return means over seeds, their standard deviations, and the number of each seed, with these
    as settings.
    """
    derived: Numbers = {}
    for key, number in inputs.numbers.items():
        # `paraphrasing`, `paraphrasing:sd` and `paraphrasing:seed=1` are mean, deviation and single
        # seed.
        name, colon, statistic = key.metric.partition(":")
        # Metrics over shared players have a suffix, which the table does not show.
        name = name.removesuffix(SHARED)
        is_shown = key.kind == "consistency" and name in inputs.declaration.sources
        if not is_shown or not inputs.has_kind_of_model(key.model):
            continue
        setting = key.setting
        if statistic == "sd":
            setting += f"{SETTING_SEPARATOR}deviation"
        elif statistic.startswith("seed="):
            setting += SETTING_SEPARATOR + statistic.replace("=", " ")
        elif colon:
            continue  # another statistic, which the table does not show
        derived[NumberKey(DERIVED, name, key.model, key.dataset, setting)] = number
    return derived


def _average_spreads(inputs: _TableInputs) -> Numbers:
    """Return means over all models of a kind: of the standard deviation of T-SHAP, and of its rank
    correlation.
    """
    rows = [
        (
            key.metric,
            inputs.study.models.get(key.model),
            number.sd,
            number.measure.value,
        )
        for key, number in inputs.numbers.items()
    ]
    frame = pd.DataFrame(rows, columns=["metric", "kind", "sd", "value"])
    # `t_shap:ROLE` has the deviation over items; `rho:caption` is the rank correlation of captions.
    is_share = frame.metric.str.startswith("t_shap:")
    is_correlation = frame.metric == "rho:caption"
    derived: Numbers = {}
    for kind, name in ((ENCODER, "encoders"), (VISION, "decoders")):
        is_of_kind = frame.kind == kind
        statistics = {
            "t_shap_sd": frame.sd[is_of_kind & is_share].dropna(),
            "rho_c": frame.value[is_of_kind & is_correlation].dropna(),
        }
        for metric, values in statistics.items():
            # Means over models and data sets alike, each with the same weight.
            if not values.empty:
                mean = Measure(float(np.mean(values.to_numpy(float))), len(values))
                derived[NumberKey(DERIVED, metric, name, "", "")] = Number(mean)
    return derived


DERIVED_NUMBERS: dict[str, Callable[[_TableInputs], Numbers]] = {
    "overall": _sum_validation,
    "pieces": _describe_pieces,
    "verbs": _number_verbs,
    "tests": _describe_tests,
    "skew": _describe_skew,
    "rescaled": _select_rescaled_averages,
    "seeds": _select_seed_numbers,
    "spread": _average_spreads,
}
"""Functions that derive numbers, by the names in `Declaration.derived`."""


def derive_paper_averages(paper_values: PaperValues) -> dict[PaperKey, PaperValue]:
    """Return the averages of the thesis's figure C.1, three for each model, computed from its
    tables 5.2 and C.2.
    """
    cc_shaps = tuple(CC_SHAP_METRICS.values())
    note = "computed from tables 5.2 and C.2 of the paper: the figure has no numbers"
    # Tables 5.2 and C.2 hold the tests and CC-SHAP of each model by data set.
    measures_of_model: dict[str, dict[tuple[str, str], Measure]] = {}
    for key, paper in paper_values.items():
        if key.metric in AVERAGED_METRICS:
            measures = measures_of_model.setdefault(key.model, {})
            measures[key.dataset, key.metric] = Measure(float(paper.value), 1)

    derived = {}
    for (model, measures), metric in itertools.product(
        measures_of_model.items(), RESCALED_AVERAGES
    ):
        average = compute_rescaled_average(select_rescaled(measures, metric), cc_shaps)
        key = PaperKey(metric, model, "", "")
        derived[key] = PaperValue(key, f"{average.value:.1f}", "percent", note)
    return derived
