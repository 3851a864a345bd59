"""The example browser of the page: items with the scores, contributions and test results of each model."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waltz.attribution.t_shap import compute_contribution_ratios, find_contributing_outputs
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.sampling import rank
from waltz.evaluation.settings import ALIGNMENT, FOILS, MISMATCHED, PAIRWISE, PERPLEXITY, SINGLE
from waltz.evaluation.vqa import select_questions
from waltz.reporting.figures.figure_files import open_dataset_images
from waltz.reporting.page.embedded import inline_image
from waltz.reporting.page.plain_tables import Row

STEPS, DETAIL_STEPS = 999, 99
"""Number of steps that a column's largest magnitude is divided into, for one output and for each of many."""
MAX_DETAILS, MAX_CHARACTERS = 2_000_000, 4_000_000
"""Largest number of characters of single output tokens' values, and of all other contributions."""
MEAN = "mean of ratios"
TEXTS = {"caption": "caption", "question": "question", "answer": "gold answer"}
"""Fields of an item that are texts, except its foil."""
FACTS = ("piece", "condition", "form", "verb", "source", "split", "direction")
JUDGEMENTS = {"valid": ("valid", "not valid"), "match": ("a match", "no match")}
VOTES = ("votes_caption", "votes_foil", "votes_other")
SCORES = ("role", "setting", "score", "probability", "prediction", "correct", "order", "reasoning", "error")
SHARES = ("role", "setting", "explained", "score", "t_shap", "t_shap_se", "estimator", "evaluated", "reason", "error")
TESTS = (
    *("role", "setting", "test", "verdict", "answer", "edited_answer", "reason", "explanation", "edited_input"),
    *("edited_explanation", "inserted", "flipped", "exchanges", "seed"),
)
CC_SHAPS = (
    *("role", "setting", "kind", "value", "standard_error", "t_shap_answer", "t_shap_explanation"),
    *("answer", "explanation", "reason", "seed"),
)
SMALLEST_SIDE, LARGEST_SIDE = 240, 640
"""Pixels of the longer side of an example's image, at least and at most."""
IMAGES_BYTES, BYTES_PER_PIXEL = 1_500_000, 0.1
"""Bytes of all examples' images, and of a pixel of a photograph."""
RESULTS = ("evaluation", "attribution", "consistency", "cc_shap")
"""Kinds of results of a model on a data set."""
ResultFiles = Mapping[str, Sequence[tuple[str, str, str]]]
"""By kind of result: model, data set, and Parquet file of each run."""


@dataclass(frozen=True)
class ModelRun:
    """Results of one model on one data set.

    Attributes:
        model: Name of the model.
        dataset: Name of the data set.
        evaluation: Rows of the evaluation layout.
        attribution: Rows of the attribution layout; `outputs` names the columns of `phi` where there are several.
        consistency: Rows of the self-consistency tests.
        cc_shap: Rows of CC-SHAP.
    """

    model: str
    dataset: str
    evaluation: Sequence[Row] = ()
    attribution: Sequence[Row] = ()
    consistency: Sequence[Row] = ()
    cc_shap: Sequence[Row] = ()


def read_items(
    datasets: Mapping[str, str], questions: Mapping[str, str], entries: Mapping[str, Mapping[str, Any]], seed: int
) -> dict[str, list[Row]]:
    """Read all items of data sets, by name.

    Args:
        datasets: Parquet file of each data set of items or text tasks.
        questions: Parquet file of the source of each data set of open questions.
        entries: Entry of each such data set in the study.
    """
    items = {name: parquet.read_table(file).to_pylist() for name, file in datasets.items()}
    for name, file in questions.items():
        rows, entry = parquet.read_table(file).to_pylist(), entries[name]
        items[name], _ = select_questions(name, rows, entry["size"], seed, entry.get("choice"))
    return items


def read_browser_data(
    items: Mapping[str, Sequence[Row]],
    files: ResultFiles,
    images: Mapping[str, str],
    n: int,
    seed: int,
    middle_square: Sequence[str] = (),
) -> dict[str, Any]:
    """Read the data of the example browser for its script.

    Args:
        images: Folder or archive of images by data set; other data sets have no images.
        n: Largest number of items of a data set that are shown.
        middle_square: Models that see only the square in the middle of an image.
    """
    examples, runs = read_examples(items, files, n, seed)
    sizes = {name: len(rows) for name, rows in items.items()}
    shown = sum(bool(row.get("image")) for rows in examples.values() for row in rows)
    with open_thumbnails(images, compute_side(shown)) as load_thumbnail:
        return make_browser_data(examples, runs, load_thumbnail, sizes, middle_square)


def read_examples(
    items: Mapping[str, Sequence[Row]], files: ResultFiles, n: int, seed: int
) -> tuple[dict[str, list[Row]], list[ModelRun]]:
    """Return the items to show of each data set, and the results of models on them.

    Args:
        items: All items of each data set, by its name: rows with `item_id`.
    Returns:
        The items that some model scored or explained, at most n a data set, and their rows.
    """
    examples, ids = {}, {}
    for dataset, rows in items.items():
        explained, scored = (
            [item for _, name, file in files.get(kind, ()) if name == dataset for item in _read_ids(file, dataset)]
            for kind in ("attribution", "evaluation")
        )
        ids[dataset] = select_examples(explained, scored, n, seed)
        by_id = {row["item_id"]: row for row in rows}
        examples[dataset] = [by_id[item] for item in ids[dataset] if item in by_id]
    results: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for kind in RESULTS:
        for model, dataset, file in files.get(kind, ()):
            if dataset in items:
                results.setdefault((model, dataset), {})[kind] = _read_rows(file, dataset, ids[dataset])
    runs = [ModelRun(*run, *(by_kind.get(kind, []) for kind in RESULTS)) for run, by_kind in results.items()]
    return {dataset: rows for dataset, rows in examples.items() if rows}, runs


def compute_side(images: int) -> int:
    """Compute the longer side of images in pixels: the fewer there are, the larger."""
    side = math.isqrt(int(IMAGES_BYTES / BYTES_PER_PIXEL) // max(1, images))
    return min(max(side, SMALLEST_SIDE), LARGEST_SIDE)


@contextmanager
def open_thumbnails(folders: Mapping[str, str], side: int) -> Iterator[Callable[[str, str], tuple[str | None, str]]]:
    """Yield a function that loads thumbnails by data set and name: a data URI, or None and the reason.

    Args:
        folders: Folder or archive of images by data set; other data sets have no images.
        side: Largest number of pixels of a side.
    """
    with open_dataset_images(folders, folders.values()) as load_image:

        def load_thumbnail(dataset: str, name: str) -> tuple[str | None, str]:
            if dataset not in folders:
                return None, "this study has no images of the data set"
            try:
                return inline_image(load_image(dataset, name), side), ""
            except UserError as error:
                return None, str(error)

        yield load_thumbnail


def _read_ids(file: str, dataset: str) -> list[str]:
    """Return the ids of the items of one data set in a file."""
    return [str(item) for item in pc.unique(_read_dataset(file, dataset, ["item_id"]).column("item_id")).to_pylist()]


def _read_rows(file: str, dataset: str, ids: Sequence[str]) -> list[Row]:
    """Return the rows of some items of one data set."""
    rows: list[Row] = _read_dataset(file, dataset).filter(pc.field("item_id").isin(ids)).to_pylist()
    return rows


def _read_dataset(file: str, dataset: str, columns: list[str] | None = None) -> pa.Table:
    """Return the rows of one data set."""
    try:
        return parquet.read_table(file, columns=columns, filters=[("dataset", "==", dataset)])
    except FileNotFoundError:
        raise UserError(f"{file}: no such file; run the workflow to write it") from None


def select_examples(attributed: Sequence[str], evaluated: Sequence[str], n: int, seed: int) -> list[str]:
    """Return the ids of the items that the page shows: those of lowest rank, attributed ones first.

    Args:
        attributed: Ids of items with contributions; repetitions count once.
    """
    with_contributions = set(attributed)
    order = sorted({*attributed, *evaluated}, key=lambda item: (item not in with_contributions, rank(item, seed), item))
    return order[:n]


def make_browser_data(
    items: Mapping[str, Sequence[Row]],
    runs: Sequence[ModelRun],
    load_thumbnail: Callable[[str, str], tuple[str | None, str]],
    sizes: Mapping[str, int],
    middle_square: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the data of the example browser for its script.

    Scores and contributions are lists of values in the order of `fields`, cut after the last one that is not empty.

    Args:
        items: By data set, rows of the benchmark, CV-Probes or questions layout, in the order to be shown.
        runs: Results of models on these items; rows of other items are skipped.
        load_thumbnail: Returns an image of a data set by name: a data URI and an empty text, or None and the reason.
        middle_square: Models that see only the square in the middle of an image.
    """
    entries: list[dict[str, Any]] = []
    models = list(dict.fromkeys(run.model for run in runs))
    players: dict[str, int] = {}
    images: dict[str, int] = {}
    for dataset, rows in items.items():
        dataset_runs = [run for run in runs if run.dataset == dataset]
        by_item = [_group_by_item(run) for run in dataset_runs]
        for number, row in enumerate(rows):
            results = [
                {"model": models.index(run.model), **result}
                for run, rows_by_item in zip(dataset_runs, by_item, strict=True)
                for result in _pack_results(rows_by_item.get(row["item_id"], {}), players)
            ]
            uri, fault = load_thumbnail(dataset, row["image"]) if row.get("image") else (None, "")
            image = None if uri is None else images.setdefault(uri, len(images))
            thumbnail = {"image": image, "fault": fault}
            position = {"dataset": dataset, "place": number}
            entries.append({**position, **_describe_item(row), **thumbnail, "results": results})
    _drop_largest(entries)
    return {
        "datasets": [{"name": name, "items": sizes[name], "shown": len(rows)} for name, rows in items.items()],
        "models": models,
        "fields": {"scores": SCORES, "contributions": SHARES},
        "middle_square": list(middle_square),
        "images": list(images),
        "players": [json.loads(description) for description in players],
        "items": entries,
    }


def choose_typical_example(data: Mapping[str, Any], averages: Mapping[str, float]) -> dict[str, int] | None:
    """Choose the example that stands for a study: that of a model's images whose T-SHAP is nearest to the model's mean.

    Args:
        data: Data of the example browser.
        averages: Mean T-SHAP of models in percent, the preferred model first.
    Returns:
        Numbers of the item, its result and the contributions of its caption; None without contributions.
    """
    for model, average in averages.items():
        distances = [
            (result.get("outcome") != "right", abs(100 * share - average), item_number, number, place)
            for item_number, item in enumerate(data["items"])
            for number, result in enumerate(item["results"])
            for place, part in enumerate(result.get("contributions", ()))
            if item["image"] is not None and data["models"][result["model"]] == model and "columns" in part
            for values in [dict(zip(SHARES, part["is"], strict=False))]
            if values["role"] == "caption" and (share := values.get("t_shap")) is not None
        ]
        if distances:
            return dict(zip(("item", "result", "part"), min(distances)[2:], strict=True))
    return None


def describe_outcome(rows: Sequence[Row]) -> str:
    """Return the outcome of a model on an item: `right`, `wrong`, `tie`, or an empty text where it is undecided.

    A pair is right if the caption has the higher score; a single text or answer is right if its prediction is.

    Args:
        rows: Rows of the evaluation layout, of one item and profile.
    """
    settings = {row["setting"] for row in rows}
    for setting in sorted(settings, key=rank_setting):
        by_role = {("foil" if row["role"] in FOILS else row["role"]): row for row in rows if row["setting"] == setting}
        if setting in (ALIGNMENT, SINGLE) and {"caption", "foil"} <= by_role.keys():
            scores = by_role["caption"]["score"], by_role["foil"]["score"]
            if None not in scores:
                return "tie" if scores[0] == scores[1] else "right" if scores[0] > scores[1] else "wrong"
        else:
            predictions = [row["correct"] for row in [by_role.get("caption"), *by_role.values()] if row is not None]
            for correct in predictions:
                if correct is not None:
                    return "right" if correct else "wrong"
    return ""


def rank_setting(setting: str) -> tuple[int, str]:
    """Return the sort key of a setting: pairs first, then single texts, then others by name."""
    order = (PAIRWISE, PERPLEXITY, ALIGNMENT, SINGLE)
    return (order.index(setting) if setting in order else len(order), setting)


def _describe_item(row: Row) -> dict[str, Any]:
    """Return id, texts, spans and facts of an item."""
    texts = {role: row[field] for field, role in TEXTS.items() if row.get(field)}
    if row.get("foil"):
        texts[MISMATCHED if row.get("instrument") == ALIGNMENT else "foil"] = row["foil"]
    spans = {side: _pack_span(row.get(f"{side}_span")) for side in ("caption", "foil")}
    votes = [str(row[name]) for name in VOTES if row.get(name) is not None]
    facts = [f"{name} {row[name]}" for name in FACTS if row.get(name)]
    facts += [words[not row[name]] for name, words in JUDGEMENTS.items() if row.get(name) is not None]
    if votes:
        facts.append(f"votes of {row.get('voter') or 'people'} for caption, foil, neither: {', '.join(votes)}")
    return {
        "id": row["item_id"],
        "texts": texts,
        "spans": {side: span for side, span in spans.items() if span},
        "facts": facts,
    }


def _pack_span(span: Row | None) -> list[int] | None:
    return [span["start"], span["end"]] if span and span["end"] > span["start"] else None


def _group_by_item(run: ModelRun) -> dict[str, dict[str, list[Row]]]:
    """Return the rows of a run by item and kind of result."""
    rows_by_item: dict[str, dict[str, list[Row]]] = {}
    for kind in RESULTS:
        for row in getattr(run, kind):
            rows_by_item.setdefault(row["item_id"], {}).setdefault(kind, []).append(row)
    return rows_by_item


def _pack_results(rows_by_kind: Mapping[str, Sequence[Row]], players: dict[str, int]) -> list[dict[str, Any]]:
    """Return the results of one model on an item, one for each profile."""
    profiles = dict.fromkeys(row["profile"] for rows in rows_by_kind.values() for row in rows)
    results = []
    for profile in profiles:
        own_rows = {kind: [row for row in rows if row["profile"] == profile] for kind, rows in rows_by_kind.items()}
        result = {
            "profile": profile,
            "outcome": describe_outcome(own_rows.get("evaluation", [])),
            "scores": [_pack_fields(row, SCORES) for row in own_rows.get("evaluation", [])],
            "contributions": [_pack_attributions(row, players) for row in own_rows.get("attribution", [])],
            "tests": [_select_fields(row, TESTS) for row in own_rows.get("consistency", [])],
            "cc_shap": [_select_fields(row, CC_SHAPS) for row in own_rows.get("cc_shap", [])],
        }
        results.append({key: value for key, value in result.items() if value})
    return results


def _select_fields(row: Row, fields: Sequence[str]) -> dict[str, Any]:
    """Return some fields of a row as the page shows them: rounded, without empty ones."""
    values = {field: _simplify(row.get(field)) for field in fields}
    return {field: value for field, value in values.items() if value not in (None, "", [])}


def _pack_fields(row: Row, fields: Sequence[str]) -> list[Any]:
    """Return some fields of a row as a list, cut after the last one that is not empty."""
    values = _select_fields(row, fields)
    length = max((position for position, field in enumerate(fields, 1) if field in values), default=0)
    return [values.get(field) for field in fields[:length]]


def _simplify(value: Any) -> Any:
    """Return a value as JSON can hold it, numbers with five significant digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [_simplify(part) for part in value]
    return value if isinstance(value, (bool, int, str, dict)) or value is None else str(value)


def _pack_attributions(row: Row, players: dict[str, int]) -> dict[str, Any]:
    """Return the contributions of one row; its players are stored once in `players` and referred to by number."""
    packed: dict[str, Any] = {"is": _pack_fields(row, SHARES)}
    if row["phi"] is None:
        return packed
    phi = np.array(row["phi"], dtype=np.float64)
    spans = [end for span in row["spans"] for end in (span["start"], span["end"])]
    description = {"text": row["text"], "tokens": row["tokens"], "spans": spans, "grid": row["grid"] or 0}
    packed["players"] = players.setdefault(json.dumps(description, ensure_ascii=False), len(players))
    if phi.shape[1] == 1:
        return packed | {"columns": [_quantize("", phi[:, 0], STEPS)]}
    counts = find_contributing_outputs(phi)
    mean = compute_contribution_ratios(phi[:, counts]).mean(axis=1) if counts.any() else np.full(len(phi), np.nan)
    outputs = row.get("outputs") or [f"output {number}" for number in range(1, phi.shape[1] + 1)]
    details = [_quantize(name, phi[:, place], DETAIL_STEPS) for place, name in enumerate(outputs)]
    return packed | {"columns": [_quantize(MEAN, mean, STEPS), *details]}


def _quantize(name: str, phi: np.ndarray, steps: int) -> dict[str, Any]:
    """Return the Shapley values of one output as integer multiples of `step`."""
    peak = float(np.nan_to_num(np.abs(phi)).max(initial=0))
    step = peak / steps or 1.0
    values = [None if math.isnan(value) else round(value / step) for value in phi.tolist()]
    return {"name": name, "step": float(f"{step:.6g}"), "phi": values}


def _drop_largest(items: Sequence[Mapping[str, Any]]) -> None:
    """Remove columns that are too many for a page, those of each data set's last items first."""
    details, characters = MAX_DETAILS, MAX_CHARACTERS
    contributions = (
        contribution
        for item in sorted(items, key=lambda item: item["place"])
        for result in item["results"]
        for contribution in result.get("contributions", ())
        if "columns" in contribution
    )
    for contribution in contributions:
        first, *others = contribution["columns"]
        details -= sum(len(str(column)) for column in others)
        characters -= len(str(first)) + len(str(contribution["is"]))
        if others and details < 0:
            contribution |= {"columns": [first], "outputs_skipped": len(others)}
        if characters < 0:
            del contribution["columns"]
            contribution["skipped"] = True
