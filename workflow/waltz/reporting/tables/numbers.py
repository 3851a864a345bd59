"""Our numbers, read from the result files of a study, by the keys under which declarations of
tables name them.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from waltz.core.measure import Measure
from waltz.core.records import Record, read_records
from waltz.core.schema import (
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


@dataclass(frozen=True, slots=True)
class StudyFacts:
    """Facts about a study that all its tables need.

    Attributes:
        models: Kind of each model, ENCODER, LANGUAGE or VISION, by its name, in the order of the
            study.
        compared: Whether the study has the data of the papers, and is compared with them; synthetic
            scenes are not.
        confidence: Coverage of the intervals, between 0 and 1.
        built: Instruments that the study builds, each with the `format` of its source and the names
            of its `filters`.
        datasets: Data sets of captions and foils.
        skipped: Reason why the study could not run a model or data set that it names, by name.
    """

    models: Mapping[str, str]
    compared: bool
    confidence: float
    built: Mapping[str, Mapping[str, Any]]
    datasets: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)


def number_of_text(text: str, n: int = 0) -> Number:
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
        files: Parquet files by kind, a key of `READERS`; other kinds are ignored.
        profile: Profile whose rows are read; rows of files without profiles belong to all profiles.
    """
    numbers: Numbers = {}
    for kind, paths in files.items():
        if kind not in READERS:
            continue
        record_type, read = READERS[kind]
        for path in paths:
            # Records of construction have no profile and serve all profiles.
            records = [
                record
                for record in read_records(path, record_type)
                if getattr(record, "profile", profile) == profile
            ]
            for name, number in read(records):
                numbers[NumberKey(kind, *name)] = number
    return numbers


class NumberName(NamedTuple):
    """Name of a number within its kind of file; the fields are as in `NumberKey`."""

    metric: str
    model: str
    dataset: str
    setting: str


NamedNumber = tuple[NumberName, Number]


def _read_metrics(records: Sequence[MetricRecord]) -> Iterator[NamedNumber]:
    """Yield the metrics of models.

    The record of a metric such as `paraphrasing:sd` holds the standard deviation of `paraphrasing`.
    It is yielded as a number, and also becomes part of the number of `paraphrasing`.
    """
    numbers: dict[NumberName, Number] = {}
    for record in records:
        name = NumberName(record.metric, record.model, record.dataset, record.setting)
        numbers[name] = Number(record.measure)
    for name, number in numbers.items():
        deviation = numbers.get(name._replace(metric=f"{name.metric}{DEVIATION}"))
        if deviation is not None:
            number = replace(number, sd=deviation.measure.value)
        yield name, number


def _read_correlations(records: Sequence[MetricRecord]) -> Iterator[NamedNumber]:
    """Yield correlations; undefined ones get the text `UNDEFINED`."""
    for name, number in _read_metrics(records):
        is_undefined = number.measure.value is None and number.measure.n > 1
        if is_undefined:
            number = replace(number, text=UNDEFINED)
        yield name, number


def _read_shares(records: Sequence[ShareRecord]) -> Iterator[NamedNumber]:
    """Yield T-SHAP by role, and its rank correlation with correctness."""
    for record in records:
        name = NumberName(
            f"t_shap:{record.role}", record.model, record.dataset, record.setting
        )
        yield name, Number(record.measure, record.sd)
        # Spearman correlation of T-SHAP with correctness, over the same items.
        rho = Measure(
            record.rho,
            record.measure.n,
            record.rho_low,
            record.rho_high,
            images=record.measure.images,
        )
        yield name._replace(metric=f"rho:{record.role}"), Number(rho)
        # One prompt shows caption and foil, so its share has no role.
        if record.setting == "pairwise":
            yield name._replace(metric="t_shap:"), Number(record.measure, record.sd)


def _read_statistics(records: Sequence[StatisticRecord]) -> Iterator[NamedNumber]:
    """Yield the statistics of validation."""
    for record in records:
        yield NumberName(record.metric, "", record.dataset, ""), Number(record.measure)


def _read_conditions(records: Sequence[ProbeRecord]) -> Iterator[NamedNumber]:
    """Yield the verbs of CV-Probes with their numbers of items, and the number of image-caption
    pairs of each kind.
    """
    verbs = Counter(record.verb for record in records)
    for verb, n_items in sorted(verbs.items()):
        yield NumberName("verb", "", "cv-probes", verb), number_of_text(verb, n_items)
    # Images with their matching captions: contextual verb and image, or neither of them contextual.
    pairs = Counter(record.condition for record in records if record.form == "original")
    for setting, n_pairs in (
        ("context-dependent", pairs["+img+cap"]),
        ("non-context-dependent", pairs["-img-cap"]),
    ):
        name = NumberName("image_caption_pairs", "", "cv-probes", setting)
        yield name, Number(Measure(float(n_pairs), n_pairs))


def _read_captions(records: Sequence[ProbeCaptionRecord]) -> Iterator[NamedNumber]:
    """Yield the mean grammaticality of all captions of CV-Probes, and of the captions that are
    used.
    """
    selected = [record for record in records if not record.rejected]
    for setting, captions in (("all", records), ("selected", selected)):
        scores = [
            record.grammaticality
            for record in captions
            if record.grammaticality is not None
        ]
        if not scores:
            continue
        mean = Measure(float(np.mean(scores)), len(scores))
        name = NumberName("gruen_mean", "", "cv-probes", setting)
        yield name, Number(mean, compute_sd(scores))


def _read_examples(records: Sequence[ItemRecord]) -> Iterator[NamedNumber]:
    """Yield caption, foil and image of the first valid items of an instrument."""
    # Items that nobody has judged (None) count as valid.
    valid_items = [record for record in records if record.valid is not False]
    # By id, so that the same study always shows the same examples.
    valid_items.sort(key=lambda record: record.item_id)
    for number, item in enumerate(valid_items[:EXAMPLES], 1):
        texts = {"caption": item.caption, "foil": item.foil, "image": item.image}
        for metric, text in texts.items():
            name = NumberName(metric, "", item.instrument, str(number))
            yield name, number_of_text(text, 1)


def _read_measurements(records: Sequence[MeasurementRecord]) -> Iterator[NamedNumber]:
    """Yield the numbers of a measurement, without numbers of single combinations.

    The setting of a number consists of the factor that was varied and its level.
    """
    for record in records:
        if record.factor == SINGLE:
            continue
        # A factor without levels has its name alone as setting.
        setting = ": ".join(filter(None, (record.factor, record.level)))
        name = NumberName(record.quantity, record.model, record.dataset, setting)
        yield name, Number(record.measure)


Reader = tuple[type[Record], Callable[[Sequence[Any]], Iterable[NamedNumber]]]
"""Type of the records in a kind of file, and function that yields the numbers of such records."""
READERS: dict[str, Reader] = {
    "evaluation": (MetricRecord, _read_metrics),
    "attribution": (MetricRecord, _read_metrics),
    "consistency": (MetricRecord, _read_metrics),
    "correlations": (MetricRecord, _read_correlations),
    "shares": (ShareRecord, _read_shares),
    "validation": (StatisticRecord, _read_statistics),
    "probes": (ProbeRecord, _read_conditions),
    "captions": (ProbeCaptionRecord, _read_captions),
    "samples": (ItemRecord, _read_examples),
    **dict.fromkeys(MEASUREMENTS, (MeasurementRecord, _read_measurements)),
}
"""Reader of each kind of file."""


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
