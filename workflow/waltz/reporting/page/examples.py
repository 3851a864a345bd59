"""Data of the example browser of the page: items with the scores, contributions and test results of
each model.
"""

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any, NotRequired, TypedDict

import numpy as np
import pyarrow.compute as pc
from pydantic import JsonValue

from waltz.attribution.t_shap import (
    compute_contribution_ratios,
    find_contributing_outputs,
)
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.records import Record, convert_to_records, get_layout
from waltz.core.sampling import rank
from waltz.core.schema import (
    AttributionRecord,
    CcShapRecord,
    ConsistencyRecord,
    EvaluationRecord,
    StoredExchange,
)
from waltz.evaluation.metrics.pair_metrics import compare_texts, is_tied_choice
from waltz.evaluation.settings import ALIGNMENT, FOILS, PAIRWISE, PERPLEXITY, SINGLE
from waltz.reporting.figures.figure_files import open_dataset_images
from waltz.reporting.page.embedded import inline_image
from waltz.reporting.page.example_items import ExampleItem

STEPS, DETAIL_STEPS = 999, 99
"""Number of steps that the largest magnitude of a column is divided into: of a single output, of
one of many.
"""
MAX_DETAILS, MAX_CHARACTERS = 2_000_000, 4_000_000
"""Largest number of characters of the values of single output tokens, and of all other
contributions.
"""
MEAN = "mean of ratios"
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
"""Fields of scores that the page shows, in their order."""
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
"""Fields of attributions that the page shows, in their order."""
TESTS = (
    "setting",
    "test",
    "verdict",
    "answer",
    "edited_answer",
    "reason",
    "explanation",
    "edited_input",
    "edited_explanation",
    "inserted",
    "flipped",
    "exchanges",
    "seed",
)
"""Fields of self-consistency tests that the page shows, in their order."""
CC_SHAPS = (
    "setting",
    "kind",
    "value",
    "standard_error",
    "t_shap_answer",
    "t_shap_explanation",
    "answer",
    "explanation",
    "reason",
    "seed",
)
"""Fields of CC-SHAP that the page shows, in their order."""
SMALLEST_SIDE, LARGEST_SIDE = 240, 640
"""Smallest and largest number of pixels of the longer side of an example's image."""
IMAGES_BYTES, BYTES_PER_PIXEL = 1_500_000, 0.1
"""Number of bytes that all images of examples may have, and estimated bytes of a pixel of a
photograph.
"""
SCORED_SETTINGS = (PERPLEXITY, ALIGNMENT, SINGLE)
"""Settings in which each of two texts has a score."""
SETTINGS = (PAIRWISE, *SCORED_SETTINGS)
"""Settings of pairs and single texts, in the order in which they decide about an outcome."""
PAIR = {"caption", "foil"}
"""Roles of the two texts of a pair."""
OUTCOMES = {True: "right", False: "wrong"}
VERDICTS = {1: "consistent", 0: "not consistent"}
"""Words for the verdict of a self-consistency test."""
PAIR_OUTCOMES = {1: "right", 0: "tie", -1: "wrong", None: ""}
"""Outcome by the order of caption and foil (`compare_texts`)."""
RESULTS: dict[str, type[Record]] = {
    "evaluation": EvaluationRecord,
    "attribution": AttributionRecord,
    "consistency": ConsistencyRecord,
    "cc_shap": CcShapRecord,
}
"""Record of each kind of results of a model on a data set."""
ResultFiles = Mapping[str, Sequence[tuple[str, str, str]]]
"""Model, data set and Parquet file of each run, by kind of result."""
LoadThumbnail = Callable[[str, str], tuple[str | None, str]]
"""Function that returns the thumbnail of an image by data set and name: a data URI and an empty
text, or None and the reason why the image cannot be shown.
"""


@dataclass(frozen=True)
class ModelRun:
    """Results of one model on one data set.

    Attributes:
        model: Name of the model.
        dataset: Name of the data set.
        evaluation: Scores.
        attribution: Attributions.
        consistency: Results of self-consistency tests.
        cc_shap: Results of CC-SHAP.
    """

    model: str
    dataset: str
    evaluation: Sequence[EvaluationRecord] = ()
    attribution: Sequence[AttributionRecord] = ()
    consistency: Sequence[ConsistencyRecord] = ()
    cc_shap: Sequence[CcShapRecord] = ()


@dataclass(frozen=True)
class ItemResults:
    """Results of one model on one item in one profile, as in `ModelRun`."""

    evaluation: list[EvaluationRecord] = field(default_factory=list)
    attribution: list[AttributionRecord] = field(default_factory=list)
    consistency: list[ConsistencyRecord] = field(default_factory=list)
    cc_shap: list[CcShapRecord] = field(default_factory=list)


# The data of the example browser, as JSON.


class OutputColumn(TypedDict):
    """Shapley values of one output: integer multiples of `step`, or None."""

    name: str
    step: float
    phi: list[int | None]


Contributions = TypedDict(
    "Contributions",
    {
        "is": list[JsonValue],
        "players": NotRequired[int],
        "columns": NotRequired[list[OutputColumn]],
        "outputs_skipped": NotRequired[int],
        "skipped": NotRequired[bool],
    },
)
"""One attribution.

`is` has the fields `SHARES`, `players` is the number of the description of the players, `columns`
are the mean and the outputs; `outputs_skipped` and `skipped` say which columns were too many.
"""


class Result(TypedDict):
    """Results of one model on an item in one profile; entries without results are absent."""

    model: int
    profile: NotRequired[str]
    outcome: NotRequired[str]
    scores: NotRequired[list[list[JsonValue]]]
    contributions: NotRequired[list[Contributions]]
    tests: NotRequired[list[dict[str, JsonValue]]]
    cc_shap: NotRequired[list[dict[str, JsonValue]]]


class Example(TypedDict):
    """Item with its results.

    `position` is counted in its data set, `image` the number of its image or None, with the
    reason in `fault`.
    """

    dataset: str
    position: int
    id: str
    texts: Mapping[str, str]
    spans: Mapping[str, tuple[int, int]]
    facts: Sequence[str]
    image: int | None
    fault: str
    results: list[Result]


class DatasetCounts(TypedDict):
    """Number of items of a data set, and of those that are shown."""

    name: str
    items: int
    shown: int


class TypicalExample(TypedDict):
    """Numbers of an item, its result, and the contributions in that result.

    `remark` says so if the model is not above chance on the data set.
    """

    item: int
    result: int
    part: int
    remark: NotRequired[str]


class BrowserData(TypedDict):
    """Data of the example browser."""

    datasets: list[DatasetCounts]
    models: list[str]
    fields: dict[str, Sequence[str]]
    middle_square: list[str]
    images: list[str]
    players: list[JsonValue]
    items: list[Example]
    typical: NotRequired[TypicalExample | None]


def read_browser_data(
    items: Mapping[str, Sequence[ExampleItem]],
    files: ResultFiles,
    images: Mapping[str, str],
    n: int,
    seed: int,
    middle_square: Sequence[str] = (),
) -> BrowserData:
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
    sizes = {name: len(members) for name, members in items.items()}
    # Images are as large as their number allows, so they are counted before one is loaded.
    shown = chain.from_iterable(examples.values())
    max_side = compute_max_side(sum(bool(item.image) for item in shown))
    with open_thumbnails(images, max_side) as load_thumbnail:
        return make_browser_data(examples, runs, load_thumbnail, sizes, middle_square)


def read_examples(
    items: Mapping[str, Sequence[ExampleItem]], files: ResultFiles, n: int, seed: int
) -> tuple[dict[str, list[ExampleItem]], list[ModelRun]]:
    """Return the items to show of each data set, and the results of models on them.

    Args:
        items: All items of each data set, by its name.
        files: Files of results.
        n: Largest number of items of a data set.
        seed: Seed of the choice of items.
    Returns:
        The chosen items of each data set, which a model scored or explained, or any without results
        of models, and the results on them.
    """
    examples = {}
    shown_ids = {}
    for dataset, members in items.items():
        # Only items with scores or contributions are shown, so their ids are read first.
        explained = _read_ids(files.get("attribution", ()), dataset)
        scored = _read_ids(files.get("evaluation", ()), dataset)
        if not any(files.values()):
            scored = {item.id for item in members}
        shown_ids[dataset] = select_examples(explained, scored, n, seed)
        items_by_id = {item.id: item for item in members}
        shown = []
        for item_id in shown_ids[dataset]:
            if item_id in items_by_id:
                shown.append(items_by_id[item_id])
        if shown:
            examples[dataset] = shown
    return examples, _read_runs(files, shown_ids)


def _read_runs(
    files: ResultFiles, shown_ids: Mapping[str, Sequence[str]]
) -> list[ModelRun]:
    """Return the results of each model on some items of each data set.

    Args:
        files: Files of results.
        shown_ids: Ids of the items by data set; results on other data sets are skipped.
    """
    results: dict[tuple[str, str], dict[str, list[Any]]] = {}
    for kind, record_type in RESULTS.items():
        layout = get_layout(record_type).with_dataset()
        for model, dataset, file in files.get(kind, ()):
            if dataset not in shown_ids:
                continue
            # Rows of results are converted only for the chosen items.
            is_shown = pc.field("item_id").isin(shown_ids[dataset])
            is_of_dataset = pc.field("dataset") == dataset
            rows = parquet.read(file, layout, is_of_dataset & is_shown)
            records = results.setdefault((model, dataset), {})
            records[kind] = list(convert_to_records(rows, record_type))
    return [
        ModelRun(model, dataset, **records)
        for (model, dataset), records in results.items()
    ]


def compute_max_side(n_images: int) -> int:
    """Return the longer side of images in pixels: the fewer images there are, the larger they are."""
    # A square of this side has as many pixels as the bytes of one image pay for.
    pixels = int(IMAGES_BYTES / BYTES_PER_PIXEL) // max(1, n_images)
    return min(max(math.isqrt(pixels), SMALLEST_SIDE), LARGEST_SIDE)


@contextmanager
def open_thumbnails(
    folders: Mapping[str, str], max_side: int
) -> Iterator[LoadThumbnail]:
    """Yield a function that loads the thumbnail of an image by data set and name.

    Args:
        folders: Folder or archive of images by data set; other data sets have no images.
        max_side: Largest number of pixels of a side.
    """
    with open_dataset_images(folders, folders.values()) as load_image:

        def load_thumbnail(dataset: str, name: str) -> tuple[str | None, str]:
            if dataset not in folders:
                return None, "this study has no images of the data set"
            try:
                return inline_image(load_image(dataset, name), max_side), ""
            except UserError as error:
                return None, str(error)

        yield load_thumbnail


def _read_ids(files: Iterable[tuple[str, str, str]], dataset: str) -> set[str]:
    """Return the ids of the items of one data set that occur in files of results.

    Args:
        files: Model, data set and file of each run; runs on other data sets are skipped.
        dataset: Name of the data set.
    """
    # All models have nearly the same items, whose ids are kept once.
    ids: set[str] = set()
    for _, name, file in files:
        if name == dataset:
            is_of_dataset = pc.field("dataset") == dataset
            rows = parquet.read_table(file, ["item_id"], is_of_dataset)
            ids.update(pc.unique(rows.column("item_id")).to_pylist())
    return ids


def select_examples(
    attributed: Collection[str], evaluated: Collection[str], n: int, seed: int
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
    items: Mapping[str, Sequence[ExampleItem]],
    runs: Sequence[ModelRun],
    load_thumbnail: LoadThumbnail,
    sizes: Mapping[str, int],
    middle_square: Sequence[str] = (),
) -> BrowserData:
    """Return the data of the example browser for its script.

    Scores and contributions are lists of values in the order of `fields`, cut after the last value
    that is not empty.

    Args:
        items: Items of each data set in the order to be shown.
        runs: Results of models on these items; results on other items are skipped.
        load_thumbnail: Loads an image.
        sizes: Number of all items of each data set.
        middle_square: Models that see only the square in the middle of an image.
    """
    examples: list[Example] = []
    models = list(dict.fromkeys(run.model for run in runs))
    players: dict[str, int] = {}
    images: dict[str, int] = {}
    results_by_item = _group_by_item(runs)
    for dataset, members in items.items():
        for number, item in enumerate(members):
            uri, fault = None, ""
            if item.image:
                uri, fault = load_thumbnail(dataset, item.image)
            image = None
            if uri is not None:
                image = images.setdefault(uri, len(images))
            results = []
            parts = results_by_item.get((dataset, item.id), {})
            for (model, profile), part in parts.items():
                model_number = models.index(model)
                results.append(_pack_results(model_number, profile, part, players))
            examples.append(
                Example(
                    dataset=dataset,
                    position=number,
                    id=item.id,
                    texts=item.texts,
                    spans=item.spans,
                    facts=item.facts,
                    image=image,
                    fault=fault,
                    results=results,
                )
            )
    # The page stays small enough to open: contributions of each data set's last items go first.
    _drop_largest(examples)
    return BrowserData(
        datasets=[
            DatasetCounts(name=name, items=sizes[name], shown=len(members))
            for name, members in items.items()
        ],
        models=models,
        fields={"scores": SCORES, "contributions": SHARES},
        middle_square=list(middle_square),
        images=list(images),
        players=[json.loads(description) for description in players],
        items=examples,
    )


def choose_typical_example(
    data: BrowserData,
    averages: Mapping[str, float],
    mastered: Mapping[str, Collection[str]],
) -> TypicalExample | None:
    """Return the example that is typical of a study: its T-SHAP is nearest to the mean of the
    model.

    Examples of data sets on which the model is above chance are preferred, then those with a right
    outcome: where a model guesses, a right outcome is luck.

    Args:
        data: Data of the example browser.
        averages: Mean T-SHAP of models in percent, the preferred model first.
        mastered: Data sets on which each model is above chance.
    Returns:
        The example with the contributions of its caption; None without contributions.
    """
    for model, average in averages.items():
        candidates = []
        for position, is_right, t_shap in _list_captions(data, model):
            dataset = data["items"][position[0]]["dataset"]
            is_guessed = dataset not in mastered.get(model, ())
            distance = abs(100 * t_shap - average)
            # False sorts before True.
            candidates.append((is_guessed, not is_right, distance, position))
        if candidates:
            *_, (item, result, part) = min(candidates)
            return TypicalExample(item=item, result=result, part=part)
    return None


def _list_captions(
    data: BrowserData, model: str
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
                t_shap = _get_t_shap(part)
                if t_shap is not None:
                    yield (item_number, result_number, part_number), is_right, t_shap


def _get_t_shap(part: Contributions) -> float | None:
    """Return the T-SHAP of contributions that the page shows; None unless they are a caption's."""
    facts = dict(zip(SHARES, part["is"], strict=False))
    if "columns" not in part or facts["role"] != "caption":
        return None
    t_shap = facts.get("t_shap")
    return t_shap if isinstance(t_shap, float) else None


def describe_outcome(scores: Sequence[EvaluationRecord]) -> str:
    """Return the outcome of a model on an item: `right`, `wrong`, `tie`, or an empty text if
    nothing decides it.

    A pair is right if the caption has the higher score; a single text or answer is right if its
    prediction is.

    Args:
        scores: Scores of one item in one profile.
    """
    scores_by_setting: dict[str, dict[str, EvaluationRecord]] = {}
    for score in scores:
        # Foils and mismatched captions of other images are the wrong text alike.
        role = "foil" if score.role in FOILS else score.role
        scores_by_setting.setdefault(score.setting, {})[role] = score
    # The first setting with an outcome decides.
    for setting in sorted(scores_by_setting, key=rank_setting):
        if outcome := _describe_setting(setting, scores_by_setting[setting]):
            return outcome
    return ""


def _describe_setting(
    setting: str, scores_by_role: Mapping[str, EvaluationRecord]
) -> str:
    """Return the outcome of a model on an item in one setting; an empty text if nothing decides it.

    Args:
        setting: Setting of the scores.
        scores_by_role: Score of each role in this setting; any kind of foil has the role `foil`.
    """
    # Both texts have a score: the higher one wins.
    if setting in SCORED_SETTINGS and scores_by_role.keys() >= PAIR:
        order = compare_texts(scores_by_role["caption"], scores_by_role["foil"])
        return PAIR_OUTCOMES[order]
    caption = scores_by_role.get("caption")
    # One prompt shows both texts: the model chooses between them.
    if setting == PAIRWISE and caption is not None and is_tied_choice(caption):
        return "tie"
    # Single texts and answers: the first judged prediction decides, the caption's before others.
    predictions = sorted(
        scores_by_role.values(), key=lambda score: score.role != "caption"
    )
    for score in predictions:
        if score.correct is not None:
            return OUTCOMES[score.correct]
    return ""


def rank_setting(setting: str) -> tuple[int, str]:
    """Return the sort key of a setting: pairs come first, then single texts, then other settings by
    name.
    """
    position = SETTINGS.index(setting) if setting in SETTINGS else len(SETTINGS)
    return position, setting


def _group_by_item(
    runs: Sequence[ModelRun],
) -> dict[tuple[str, str], dict[tuple[str, str], ItemResults]]:
    """Return the results of runs by data set and id of the item, then by model and profile."""
    grouped: dict[tuple[str, str], dict[tuple[str, str], ItemResults]] = {}
    for run in runs:
        for kind in RESULTS:
            for record in getattr(run, kind):
                parts = grouped.setdefault((run.dataset, record.item_id), {})
                part = parts.setdefault((run.model, record.profile), ItemResults())
                getattr(part, kind).append(record)
    return grouped


def _pack_results(
    model: int, profile: str, results: ItemResults, players: dict[str, int]
) -> Result:
    """Return the results of one model on an item in one profile, without empty parts.

    Args:
        model: Number of the model.
        profile: The profile.
        results: The results.
        players: As in `_pack_attribution`.
    """
    parts = {
        "profile": profile,
        "outcome": describe_outcome(results.evaluation),
        "scores": [_pack_fields(score, SCORES) for score in results.evaluation],
        "contributions": [
            _pack_attribution(attribution, players)
            for attribution in results.attribution
        ],
        "tests": list(map(_pack_test, results.consistency)),
        "cc_shap": [_select_fields(cc_shap, CC_SHAPS) for cc_shap in results.cc_shap],
    }
    packed: Any = {"model": model}
    packed |= {name: part for name, part in parts.items() if part}
    result: Result = packed
    return result


def _pack_test(test: ConsistencyRecord) -> dict[str, JsonValue]:
    """Return the result of a self-consistency test, with its verdict in words."""
    packed = _select_fields(test, TESTS)
    if test.verdict is not None:
        packed["verdict"] = VERDICTS[test.verdict]
    return packed


def _select_fields(record: Record, fields: Sequence[str]) -> dict[str, JsonValue]:
    """Return some fields of a record as the page shows them: rounded, without empty fields."""
    values = {name: _simplify(getattr(record, name)) for name in fields}
    return {
        name: value for name, value in values.items() if value not in (None, "", [])
    }


def _pack_fields(record: Record, fields: Sequence[str]) -> list[JsonValue]:
    """Return some fields of a record as a list in their order, cut after the last field that is not
    empty.
    """
    values = _select_fields(record, fields)
    if not values:
        return []
    *_, last = values  # in the order of the fields
    return [values.get(name) for name in fields[: fields.index(last) + 1]]


def _simplify(value: JsonValue | StoredExchange) -> JsonValue:
    """Return a value in a form that JSON can hold; a number gets five significant digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    if isinstance(value, list):
        return [_simplify(part) for part in value]
    if isinstance(value, StoredExchange):
        return asdict(value)
    return value


def _pack_attribution(
    attribution: AttributionRecord, players: dict[str, int]
) -> Contributions:
    """Return the contributions of an attribution for the page.

    Args:
        attribution: The attribution.
        players: Number of each description of players so far; a new description is added.
            Attributions of the same text and image share a description, and refer to it by its
            number.
    """
    packed = Contributions({"is": _pack_fields(attribution, SHARES)})
    if attribution.phi is None:
        return packed
    phi = np.array(attribution.phi, dtype=np.float64)  # (players, outputs)
    spans: list[int] = []
    for span in attribution.spans or ():
        spans += [span.start, span.end]
    # JSON of the description is the key, so that equal players get the same number.
    description = {
        "text": attribution.text,
        "tokens": attribution.tokens,
        "spans": spans,
        "grid": attribution.grid or 0,
    }
    packed["players"] = players.setdefault(
        json.dumps(description, ensure_ascii=False), len(players)
    )
    n_players, n_outputs = phi.shape
    # An encoder's score is a single output.
    if n_outputs == 1:
        packed["columns"] = [_quantize("", phi[:, 0], STEPS)]
        return packed

    # The mean contribution ratio over outputs comes first, then each output with coarser steps.
    contributing = find_contributing_outputs(phi)
    mean = np.full(n_players, np.nan)
    if contributing.any():
        mean = compute_contribution_ratios(phi[:, contributing]).mean(axis=1)
    names = attribution.outputs or [
        f"output {number + 1}" for number in range(n_outputs)
    ]
    packed["columns"] = [_quantize(MEAN, mean, STEPS)]
    for output, name in enumerate(names):
        packed["columns"].append(_quantize(name, phi[:, output], DETAIL_STEPS))
    return packed


def _quantize(name: str, phi: np.ndarray, steps: int) -> OutputColumn:
    """Return the Shapley values of one output as integer multiples of `step`."""
    # The largest magnitude is `steps` steps; a step of 1 stands for a row of zeros.
    peak = float(np.nan_to_num(np.abs(phi)).max(initial=0))
    step = peak / steps or 1.0
    multiples: list[int | None] = []
    for value in phi.tolist():
        multiples.append(None if math.isnan(value) else round(value / step))
    return OutputColumn(name=name, step=float(f"{step:.6g}"), phi=multiples)


def _drop_largest(items: Sequence[Example]) -> None:
    """Remove columns of contributions that are too many for a page, from each data set's last items
    first.
    """
    details_left, characters_left = MAX_DETAILS, MAX_CHARACTERS
    for contribution in _list_contributions(items):
        # The values of single output tokens are dropped first, and beyond a second limit also the
        # first column.
        first, *details = contribution["columns"]
        details_left -= sum(len(str(column)) for column in details)
        characters_left -= len(str(first)) + len(str(contribution["is"]))
        if details and details_left < 0:
            contribution["columns"] = [first]
            contribution["outputs_skipped"] = len(details)
        if characters_left < 0:
            del contribution["columns"]
            contribution["skipped"] = True


def _list_contributions(items: Sequence[Example]) -> Iterator[Contributions]:
    """Yield the contributions that have columns: of the first item of each data set, then of the
    second, and so on.
    """
    for item in sorted(items, key=lambda item: item["position"]):
        for result in item["results"]:
            for contribution in result.get("contributions", ()):
                if "columns" in contribution:
                    yield contribution
