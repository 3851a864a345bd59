"""Our numbers, read from the result files of all stages, by the places that declarations name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from waltz.core.files import parquet
from waltz.core.intervals import Measure
from waltz.core.schema import BENCHMARK, CONDITIONS, METRICS, PROBE_CAPTIONS, SHARES, STATISTICS, Layout

Row = Mapping[str, Any]
Place = tuple[str, str, str, str, str]
"""Kind of file, metric, model, data set, setting."""
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
    built: Mapping[str, Mapping[str, object]]
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
    Raises:
        UserError: A file is missing or broken.
    """
    numbers: Numbers = {}
    for kind, paths in files.items():
        if kind not in READERS:
            continue
        layout, read = READERS[kind]
        for path in paths:
            rows = parquet.read(path, layout).to_pylist()
            of_profile = [row for row in rows if row.get("profile", profile) == profile]
            numbers |= {(kind, *place): number for place, number in read(of_profile)}
    return numbers


PlacedNumbers = Iterable[tuple[tuple[str, str, str, str], Number]]


def _read_measure(row: Row) -> Measure:
    return Measure(row["value"], row["n"], row["ci_low"], row["ci_high"], row["reason"])


def _read_metrics(rows: Sequence[Row]) -> PlacedNumbers:
    """Yield the rows of `METRICS`; a row `paraphrasing:sd` is the standard deviation of `paraphrasing`."""
    names = ("metric", "model", "dataset", "setting")
    spread = {
        (row["metric"].removesuffix(DEVIATION), *(row[name] for name in names[1:])): row["value"]
        for row in rows
        if row["metric"].endswith(DEVIATION)
    }
    for row in rows:
        place = (row["metric"], row["model"], row["dataset"], row["setting"])
        yield place, Number(_read_measure(row), spread.get(place))


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
}
"""Layout and reader by kind of file."""
