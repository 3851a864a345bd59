"""Bias and error of T-SHAP from few evaluations, against exact values: the coalitions of late fusion as a table."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch

from waltz.attribution.shapley.estimate import AttributionSettings, Estimate, Estimation, run_in_step
from waltz.attribution.shapley.estimators import (
    PUBLISHED_PERMUTATIONS,
    begin_estimation,
    begin_permutations,
    count_published_evaluations,
)
from waltz.attribution.shapley.late_fusion import (
    Vectors,
    average_all_orders,
    build_image_vectors,
    build_text_vectors,
    compute_shapley_values,
)
from waltz.attribution.t_shap import (
    TShap,
    compute_t_shap,
    compute_t_shap_error,
    correct_t_shap,
    count_evaluations_for_point,
)
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import Resampling
from waltz.measures.items import Item, read_items
from waltz.measures.rows import Row, average, build_row, pool
from waltz.models.encoders.coalitions import build_equations_players
from waltz.models.encoders.encoder import Encoder, LateEncoder

MEASUREMENT = "bias"
MOST_TOKENS = 9
"""Tokens of a text whose coalitions are enumerated: with nine patches, 512 passes of either side."""


@dataclass(frozen=True, eq=False)
class Table:
    """A game whose coalitions all have a value.

    Attributes:
        values: Values by number of the token mask and of the patch mask, float64 of shape (2**tokens, 2**patches); bit
            i of a number stands for player i.
        t_shap: Exact T-SHAP, in percent.
        cluster: The scene of the image.
    """

    values: np.ndarray
    t_shap: float
    cluster: str

    @property
    def tokens(self) -> int:
        """Number of text players."""
        return int(self.values.shape[0]).bit_length() - 1

    @property
    def players(self) -> int:
        """Number of all players."""
        return self.tokens + int(self.values.shape[1]).bit_length() - 1

    def compute_values(self, requested: list[np.ndarray]) -> list[np.ndarray]:
        """Return the values of coalitions of this game, as `run_in_step` asks for them."""
        return [
            self.values[number_masks(masks[:, : self.tokens]), number_masks(masks[:, self.tokens :])][:, None]
            for masks in requested
        ]


def number_masks(masks: np.ndarray) -> np.ndarray:
    """Return the number of each mask, bool (k, players): the sum of 2**i over its visible players i."""
    numbers: np.ndarray = masks @ (1 << np.arange(masks.shape[1]))
    return numbers


@torch.inference_mode()
def tabulate(encoder: LateEncoder, item: Item) -> Table:
    """Return the values of all coalitions of a caption and its image, with the exact T-SHAP."""
    image = encoder.prepare_image(item.image)
    game = build_equations_players(encoder, encoder.tokenize(item.caption), image)
    text_vectors = _compute_all(build_text_vectors(encoder, game), game.words)
    image_vectors = _compute_all(build_image_vectors(encoder, image, game), game.patches)
    sides = [
        average_all_orders(lambda masks, vectors=vectors: vectors[number_masks(masks)], players)  # type: ignore[misc]
        for vectors, players in ((text_vectors, game.words), (image_vectors, game.patches))
    ]
    phi = np.concatenate(compute_shapley_values(*sides))
    t_shap = 100 * float(compute_t_shap(phi[:, None], game.words))
    return Table(encoder.scale * text_vectors @ image_vectors.T, t_shap, item.scene)


def measure_bias(
    encoders: Iterable[Encoder],
    datasets: Sequence[DatasetFiles],
    *,
    sample: int,
    repeats: int,
    permutations: Sequence[int],
    estimators: Sequence[str],
    estimator_repeats: int,
    seed: int,
    how: Resampling,
) -> list[Row]:
    """Return bias and error of T-SHAP by number of permutations and by estimator, in points; encoders of early fusion
    have no exact values and are left out.

    Args:
        sample: Number of captions a data set, among those of at most nine tokens.
        repeats: Seeds of each number of permutations, other ones for each caption.
        permutations: Numbers of permutations, each with its reverse.
        estimators: Names of estimators, which are given as many coalitions as ten permutations need.
        estimator_repeats: Seeds of each estimator.
    """
    rows: list[Row] = []
    for encoder in encoders:
        if not encoder.late:
            continue
        items = [item for dataset in datasets for item in _select_short(encoder, dataset, sample, seed)]
        tables = [tabulate(cast(LateEncoder, encoder), item) for item in items]
        name = encoder.spec.name
        rows += measure_permutations(name, tables, permutations, repeats, seed, how)
        rows += measure_estimators(name, tables, estimators, estimator_repeats, seed, how)
    return rows


def measure_permutations(
    model: str, tables: Sequence[Table], permutations: Sequence[int], repeats: int, seed: int, how: Resampling
) -> list[Row]:
    """Return bias and error of raw and corrected T-SHAP by number of permutations, over seeds and games."""
    clusters = [table.cluster for table in tables]
    most = max(permutations)
    found: dict[tuple[int, str], list[float]] = {}
    needed: list[float] = []
    for number, table in enumerate(tables):
        drawn = [draw_parts(table, most, seed + number * repeats + repeat) for repeat in range(repeats)]
        for count in permutations:
            values = summarize_draws(table, [parts[:count] for parts in drawn])
            for quantity, value in values.items():
                found.setdefault((count, quantity), []).append(value)
        error = found[most, "error"][-1] / 100
        needed.append(count_evaluations_for_point(most * (2 * table.players + 1), error))
    rows = [
        build_row(
            MEASUREMENT,
            quantity,
            pool(quantity, values, clusters, model, how),
            model=model,
            factor="permutations",
            level=str(count),
        )
        for (count, quantity), values in found.items()
    ]
    exact = average([table.t_shap for table in tables], clusters, model, how)
    rows.append(build_row(MEASUREMENT, "t_shap", exact, model=model, factor="permutations", level="all"))
    evaluations = average(needed, clusters, model, how)
    return [*rows, build_row(MEASUREMENT, "evaluations_for_1_point", evaluations, model=model)]


def summarize_draws(table: Table, draws: Sequence[np.ndarray]) -> dict[str, float]:
    """Return what several draws of one game's parts say about T-SHAP, in percent and points.

    Args:
        table: The game.
        draws: For each seed the estimates of single permutations, float64 of shape (permutations, players, 1).
    Returns:
        Of raw and corrected T-SHAP the mean over seeds, the bias, the part of it that goes towards the share of players
        that are tokens, and the root mean square error; how often the interval of raw T-SHAP holds the exact value.
    """
    raw = 100 * np.array([compute_t_shap(parts.mean(axis=0), table.tokens) for parts in draws])
    corrected = 100 * np.array([correct_t_shap(parts, table.tokens) for parts in draws])
    intervals = 100 * np.array(
        [
            TShap(share / 100, compute_t_shap_error(parts, table.tokens), parts=len(parts)).interval
            for share, parts in zip(raw, draws, strict=True)
        ]
    )
    towards = math.copysign(1.0, 100 * table.tokens / table.players - table.t_shap)
    return {
        "t_shap": float(raw.mean()),
        "t_shap_corrected": float(corrected.mean()),
        "bias": float(raw.mean() - table.t_shap),
        "bias_corrected": float(corrected.mean() - table.t_shap),
        "bias_towards_players": towards * float(raw.mean() - table.t_shap),
        "bias_towards_players_corrected": towards * float(corrected.mean() - table.t_shap),
        "error": _root_mean_square(raw - table.t_shap),
        "error_corrected": _root_mean_square(corrected - table.t_shap),
        "covered": 100 * float(np.mean((intervals[:, 0] <= table.t_shap) & (table.t_shap <= intervals[:, 1]))),
    }


def measure_estimators(
    model: str, tables: Sequence[Table], estimators: Sequence[str], repeats: int, seed: int, how: Resampling
) -> list[Row]:
    """Return bias and error of T-SHAP by estimator, with as many coalitions as ten permutations need."""
    clusters = [table.cluster for table in tables]
    rows = []
    for estimator in estimators:
        found: dict[str, list[float]] = {"bias": [], "bias_towards_players": [], "error": []}
        for number, table in enumerate(tables):
            seeds = [seed + number * repeats + repeat for repeat in range(repeats)]
            draws = [_estimate_t_shap(table, estimator, own) - table.t_shap for own in seeds]
            bias = float(np.mean(draws))
            towards = math.copysign(1.0, 100 * table.tokens / table.players - table.t_shap)
            found["bias"].append(bias)
            found["bias_towards_players"].append(towards * bias)
            found["error"].append(_root_mean_square(np.array(draws)))
        rows += [
            build_row(
                MEASUREMENT,
                quantity,
                pool(quantity, values, clusters, model, how),
                model=model,
                factor=f"estimator, {PUBLISHED_PERMUTATIONS} permutations",
                level=estimator,
            )
            for quantity, values in found.items()
        ]
    return rows


def _select_short(encoder: Encoder, dataset: DatasetFiles, sample: int, seed: int) -> Iterator[Item]:
    """Yield items whose captions have few tokens, by seeded rank."""
    short = (
        item
        for item in read_items(dataset, 10 * sample, seed)
        if sum(not special for special in encoder.tokenize(item.caption).special) <= MOST_TOKENS
    )
    for _, item in zip(range(sample), short, strict=False):
        yield item


def _compute_all(vectors: Vectors, players: int) -> np.ndarray:
    """Return the vectors of all masks of some players, by number."""
    return vectors((np.arange(2**players)[:, None] >> np.arange(players) & 1).astype(bool))


def draw_parts(table: Table, permutations: int, seed: int) -> np.ndarray:
    """Return the Shapley values by each of some permutations with its reverse."""
    evaluations = permutations * (2 * table.players + 1)
    parts = _run(table, begin_permutations(table.players, evaluations, seed)).parts
    assert parts is not None
    return parts


def _estimate_t_shap(table: Table, estimator: str, seed: int) -> float:
    settings = AttributionSettings("equations", estimator, count_published_evaluations(table.players), seed)
    estimate = _run(table, begin_estimation(estimator, table.players, table.tokens, settings))
    return 100 * float(compute_t_shap(estimate.phi, table.tokens))


def _run(table: Table, estimation: Estimation) -> Estimate:
    (estimate,) = run_in_step([estimation], table.compute_values)
    return estimate


def _root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))
