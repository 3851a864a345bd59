"""Our numbers, read from the result files of a study, by the keys under which declarations of
tables name them.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypedDict

import numpy as np

from waltz.core.measure import Measure
from waltz.core.records import Record, read_records
from waltz.core.schema import (
    DifferenceRecord,
    ItemRecord,
    MeasurementRecord,
    MetricRecord,
    ProbeCaptionRecord,
    ProbeRecord,
    ShareRecord,
    StatisticRecord,
)
from waltz.measures.rows import SINGLE
from waltz.reporting.tables.declaration import PAPER_SETTING, Declaration
from waltz.reporting.tables.declarations import MEASUREMENTS

DEVIATION = ":sd"
"""Ending of the name of a metric that is the standard deviation over seeds of another metric."""
TIES_NOTE = (
    "some captions and foils are tied, which counts here as in the released code"
)
UNDEFINED = "nan"
"""Text of an undefined correlation, as in the papers."""
CV_PROBES = "cv-probes"
"""Data set of the numbers about the construction of CV-Probes."""
EXAMPLES = 5
"""Number of items of an instrument in a table of examples."""


class NumberKey(NamedTuple):
    """Key of one number of ours: the kind of its file, and its metric, model, data set and setting
    in the file.
    """

    kind: str
    metric: str
    model: str
    dataset: str
    setting: str


class Position(NamedTuple):
    """Position of a cell in the row of a model: its metric, data set and setting, as the paper
    names them.
    """

    metric: str
    dataset: str
    setting: str


@dataclass(frozen=True, slots=True)
class Number:
    """One number of ours, or a text in the place of a number.

    Attributes:
        measure: The number, or the reason why it is missing.
        sd: Standard deviation: over items (of T-SHAP), over seeds (of tests), over data sets (of
            averages).
        text: Text that is shown in the place of a number.
        note: Remark that a reader of the number needs.
    """

    measure: Measure
    sd: float | None = None
    text: str = ""
    note: str = ""

    @property
    def is_measured(self) -> bool:
        """True if the number has a value, a text, or items that it was measured on."""
        has_value = self.measure.value is not None
        return has_value or bool(self.text) or self.measure.n > 0


Numbers = dict[NumberKey, Number]


class BuiltInstrument(TypedDict):
    """Settings of an instrument that a study builds: the `format` of its source, and the names of
    its `filters`.
    """

    format: str
    filters: Sequence[str]


@dataclass(frozen=True, slots=True)
class StudyFacts:
    """Facts about a study that all its tables need.

    Attributes:
        models: Kind of each model, ENCODER, LANGUAGE or VISION, by its name, in the order of the
            study.
        compared: Whether the study has the data of the papers, and is compared with them; synthetic
            scenes are not.
        confidence: Coverage of the intervals, between 0 and 1.
        built: Instruments that the study builds, by name.
        datasets: Data sets of captions and foils.
        skipped: Reason why the study could not run a model or data set that it names, by name.
        margins: Differences to the papers that are too small to matter, by the unit of the paper
            value, in that unit.
    """

    models: Mapping[str, str]
    compared: bool
    confidence: float
    built: Mapping[str, BuiltInstrument]
    datasets: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    margins: Mapping[str, float] = field(default_factory=dict)


def build_text_number(text: str, n: int = 0) -> Number:
    """Return a `Number` with a text in the place of a value, taken from n items."""
    return Number(Measure(None, n), text=text)


def compute_sd(values: Sequence[float]) -> float | None:
    """Return the standard deviation of a sample, with ddof = 1; None for a single value."""
    if len(values) == 1:
        return None
    return float(np.std(values, ddof=1))


def read_numbers(files: Mapping[str, Sequence[str]], profile: str) -> Numbers:
    """Return all numbers of a profile in result files.

    Args:
        files: Parquet files by kind, a key of `READERS`.
        profile: Profile whose rows are read; rows of files without profiles belong to all profiles.
    """
    numbers: Numbers = {}
    for kind, paths in files.items():
        record_type, read = READERS[kind]
        for path in paths:
            # Records of construction have no profile and serve all profiles.
            records = [
                record
                for record in read_records(path, record_type)
                if getattr(record, "profile", profile) == profile
            ]
            numbers |= read(kind, records)
    return numbers


def _read_metrics(kind: str, records: Sequence[MetricRecord]) -> Numbers:
    """Return the metrics of models.

    The record of a metric such as `paraphrasing:sd` holds the standard deviation of `paraphrasing`.
    It becomes a number, and also a part of the number of `paraphrasing`.
    """
    numbers: Numbers = {}
    for record in records:
        key = NumberKey(
            kind, record.metric, record.model, record.dataset, record.setting
        )
        numbers[key] = Number(record.measure)
    for key, number in numbers.items():
        deviation = numbers.get(key._replace(metric=f"{key.metric}{DEVIATION}"))
        if deviation is not None:
            numbers[key] = replace(number, sd=deviation.measure.value)
    return numbers


def _read_correlations(kind: str, records: Sequence[MetricRecord]) -> Numbers:
    """Return correlations; undefined ones get the text `UNDEFINED`."""
    numbers = _read_metrics(kind, records)
    for key, number in numbers.items():
        # A correlation of several items without a value is undefined.
        if number.measure.value is None and number.measure.n > 1:
            numbers[key] = replace(number, text=UNDEFINED)
    return numbers


def _read_t_shap(kind: str, records: Sequence[ShareRecord]) -> Numbers:
    """Return T-SHAP by role, and its rank correlation with correctness."""
    numbers: Numbers = {}
    for record in records:
        share = Number(record.measure, record.sd)
        # Spearman correlation of T-SHAP with correctness, over the same items.
        rho = Measure(
            record.rho,
            record.measure.n,
            record.rho_low,
            record.rho_high,
            images=record.measure.images,
        )
        names = (record.model, record.dataset, record.setting)
        numbers[NumberKey(kind, f"t_shap:{record.role}", *names)] = share
        numbers[NumberKey(kind, f"rho:{record.role}", *names)] = Number(rho)
        if record.corrected is not None:
            corrected = replace(
                record.measure,
                value=record.corrected,
                ci_low=record.corrected_low,
                ci_high=record.corrected_high,
            )
            key = NumberKey(kind, f"t_shap_corrected:{record.role}", *names)
            numbers[key] = Number(corrected)
        # One prompt shows caption and foil, so its share has no role.
        if record.setting == "pairwise":
            numbers[NumberKey(kind, "t_shap:", *names)] = share
    return numbers


def _read_differences(kind: str, records: Sequence[DifferenceRecord]) -> Numbers:
    """Return paired differences, and p after Holm's correction as a metric with the ending `:p`."""
    numbers: Numbers = {}
    for record in records:
        key = NumberKey(
            kind, record.metric, record.model, record.dataset, record.setting
        )
        note = ""
        if record.unpaired:
            note = f"{record.unpaired} items lack a number on a side and do not count"
        numbers[key] = Number(record.measure, note=note)
        if record.p_holm is not None:
            p_key = key._replace(metric=f"{record.metric}:p")
            numbers[p_key] = Number(Measure(record.p_holm, record.measure.n))
    return numbers


def _read_statistics(kind: str, records: Sequence[StatisticRecord]) -> Numbers:
    """Return the statistics of validation."""
    return {
        NumberKey(kind, record.metric, "", record.dataset, ""): Number(record.measure)
        for record in records
    }


def _read_conditions(kind: str, records: Sequence[ProbeRecord]) -> Numbers:
    """Return the verbs of CV-Probes with their numbers of items, and the number of image-caption
    pairs of each kind.
    """
    numbers: Numbers = {}
    verbs = Counter(record.verb for record in records)
    for verb, n_items in sorted(verbs.items()):
        key = NumberKey(kind, "verb", "", CV_PROBES, verb)
        numbers[key] = build_text_number(verb, n_items)
    # Images with their matching captions: contextual verb and image, or neither of them contextual.
    pairs = Counter(record.condition for record in records if record.form == "original")
    for setting, condition in (
        ("context-dependent", "+img+cap"),
        ("non-context-dependent", "-img-cap"),
    ):
        n_pairs = pairs[condition]
        key = NumberKey(kind, "image_caption_pairs", "", CV_PROBES, setting)
        numbers[key] = Number(Measure(float(n_pairs), n_pairs))
    return numbers


def _read_captions(kind: str, records: Sequence[ProbeCaptionRecord]) -> Numbers:
    """Return the mean grammaticality of all captions of CV-Probes, and of the captions that are
    used.
    """
    scores: dict[str, list[float]] = {"all": [], "selected": []}
    for record in records:
        if record.grammaticality is None:
            continue
        scores["all"].append(record.grammaticality)
        if not record.rejected:
            scores["selected"].append(record.grammaticality)
    numbers: Numbers = {}
    for setting, values in scores.items():
        if values:
            mean = Measure(float(np.mean(values)), len(values))
            key = NumberKey(kind, "gruen_mean", "", CV_PROBES, setting)
            numbers[key] = Number(mean, compute_sd(values))
    return numbers


def _read_examples(kind: str, records: Sequence[ItemRecord]) -> Numbers:
    """Return caption, foil and image of the first valid items of an instrument."""
    # Items that nobody has judged (None) count as valid.
    valid_items = [record for record in records if record.valid is not False]
    # By id, so that the same study always shows the same examples.
    valid_items.sort(key=lambda record: record.item_id)
    numbers: Numbers = {}
    for number, item in enumerate(valid_items[:EXAMPLES], 1):
        texts = {"caption": item.caption, "foil": item.foil, "image": item.image}
        for metric, text in texts.items():
            key = NumberKey(kind, metric, "", item.instrument, str(number))
            numbers[key] = build_text_number(text, 1)
    return numbers


def _read_measurements(kind: str, records: Sequence[MeasurementRecord]) -> Numbers:
    """Return the numbers of a measurement, without numbers of single combinations.

    The setting of a number consists of the factor that was varied and its level.
    """
    numbers: Numbers = {}
    for record in records:
        if record.factor == SINGLE:
            continue
        # A factor without levels has its name alone as setting.
        setting = ": ".join(filter(None, (record.factor, record.level)))
        key = NumberKey(kind, record.quantity, record.model, record.dataset, setting)
        numbers[key] = Number(record.measure)
    return numbers


Reader = Callable[[str, Sequence[Any]], Numbers]
"""Function that returns the numbers of records of one kind of file."""
READERS: dict[str, tuple[type[Record], Reader]] = {
    "evaluation": (MetricRecord, _read_metrics),
    "attribution": (MetricRecord, _read_metrics),
    "consistency": (MetricRecord, _read_metrics),
    "correlations": (MetricRecord, _read_correlations),
    "shares": (ShareRecord, _read_t_shap),
    **dict.fromkeys(
        ("differences_of_explanations", "differences_of_chat", "differences_of_foils"),
        (DifferenceRecord, _read_differences),
    ),
    "validation": (StatisticRecord, _read_statistics),
    "probes": (ProbeRecord, _read_conditions),
    "captions": (ProbeCaptionRecord, _read_captions),
    "samples": (ItemRecord, _read_examples),
    **dict.fromkeys(MEASUREMENTS, (MeasurementRecord, _read_measurements)),
}
"""Type of the records in each kind of file, and their reader."""


def take_paper_ties(numbers: Numbers) -> Numbers:
    """Return the numbers in which acc_r counts ties as the paper values do, by the released code.

    A number that changes by this gets a note.
    """
    counted = dict(numbers)
    for key, number in numbers.items():
        if key.metric != "acc_r_paper":
            continue
        # `acc_r_paper` stands in the same file, for the same model, data set and setting.
        acc_r = key._replace(metric="acc_r")
        if number.measure.value != numbers[acc_r].measure.value:
            number = replace(number, note=TIES_NOTE)
        counted[acc_r] = number
    return counted


def list_number_keys(
    declaration: Declaration, position: Position, model: str
) -> Iterator[NumberKey]:
    """Yield the keys under which our number of a cell may stand, in order of preference.

    Args:
        declaration: The table.
        position: Metric, data set and setting of the paper value.
        model: Our name of the model.
    """
    metric, dataset, paper_setting = position
    aliases = declaration.find_dataset_aliases(dataset, paper_setting)
    datasets = dict.fromkeys((*aliases, dataset))
    # The first key that has a number wins: sources, then our data sets, then settings.
    for source in declaration.sources[metric]:
        for our_dataset, setting in itertools.product(datasets, source.settings):
            if setting == PAPER_SETTING:
                setting = paper_setting
            yield NumberKey(source.kind, source.metric, model, our_dataset, setting)
