"""Our numbers, read from the result files of a study, by the keys under which declarations of
tables name them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from waltz.core.files import parquet
from waltz.core.layout import Layout
from waltz.core.measure import Measure
from waltz.core.schema import (
    BENCHMARK,
    CONDITIONS,
    MEASURES,
    METRICS,
    PROBE_CAPTIONS,
    SHARES,
    STATISTICS,
)
from waltz.measures.rows import SINGLE
from waltz.reporting.tables.declaration import PAPER_SETTING, Declaration
from waltz.reporting.tables.declarations import MEASUREMENTS

Row = Mapping[str, Any]
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
        # Files of construction have no column `profile` and serve all profiles.
        layout, read = READERS[kind]
        for path in paths:
            rows = [
                row
                for row in parquet.read_rows(path, layout)
                if row.get("profile", profile) == profile
            ]
            for (metric, model, dataset, setting), number in read(rows):
                numbers[NumberKey(kind, metric, model, dataset, setting)] = number
    return numbers


NamedNumber = tuple[tuple[str, str, str, str], Number]
"""Names of a number (metric, model, data set and setting), and the number."""


def _read_measure(row: Row) -> Measure:
    return Measure(
        row["value"],
        row["n"],
        row["ci_low"],
        row["ci_high"],
        row["ci_method"],
        row["reason"],
        row["images"],
    )


def _read_metrics(rows: Sequence[Row]) -> Iterator[NamedNumber]:
    """Yield the numbers in rows of the layout `METRICS`.

    The row of a metric such as `paraphrasing:sd` holds the standard deviation of `paraphrasing`. It
    is yielded as a number, and also becomes part of the number of `paraphrasing`.
    """
    rows_by_name = {
        (row["metric"], row["model"], row["dataset"], row["setting"]): row
        for row in rows
    }
    for (metric, model, dataset, setting), row in rows_by_name.items():
        deviation = rows_by_name.get((f"{metric}{DEVIATION}", model, dataset, setting))
        sd = None if deviation is None else deviation["value"]
        yield (metric, model, dataset, setting), Number(_read_measure(row), sd)


def _read_correlations(rows: Sequence[Row]) -> Iterator[NamedNumber]:
    """Yield the correlations in rows of the layout `METRICS`; undefined correlations get the text
    `UNDEFINED`.
    """
    for names, number in _read_metrics(rows):
        is_undefined = number.measure.value is None and number.measure.n > 1
        yield names, replace(number, text=UNDEFINED if is_undefined else "")


def _read_shares(rows: Sequence[Row]) -> Iterator[NamedNumber]:
    """Yield T-SHAP by role, and its rank correlation with correctness, in rows of the layout
    `SHARES`.
    """
    for row in rows:
        names = (row["model"], row["dataset"], row["setting"])
        share = Number(_read_measure(row), row["sd"])
        # Spearman correlation of T-SHAP with correctness, over the same items.
        rho = Measure(
            row["rho"], row["n"], row["rho_low"], row["rho_high"], images=row["images"]
        )
        yield (f"t_shap:{row['role']}", *names), share
        yield (f"rho:{row['role']}", *names), Number(rho)
        # One prompt shows caption and foil, so its share has no role.
        if row["setting"] == "pairwise":
            yield ("t_shap:", *names), share


def _read_statistics(rows: Sequence[Row]) -> Iterator[NamedNumber]:
    """Yield the statistics of validation in rows of the layout `STATISTICS`."""
    for row in rows:
        yield (row["metric"], "", row["dataset"], ""), Number(_read_measure(row))


def _read_conditions(rows: Sequence[Row]) -> Iterator[NamedNumber]:
    """Yield the verbs of CV-Probes with their numbers of items, and the number of image-caption
    pairs of each kind.
    """
    for verb in sorted({row["verb"] for row in rows}):
        n_items = sum(row["verb"] == verb for row in rows)
        yield ("verb", "", "cv-probes", verb), number_of_text(verb, n_items)
    # Images with their matching captions: contextual verb and image, or neither of them contextual.
    for setting, condition in (
        ("context-dependent", "+img+cap"),
        ("non-context-dependent", "-img-cap"),
    ):
        count = sum(
            row["condition"] == condition and row["form"] == "original" for row in rows
        )
        yield (
            ("image_caption_pairs", "", "cv-probes", setting),
            Number(Measure(float(count), count)),
        )


def _read_captions(rows: Sequence[Row]) -> Iterator[NamedNumber]:
    """Yield the mean grammaticality of all captions of CV-Probes, and of the captions that are
    used.
    """
    selected = [row for row in rows if not row["rejected"]]
    for setting, captions in (("all", rows), ("selected", selected)):
        scores = [
            row["grammaticality"]
            for row in captions
            if row["grammaticality"] is not None
        ]
        if scores:
            # ddof=1: the captions are a sample. A single caption has no deviation.
            sd = float(np.std(scores, ddof=1)) if len(scores) > 1 else None
            mean = Measure(float(np.mean(scores)), len(scores))
            yield ("gruen_mean", "", "cv-probes", setting), Number(mean, sd)


def _read_examples(rows: Sequence[Row]) -> Iterator[NamedNumber]:
    """Yield caption, foil and image of the first valid items of an instrument."""
    # Items that nobody has judged (None) count as valid.
    valid_items = [row for row in rows if row["valid"] is not False]
    # By id, so that the same study always shows the same examples.
    valid_items.sort(key=lambda row: str(row["item_id"]))
    for number, row in enumerate(valid_items[:EXAMPLES], 1):
        for metric in ("caption", "foil", "image"):
            yield (
                (metric, "", row["instrument"], str(number)),
                number_of_text(row[metric], 1),
            )


def _read_measurements(rows: Sequence[Row]) -> Iterator[NamedNumber]:
    """Yield the numbers of a measurement, without numbers of single combinations.

    The setting of a number consists of the factor that was varied and its level.
    """
    for row in rows:
        if row["factor"] == SINGLE:
            continue
        # A factor without levels has its name alone as setting.
        setting = ": ".join(filter(None, (row["factor"], row["level"])))
        yield (
            (row["quantity"], row["model"], row["dataset"], setting),
            Number(_read_measure(row)),
        )


READERS: dict[str, tuple[Layout, Callable[[Sequence[Row]], Iterable[NamedNumber]]]] = {
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
"""Layout of each kind of file, and the function that reads its numbers."""


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
    metric, dataset, setting = position
    # The first key that has a number wins: sources, then our data sets, then settings.
    aliases = declaration.find_dataset_aliases(dataset, setting)
    for source in declaration.sources[metric]:
        for name in dict.fromkeys((*aliases, dataset)):
            for source_setting in source.settings:
                actual_setting = (
                    setting if source_setting == PAPER_SETTING else source_setting
                )
                yield NumberKey(source.kind, source.metric, model, name, actual_setting)
