"""Data of the example browser of the page: items with the scores, contributions and test results of
each model.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waltz.attribution.t_shap import (
    compute_contribution_ratios,
    find_contributing_outputs,
)
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.sampling import rank
from waltz.evaluation.metrics.pair_metrics import is_tied_choice, is_tied_pair
from waltz.evaluation.settings import (
    ALIGNMENT,
    FOILS,
    MISMATCHED,
    PAIRWISE,
    PERPLEXITY,
    SINGLE,
)
from waltz.evaluation.vqa import select_questions
from waltz.reporting.figures.figure_files import open_dataset_images
from waltz.reporting.page.embedded import inline_image
from waltz.reporting.page.page_tables import Row

STEPS, DETAIL_STEPS = 999, 99
"""Number of steps that the largest magnitude of a column is divided into: of a single output, of
one of many.
"""
MAX_DETAILS, MAX_CHARACTERS = 2_000_000, 4_000_000
"""Largest number of characters of the values of single output tokens, and of all other
contributions.
"""
MEAN = "mean of ratios"
TEXTS = {"caption": "caption", "question": "question", "answer": "gold answer"}
"""Role of each field of an item that is a text; the foil has a role that depends on the item."""
FACTS = ("piece", "condition", "form", "verb", "source", "split", "direction")
JUDGEMENTS = {"valid": ("valid", "not valid"), "match": ("a match", "no match")}
VOTES = ("votes_caption", "votes_foil", "votes_other")
SCORES = (
    "role",
    "setting",
    "score",
    "probability",
    "prediction",
    "correct",
    "order",
    "reasoning",
    "error",
)
SHARES = (
    "role",
    "setting",
    "explained",
    "score",
    "t_shap",
    "t_shap_se",
    "estimator",
    "evaluated",
    "reason",
    "error",
)
TESTS = (
    *(
        "role",
        "setting",
        "test",
        "verdict",
        "answer",
        "edited_answer",
        "reason",
        "explanation",
        "edited_input",
    ),
    *("edited_explanation", "inserted", "flipped", "exchanges", "seed"),
)
CC_SHAPS = (
    *(
        "role",
        "setting",
        "kind",
        "value",
        "standard_error",
        "t_shap_answer",
        "t_shap_explanation",
    ),
    *("answer", "explanation", "reason", "seed"),
)
SMALLEST_SIDE, LARGEST_SIDE = 240, 640
"""Smallest and largest number of pixels of the longer side of an example's image."""
IMAGES_BYTES, BYTES_PER_PIXEL = 1_500_000, 0.1
"""Number of bytes that all images of examples may have, and estimated bytes of a pixel of a
photograph.
"""
RESULTS = ("evaluation", "attribution", "consistency", "cc_shap")
"""Kinds of results of a model on a data set."""
ResultFiles = Mapping[str, Sequence[tuple[str, str, str]]]
"""Model, data set and Parquet file of each run, by kind of result."""


@dataclass(frozen=True)
class ModelRun:
    """Results of one model on one data set.

    Attributes:
        model: Name of the model.
        dataset: Name of the data set.
        evaluation: Rows of the evaluation layout.
        attribution: Rows of the attribution layout; `outputs` names the columns of `phi` if there
            are several.
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
    datasets: Mapping[str, str],
    questions: Mapping[str, str],
    entries: Mapping[str, Mapping[str, Any]],
    seed: int,
) -> dict[str, list[Row]]:
    """Return all items of each data set, by its name.

    Args:
        datasets: Parquet file of each data set of items or text tasks.
        questions: Parquet file of the source of each data set of open questions.
        entries: Entry of each data set of open questions in the study.
        seed: Seed of the sample of questions.
    """
    items = {
        name: parquet.read_table(file).to_pylist() for name, file in datasets.items()
    }
    for name, file in questions.items():
        rows, entry = parquet.read_table(file).to_pylist(), entries[name]
        items[name], _ = select_questions(
            name, rows, entry["size"], seed, entry.get("choice")
        )
    return items


def read_browser_data(
    items: Mapping[str, Sequence[Row]],
    files: ResultFiles,
    images: Mapping[str, str],
    n: int,
    seed: int,
    middle_square: Sequence[str] = (),
) -> dict[str, Any]:
    """Read items and results, and return the data of the example browser for its script.

    Args:
        items: All items of each data set, by its name.
        files: Files of results.
        images: Folder or archive of images by data set; other data sets have no images.
        n: Largest number of items of a data set that are shown.
        seed: Seed of the choice of items.
        middle_square: Models that see only the square in the middle of an image.
    """
    examples, runs = read_examples(items, files, n, seed)
    sizes = {name: len(rows) for name, rows in items.items()}
    # Images are as large as their number allows, so they are counted before one is loaded.
    shown = sum(bool(row.get("image")) for rows in examples.values() for row in rows)
    with open_thumbnails(images, compute_side(shown)) as load_thumbnail:
        return make_browser_data(examples, runs, load_thumbnail, sizes, middle_square)


def read_examples(
    items: Mapping[str, Sequence[Row]], files: ResultFiles, n: int, seed: int
) -> tuple[dict[str, list[Row]], list[ModelRun]]:
    """Return the items to show of each data set, and the results of models on them.

    Args:
        items: All items of each data set, by its name: rows with `item_id`.
        files: Files of results.
        n: Largest number of items of a data set.
        seed: Seed of the choice of items.
    Returns:
        The chosen items of each data set, which a model scored or explained, and the results on
        them.
    """
    examples = {}
    shown_ids = {}
    for dataset, rows in items.items():
        # Only items with scores or contributions are shown, so their ids are read first.
        explained = _read_ids(files.get("attribution", ()), dataset)
        scored = _read_ids(files.get("evaluation", ()), dataset)
        shown_ids[dataset] = select_examples(explained, scored, n, seed)
        items_by_id = {row["item_id"]: row for row in rows}
        examples[dataset] = [
            items_by_id[item_id]
            for item_id in shown_ids[dataset]
            if item_id in items_by_id
        ]

    # Rows of results are read only for the chosen items.
    results: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for kind in RESULTS:
        for model, dataset, file in files.get(kind, ()):
            if dataset in items:
                rows_by_kind = results.setdefault((model, dataset), {})
                rows_by_kind[kind] = _read_rows(file, dataset, shown_ids[dataset])
    runs = []
    for (model, dataset), rows_by_kind in results.items():
        runs.append(ModelRun(model, dataset, **rows_by_kind))
    return {dataset: rows for dataset, rows in examples.items() if rows}, runs


def compute_side(images: int) -> int:
    """Return the longer side of images in pixels: the fewer images there are, the larger they are."""
    # A square of this side has as many pixels as the bytes of one image pay for.
    side = math.isqrt(int(IMAGES_BYTES / BYTES_PER_PIXEL) // max(1, images))
    return min(max(side, SMALLEST_SIDE), LARGEST_SIDE)


@contextmanager
def open_thumbnails(
    folders: Mapping[str, str], side: int
) -> Iterator[Callable[[str, str], tuple[str | None, str]]]:
    """Yield a function that loads the thumbnail of an image by data set and name.

    The function returns a data URI and an empty text, or None and the reason why the image cannot
    be shown.

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


def _read_ids(files: Iterable[tuple[str, str, str]], dataset: str) -> list[str]:
    """Return the ids of the items of one data set that occur in files of results.

    Args:
        files: Model, data set and file of each run; runs on other data sets are skipped.
        dataset: Name of the data set.
    """
    ids = []
    for _, name, file in files:
        if name == dataset:
            column = _read_dataset(file, dataset, ["item_id"]).column("item_id")
            ids += [str(item_id) for item_id in pc.unique(column).to_pylist()]
    return ids


def _read_rows(file: str, dataset: str, ids: Sequence[str]) -> list[Row]:
    """Return the rows of some items of one data set in a file of results."""
    rows: list[Row] = (
        _read_dataset(file, dataset).filter(pc.field("item_id").isin(ids)).to_pylist()
    )
    return rows


def _read_dataset(
    file: str, dataset: str, columns: list[str] | None = None
) -> pa.Table:
    """Return the rows of one data set in a file of results."""
    try:
        return parquet.read_table(
            file, columns=columns, filters=[("dataset", "==", dataset)]
        )
    except FileNotFoundError:
        raise UserError(f"{file}: no such file; run the workflow to write it") from None


def select_examples(
    attributed: Sequence[str], evaluated: Sequence[str], n: int, seed: int
) -> list[str]:
    """Return the ids of the items that the page shows: attributed items first, then by a seeded
    rank.

    Args:
        attributed: Ids of items with contributions; repeated ids count once.
        evaluated: Ids of items with scores.
        n: Largest number of items.
        seed: Seed of the rank.
    """
    with_contributions = set(attributed)

    def rank_item(item_id: str) -> tuple[bool, int, str]:
        return item_id not in with_contributions, rank(item_id, seed), item_id

    return sorted({*attributed, *evaluated}, key=rank_item)[:n]


def make_browser_data(
    items: Mapping[str, Sequence[Row]],
    runs: Sequence[ModelRun],
    load_thumbnail: Callable[[str, str], tuple[str | None, str]],
    sizes: Mapping[str, int],
    middle_square: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the data of the example browser for its script.

    Scores and contributions are lists of values in the order of `fields`, cut after the last value
    that is not empty.

    Args:
        items: By data set, rows of the benchmark, CV-Probes or questions layout, in the order to be
            shown.
        runs: Results of models on these items; rows of other items are skipped.
        load_thumbnail: Function that returns an image by data set and name: a data URI and an empty
            text, or None and the reason.
        sizes: Number of all items of each data set.
        middle_square: Models that see only the square in the middle of an image.
    """
    entries: list[dict[str, Any]] = []
    models = list(dict.fromkeys(run.model for run in runs))
    players: dict[str, int] = {}
    images: dict[str, int] = {}
    for dataset, rows in items.items():
        dataset_runs = [
            (models.index(run.model), _group_by_item(run))
            for run in runs
            if run.dataset == dataset
        ]
        for number, row in enumerate(rows):
            results = []
            for model, rows_by_item in dataset_runs:
                for result in _pack_results(
                    rows_by_item.get(row["item_id"], {}), players
                ):
                    results.append({"model": model, **result})
            uri, fault = (
                load_thumbnail(dataset, row["image"])
                if row.get("image")
                else (None, "")
            )
            image = None if uri is None else images.setdefault(uri, len(images))
            position = {"dataset": dataset, "place": number}
            entries.append(
                {
                    **position,
                    **_describe_item(row),
                    "image": image,
                    "fault": fault,
                    "results": results,
                }
            )
    # The page stays small enough to open: contributions of each data set's last items go first.
    _drop_largest(entries)
    return {
        "datasets": [
            {"name": name, "items": sizes[name], "shown": len(rows)}
            for name, rows in items.items()
        ],
        "models": models,
        "fields": {"scores": SCORES, "contributions": SHARES},
        "middle_square": list(middle_square),
        "images": list(images),
        "players": [json.loads(description) for description in players],
        "items": entries,
    }


def choose_typical_example(
    data: Mapping[str, Any], averages: Mapping[str, float]
) -> dict[str, int] | None:
    """Return the example that is typical of a study: its T-SHAP is nearest to the mean of the
    model.

    Examples with a right outcome are preferred.

    Args:
        data: Data of the example browser.
        averages: Mean T-SHAP of models in percent, the preferred model first.
    Returns:
        Numbers of the item, its result, and the part of the result that has the contributions of
        its caption; None without contributions.
    """
    for model, average in averages.items():
        candidates = []
        for position, is_right, t_shap in _list_captions(data, model):
            candidates.append((not is_right, abs(100 * t_shap - average), position))
        if candidates:
            _, _, (item, result, part) = min(candidates)
            return {"item": item, "result": result, "part": part}
    return None


def _list_captions(
    data: Mapping[str, Any], model: str
) -> Iterator[tuple[tuple[int, int, int], bool, float]]:
    """Yield the captions that have an image and contributions to a model's scores.

    Yields:
        Numbers of the item, its result and the part of the result; whether the outcome is right;
        T-SHAP, between 0 and 1.
    """
    for item_number, item in enumerate(data["items"]):
        if item["image"] is None:
            continue
        for result_number, result in enumerate(item["results"]):
            if data["models"][result["model"]] != model:
                continue
            is_right = result.get("outcome") == "right"
            for part_number, part in enumerate(result.get("contributions", ())):
                facts = dict(zip(SHARES, part["is"], strict=False))
                t_shap = facts.get("t_shap")
                is_shown_caption = "columns" in part and facts["role"] == "caption"
                if is_shown_caption and t_shap is not None:
                    yield (item_number, result_number, part_number), is_right, t_shap


def describe_outcome(rows: Sequence[Row]) -> str:
    """Return the outcome of a model on an item: `right`, `wrong`, `tie`, or an empty text if
    nothing decides it.

    A pair is right if the caption has the higher score; a single text or answer is right if its
    prediction is.

    Args:
        rows: Rows of the evaluation layout, of one item and profile.
    """
    settings = {row["setting"] for row in rows}
    # The first setting with an outcome decides.
    for setting in sorted(settings, key=rank_setting):
        rows_by_role = {}
        for row in rows:
            if row["setting"] == setting:
                # Foils and mismatched captions of other images are the wrong text alike.
                role = "foil" if row["role"] in FOILS else row["role"]
                rows_by_role[role] = row
        outcome = _describe_setting(setting, rows_by_role)
        if outcome:
            return outcome
    return ""


def _describe_setting(setting: str, rows_by_role: Mapping[str, Row]) -> str:
    """Return the outcome of a model on an item in one setting; an empty text if nothing decides it.

    Args:
        setting: Setting of the scores.
        rows_by_role: Row of each role in this setting; any kind of foil has the role `foil`.
    """
    caption, foil = rows_by_role.get("caption"), rows_by_role.get("foil")
    # Both texts have a score: the higher one wins.
    if (
        setting in (PERPLEXITY, ALIGNMENT, SINGLE)
        and caption is not None
        and foil is not None
    ):
        if caption["score"] is None or foil["score"] is None:
            return ""
        if is_tied_pair(caption, foil):
            return "tie"
        return "right" if caption["score"] > foil["score"] else "wrong"
    # One prompt shows both texts: the model chooses between them.
    if setting == PAIRWISE and caption is not None and is_tied_choice(caption):
        return "tie"
    # Single texts and answers: the first judged prediction decides, the caption's before others.
    predictions = [
        row["correct"] for row in (caption, *rows_by_role.values()) if row is not None
    ]
    for is_correct in predictions:
        if is_correct is not None:
            return "right" if is_correct else "wrong"
    return ""


def rank_setting(setting: str) -> tuple[int, str]:
    """Return the sort key of a setting: pairs come first, then single texts, then other settings by
    name.
    """
    order = (PAIRWISE, PERPLEXITY, ALIGNMENT, SINGLE)
    return (order.index(setting) if setting in order else len(order), setting)


def _describe_item(row: Row) -> dict[str, Any]:
    """Return id, texts by role, spans of exchanged words, and further facts of an item."""
    texts = {role: row[field] for field, role in TEXTS.items() if row.get(field)}
    if row.get("foil"):
        # An item of alignment has the caption of another image in the place of a foil.
        is_of_other_image = row.get("instrument") == ALIGNMENT
        texts[MISMATCHED if is_of_other_image else "foil"] = row["foil"]
    spans = {}
    for role in ("caption", "foil"):
        span = row.get(f"{role}_span")
        if span and span["end"] > span["start"]:
            spans[role] = [span["start"], span["end"]]
    return {
        "id": row["item_id"],
        "texts": texts,
        "spans": spans,
        "facts": _list_facts(row),
    }


def _list_facts(row: Row) -> list[str]:
    """Return further facts about an item as texts: its fields, judgements and votes."""
    facts = [f"{name} {row[name]}" for name in FACTS if row.get(name)]
    for name, (word_if_true, word_if_false) in JUDGEMENTS.items():
        if row.get(name) is not None:
            facts.append(word_if_true if row[name] else word_if_false)
    votes = [str(row[name]) for name in VOTES if row.get(name) is not None]
    if votes:
        voters = row.get("voter") or "people"
        facts.append(
            f"votes of {voters} for caption, foil, neither: {', '.join(votes)}"
        )
    return facts


def _group_by_item(run: ModelRun) -> dict[str, dict[str, list[Row]]]:
    """Return the rows of a run by item and kind of result."""
    rows_by_item: dict[str, dict[str, list[Row]]] = {}
    for kind in RESULTS:
        for row in getattr(run, kind):
            rows_by_item.setdefault(row["item_id"], {}).setdefault(kind, []).append(row)
    return rows_by_item


def _pack_results(
    rows_by_kind: Mapping[str, Sequence[Row]], players: dict[str, int]
) -> list[dict[str, Any]]:
    """Return the results of one model on an item, one for each profile, without empty parts."""
    profiles = dict.fromkeys(
        row["profile"] for rows in rows_by_kind.values() for row in rows
    )
    results = []
    for profile in profiles:
        rows_of = {}
        for kind in RESULTS:
            rows_of[kind] = [
                row for row in rows_by_kind.get(kind, ()) if row["profile"] == profile
            ]
        result = {
            "profile": profile,
            "outcome": describe_outcome(rows_of["evaluation"]),
            "scores": [_pack_fields(row, SCORES) for row in rows_of["evaluation"]],
            "contributions": [
                _pack_attributions(row, players) for row in rows_of["attribution"]
            ],
            "tests": [_select_fields(row, TESTS) for row in rows_of["consistency"]],
            "cc_shap": [_select_fields(row, CC_SHAPS) for row in rows_of["cc_shap"]],
        }
        results.append({key: value for key, value in result.items() if value})
    return results


def _select_fields(row: Row, fields: Sequence[str]) -> dict[str, Any]:
    """Return some fields of a row as the page shows them: rounded, without empty fields."""
    values = {field: _simplify(row.get(field)) for field in fields}
    return {
        field: value for field, value in values.items() if value not in (None, "", [])
    }


def _pack_fields(row: Row, fields: Sequence[str]) -> list[Any]:
    """Return some fields of a row as a list in their order, cut after the last field that is not
    empty.
    """
    values = _select_fields(row, fields)
    length = max(
        (position for position, field in enumerate(fields, 1) if field in values),
        default=0,
    )
    return [values.get(field) for field in fields[:length]]


def _simplify(value: Any) -> Any:
    """Return a value in a form that JSON can hold; a number gets five significant digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [_simplify(part) for part in value]
    return (
        value
        if isinstance(value, (bool, int, str, dict)) or value is None
        else str(value)
    )


def _pack_attributions(row: Row, players: dict[str, int]) -> dict[str, Any]:
    """Return the contributions in one row for the page.

    Args:
        row: Row of the attribution layout.
        players: Number of each description of players so far; a new description is added. Rows of
            the same text and image share a description, and refer to it by its number.
    """
    packed: dict[str, Any] = {"is": _pack_fields(row, SHARES)}
    if row["phi"] is None:
        return packed
    phi = np.array(row["phi"], dtype=np.float64)  # (players, outputs)
    spans = []
    for span in row["spans"]:
        spans += [span["start"], span["end"]]
    # JSON of the description is the key, so that equal players get the same number.
    description = {
        "text": row["text"],
        "tokens": row["tokens"],
        "spans": spans,
        "grid": row["grid"] or 0,
    }
    packed["players"] = players.setdefault(
        json.dumps(description, ensure_ascii=False), len(players)
    )
    n_players, n_outputs = phi.shape
    # An encoder's score is a single output.
    if n_outputs == 1:
        return packed | {"columns": [_quantize("", phi[:, 0], STEPS)]}

    # The mean contribution ratio over outputs comes first, then each output with coarser steps.
    contributing = find_contributing_outputs(phi)
    mean = np.full(n_players, np.nan)
    if contributing.any():
        mean = compute_contribution_ratios(phi[:, contributing]).mean(axis=1)
    columns = [_quantize(MEAN, mean, STEPS)]
    outputs = row.get("outputs") or [
        f"output {number}" for number in range(1, n_outputs + 1)
    ]
    for output, name in enumerate(outputs):
        columns.append(_quantize(name, phi[:, output], DETAIL_STEPS))
    return packed | {"columns": columns}


def _quantize(name: str, phi: np.ndarray, steps: int) -> dict[str, Any]:
    """Return the Shapley values of one output as integer multiples of `step`."""
    # The largest magnitude is `steps` steps; a step of 1 stands for a row of zeros.
    peak = float(np.nan_to_num(np.abs(phi)).max(initial=0))
    step = peak / steps or 1.0
    values = [
        None if math.isnan(value) else round(value / step) for value in phi.tolist()
    ]
    return {"name": name, "step": float(f"{step:.6g}"), "phi": values}


def _drop_largest(items: Sequence[Mapping[str, Any]]) -> None:
    """Remove columns of contributions that are too many for a page, from each data set's last items
    first.
    """
    details_left, characters_left = MAX_DETAILS, MAX_CHARACTERS
    for contribution in _list_contributions(items):
        # First the details of single output tokens go, then, over its own limit, the first column
        # as well.
        first, *details = contribution["columns"]
        details_left -= sum(len(str(column)) for column in details)
        characters_left -= len(str(first)) + len(str(contribution["is"]))
        if details and details_left < 0:
            contribution |= {"columns": [first], "outputs_skipped": len(details)}
        if characters_left < 0:
            del contribution["columns"]
            contribution["skipped"] = True


def _list_contributions(items: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the contributions that have columns: of the first item of each data set, then of the
    second, and so on.
    """
    for item in sorted(items, key=lambda item: item["place"]):
        for result in item["results"]:
            for contribution in result.get("contributions", ()):
                if "columns" in contribution:
                    yield contribution
