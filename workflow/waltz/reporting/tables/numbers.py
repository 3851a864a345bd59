"""Our numbers, read from the files of all stages, by where a declaration looks for them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
"""Text of a correlation that is not defined, as in print."""
EXAMPLES = 5
"""Items of an instrument in a table of samples."""


@dataclass(frozen=True)
class Number:
    """One number of ours, or a text that stands in place of one.

    Attributes:
        measure: The number, or why there is none.
        sd: Its deviation: over items (T-SHAP), over seeds (tests), over data sets (averages).
        text: What is shown in place of a number.
    """

    measure: Measure
    sd: float | None = None
    text: str = ""


Numbers = dict[Place, Number]


def number_of_text(text: str, n: int = 0) -> Number:
    """A text in place of a number, taken from n items."""
    return Number(Measure(None, n), text=text)


def read_numbers(files: Mapping[str, Sequence[str]], profile: str) -> Numbers:
    """Everything that some files hold of a profile.

    Args:
        files: Parquet files by kind, a key of `READERS`; other kinds are passed over.
        profile: Whose rows are taken; files without profiles serve all.
    Raises:
        UserError: A file is missing or broken.
    """
    found: Numbers = {}
    for kind, paths in files.items():
        if kind not in READERS:
            continue
        layout, read = READERS[kind]
        for path in paths:
            rows = parquet.read(path, layout).to_pylist()
            mine = [row for row in rows if row.get("profile", profile) == profile]
            found |= {(kind, *place): number for place, number in read(mine)}
    return found


PlacedNumbers = Iterable[tuple[tuple[str, str, str, str], Number]]


def _read_measure(row: Row) -> Measure:
    return Measure(row["value"], row["n"], row["ci_low"], row["ci_high"], row["reason"])


def _read_metrics(rows: Sequence[Row]) -> PlacedNumbers:
    """Rows of `METRICS`; a row `paraphrasing:sd` is the deviation of `paraphrasing`."""
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
    """Undefined correlations are shown as in print."""
    for place, number in _read_metrics(rows):
        undefined = number.measure.value is None and number.measure.n > 1
        yield place, Number(number.measure, number.sd, UNDEFINED if undefined else "")


def _read_shares(rows: Sequence[Row]) -> PlacedNumbers:
    for row in rows:
        place = (row["model"], row["dataset"], row["setting"])
        share = Number(_read_measure(row), row["sd"])
        yield (f"t_shap:{row['role']}", *place), share
        yield (f"rho:{row['role']}", *place), Number(Measure(row["rho"], row["n"], row["rho_low"], row["rho_high"]))
        if row["setting"] == "pairwise":
            yield ("t_shap:", *place), share


def _read_statistics(rows: Sequence[Row]) -> PlacedNumbers:
    for row in rows:
        yield (row["metric"], "", row["dataset"], ""), Number(_read_measure(row))


def _read_conditions(rows: Sequence[Row]) -> PlacedNumbers:
    """Verbs by their name, and how many pairs of image and caption have captions of each kind."""
    for verb in sorted({row["verb"] for row in rows}):
        yield ("verb", "", "cv-probes", verb), number_of_text(verb, sum(row["verb"] == verb for row in rows))
    for setting, condition in (("context-dependent", "+img+cap"), ("non-context-dependent", "-img-cap")):
        count = sum(row["condition"] == condition and row["form"] == "original" for row in rows)
        yield ("image_caption_pairs", "", "cv-probes", setting), Number(Measure(float(count), count))


def _read_captions(rows: Sequence[Row]) -> PlacedNumbers:
    """Grammaticality of CV-Probes' captions, of all and of those that are used."""
    for setting, of in (("all", rows), ("selected", [row for row in rows if not row["rejected"]])):
        scores = [row["grammaticality"] for row in of if row["grammaticality"] is not None]
        if scores:
            spread = float(np.std(scores, ddof=1)) if len(scores) > 1 else None
            mean = Measure(float(np.mean(scores)), len(scores))
            yield ("gruen_mean", "", "cv-probes", setting), Number(mean, spread)


def _read_examples(rows: Sequence[Row]) -> PlacedNumbers:
    """The first valid items of an instrument: caption, foil and image, by number."""
    kept = sorted((row for row in rows if row["valid"] is not False), key=lambda row: str(row["item_id"]))
    for number, row in enumerate(kept[:EXAMPLES], 1):
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
