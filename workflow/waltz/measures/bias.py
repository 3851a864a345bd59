"""Bias and error of T-SHAP from few evaluations, against exact values.

The score of late fusion is the dot product of a text vector and an image vector. Therefore
2**tokens + 2**patches passes of an encoder give the values of all 2**(tokens + patches) coalitions
as one table. Estimates of many seeds are read from this table without a further pass.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
import torch

from waltz.attribution.published import (
    PUBLISHED_PERMUTATIONS,
    count_published_evaluations,
)
from waltz.attribution.shapley.estimate import (
    AttributionSettings,
    Estimate,
    Estimation,
    estimate_in_step,
)
from waltz.attribution.shapley.estimators import (
    begin_estimation,
    begin_permutations,
)
from waltz.attribution.shapley.late_fusion import (
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
from waltz.core.schema import MeasurementRecord
from waltz.fidelity import EQUATIONS
from waltz.measures.items import Item, read_item_sample
from waltz.measures.masks import enumerate_masks, number_masks
from waltz.measures.rows import average, build_row, pool_items
from waltz.models.encoders.coalitions import build_equations_players
from waltz.models.encoders.encoder import Encoder, LateEncoder

MEASUREMENT = "bias"
_build_row = partial(build_row, MEASUREMENT)
MAX_TOKENS = 9
"""Largest number of tokens of a measured caption: with nine tokens and nine patches, each modality
needs 512 passes.
"""
CANDIDATES_PER_ITEM = 10
"""Number of items that are read for each measured item, since many captions are too long."""


@dataclass(frozen=True, slots=True)
class BiasSettings:
    """Settings of the measurement of bias.

    Attributes:
        sample: Number of captions a data set, among captions of at most `MAX_TOKENS` tokens.
        repeats: Number of seeds for each number of permutations; no two captions share a seed.
        permutations: Numbers of permutations; each permutation is used with its reverse.
        estimators: Names of estimators; each may use as many coalitions as ten permutations need.
        estimator_repeats: Number of seeds of each estimator.
    """

    sample: int
    repeats: int
    permutations: Sequence[int]
    estimators: Sequence[str]
    estimator_repeats: int


@dataclass(frozen=True, eq=False)
class Table:
    """Hold a game with the values of all its coalitions.

    Attributes:
        values: Value of each coalition by the number of its token mask (axis 0) and of its patch
            mask (axis 1), float64 of shape (2**tokens, 2**patches); bit i of a mask's number says
            whether player i is visible.
        t_shap: Exact T-SHAP, in percent.
        cluster: The scene of the image.
    """

    values: np.ndarray
    t_shap: float
    cluster: str

    @property
    def tokens(self) -> int:
        """Return the number of text players."""
        return int(self.values.shape[0]).bit_length() - 1

    @property
    def players(self) -> int:
        """Return the number of all players, tokens and patches."""
        patches = int(self.values.shape[1]).bit_length() - 1
        return self.tokens + patches

    @property
    def direction_of_players(self) -> float:
        """Return 1 if the share of tokens among the players is at least the exact T-SHAP, else -1."""
        return math.copysign(1.0, 100 * self.tokens / self.players - self.t_shap)

    def compute_values(self, requested: list[np.ndarray]) -> list[np.ndarray]:
        """Return the values of coalitions of this game, as `estimate_in_step` asks for them."""
        values = []
        for masks in requested:
            text_numbers = number_masks(masks[:, : self.tokens])
            image_numbers = number_masks(masks[:, self.tokens :])
            values.append(self.values[text_numbers, image_numbers][:, None])
        return values


@torch.inference_mode()
def tabulate(encoder: LateEncoder, item: Item) -> Table:
    """Return the values of all coalitions of a caption and its image, with the exact T-SHAP."""
    image = encoder.prepare_image(item.image)
    game = build_equations_players(encoder, encoder.tokenize(item.caption), image)
    # Row k is the vector of the mask with number k: (2**tokens, size) and (2**patches, size).
    text_vectors = build_text_vectors(encoder, game)(
        enumerate_masks(game.n_text_players)
    )
    image_vectors = build_image_vectors(encoder, image, game)(
        enumerate_masks(game.n_image_players)
    )

    text_orders = average_all_orders(
        lambda masks: text_vectors[number_masks(masks)], game.n_text_players
    )
    image_orders = average_all_orders(
        lambda masks: image_vectors[number_masks(masks)], game.n_image_players
    )
    phi = np.concatenate(compute_shapley_values(text_orders, image_orders))
    t_shap = 100 * float(compute_t_shap(phi[:, None], game.n_text_players))
    return Table(encoder.scale * text_vectors @ image_vectors.T, t_shap, item.scene)


def measure_bias(
    encoders: Iterable[Encoder],
    datasets: Sequence[DatasetFiles],
    settings: BiasSettings,
    seed: int,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return bias and error of T-SHAP by number of permutations and by estimator, in percentage
    points.

    Encoders of early fusion are left out, because their exact values cannot be computed from such a
    table.
    """
    rows: list[MeasurementRecord] = []
    for encoder in encoders:
        # Only late fusion has a table of values, and so an exact T-SHAP.
        if not encoder.late:
            continue
        tables = []
        for dataset in datasets:
            for item in _select_short(encoder, dataset, settings.sample, seed):
                tables.append(tabulate(cast(LateEncoder, encoder), item))
        name = encoder.spec.name
        rows += measure_permutations(
            name, tables, settings.permutations, settings.repeats, seed, resampling
        )
        rows += measure_estimators(
            name,
            tables,
            settings.estimators,
            settings.estimator_repeats,
            seed,
            resampling,
        )
    return rows


def measure_permutations(
    model: str,
    tables: Sequence[Table],
    permutations: Sequence[int],
    repeats: int,
    seed: int,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return bias and error of raw and corrected T-SHAP by number of permutations, over seeds and
    games.
    """
    clusters = [table.cluster for table in tables]
    maximum = max(permutations)
    # Numbers of the games, by number of permutations and quantity.
    values_of: dict[tuple[int, str], list[float]] = {}
    needed_evaluations: list[float] = []
    for number, table in enumerate(tables):
        # No two games share a seed, so that their noise is independent.
        first_seed = seed + number * repeats
        draws = [
            draw_parts(table, maximum, first_seed + repeat) for repeat in range(repeats)
        ]
        for count in permutations:
            # The first k permutations are those that a budget of k permutations draws.
            values = summarize_draws(table, [parts[:count] for parts in draws])
            for quantity, value in values.items():
                values_of.setdefault((count, quantity), []).append(value)
        # Evaluations for an interval of 1 point to either end, from the error of the largest number
        # of permutations.
        error = values_of[maximum, "error"][-1] / 100
        evaluations = maximum * (2 * table.players + 1)
        needed_evaluations.append(count_evaluations_for_point(evaluations, error))

    rows = []
    for (count, quantity), numbers in values_of.items():
        measure = pool_items(quantity, numbers, clusters, model, resampling)
        rows.append(
            _build_row(
                quantity, measure, model=model, factor="permutations", level=str(count)
            )
        )
    exact = average([table.t_shap for table in tables], clusters, model, resampling)
    rows.append(
        _build_row("t_shap", exact, model=model, factor="permutations", level="all")
    )
    needed = average(needed_evaluations, clusters, model, resampling)
    rows.append(_build_row("evaluations_for_1_point", needed, model=model))
    return rows


def summarize_draws(table: Table, draws: Sequence[np.ndarray]) -> dict[str, float]:
    """Return the bias and error of T-SHAP over several seeds of one game, in percent and percentage
    points.

    Args:
        table: The game.
        draws: For each seed the estimates of single permutations, float64 of shape (permutations,
            players, 1).
    Returns:
        By name of the quantity, for raw and corrected T-SHAP: the mean over seeds, the bias, the
        bias signed so that it is positive towards the share of tokens among the players, and the
        root mean square error. `covered` is the percent of seeds whose interval of raw T-SHAP
        contains the exact value.
    """
    # One T-SHAP a seed, shape (seeds,): of the mean over permutations, and with its bias removed by
    # the jackknife.
    raw = 100 * np.array(
        [compute_t_shap(parts.mean(axis=0), table.tokens) for parts in draws]
    )
    corrected = 100 * np.array([correct_t_shap(parts, table.tokens) for parts in draws])

    intervals = []
    for share, parts in zip(raw, draws, strict=True):
        error = compute_t_shap_error(parts, table.tokens)
        intervals.append(TShap(share / 100, error, parts=len(parts)).interval)
    # Ends of the interval of each seed, of shape (seeds,).
    low, high = 100 * np.array(intervals).T
    is_covered = (low <= table.t_shap) & (table.t_shap <= high)

    # Bias and error against the exact value, in points.
    bias = float(raw.mean() - table.t_shap)
    bias_corrected = float(corrected.mean() - table.t_shap)
    return {
        "t_shap": float(raw.mean()),
        "t_shap_corrected": float(corrected.mean()),
        "bias": bias,
        "bias_corrected": bias_corrected,
        "bias_towards_players": table.direction_of_players * bias,
        "bias_towards_players_corrected": table.direction_of_players * bias_corrected,
        "error": _compute_root_mean_square(raw - table.t_shap),
        "error_corrected": _compute_root_mean_square(corrected - table.t_shap),
        "covered": 100 * float(np.mean(is_covered)),
    }


def measure_estimators(
    model: str,
    tables: Sequence[Table],
    estimators: Sequence[str],
    repeats: int,
    seed: int,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return bias and error of T-SHAP by estimator, with the number of coalitions that ten
    permutations need.
    """
    clusters = [table.cluster for table in tables]
    factor = f"estimator, {PUBLISHED_PERMUTATIONS} permutations"
    rows = []
    for estimator in estimators:
        values_of: dict[str, list[float]] = {
            "bias": [],
            "bias_towards_players": [],
            "error": [],
        }
        for number, table in enumerate(tables):
            first_seed = seed + number * repeats
            errors = []
            for repeat in range(repeats):
                errors.append(
                    _estimate_t_shap(table, estimator, first_seed + repeat)
                    - table.t_shap
                )
            bias = float(np.mean(errors))
            values_of["bias"].append(bias)
            values_of["bias_towards_players"].append(table.direction_of_players * bias)
            values_of["error"].append(_compute_root_mean_square(np.array(errors)))
        for quantity, values in values_of.items():
            measure = pool_items(quantity, values, clusters, model, resampling)
            rows.append(
                _build_row(
                    quantity, measure, model=model, factor=factor, level=estimator
                )
            )
    return rows


def _select_short(
    encoder: Encoder, dataset: DatasetFiles, sample: int, seed: int
) -> Iterator[Item]:
    """Yield items whose captions have few tokens, by seeded rank."""
    count = 0
    for item in read_item_sample(dataset, CANDIDATES_PER_ITEM * sample, seed):
        if count == sample:
            return
        tokens = sum(
            not is_special for is_special in encoder.tokenize(item.caption).special
        )
        if tokens <= MAX_TOKENS:
            count += 1
            yield item


def draw_parts(table: Table, permutations: int, seed: int) -> np.ndarray:
    """Return the Shapley values by each of some permutations with its reverse, of shape
    (permutations, players, 1).
    """
    # A permutation and its reverse need the empty coalition and one per player each.
    evaluations = permutations * (2 * table.players + 1)
    parts = _run(table, begin_permutations(table.players, evaluations, seed)).parts
    assert parts is not None
    return parts


def _estimate_t_shap(table: Table, estimator: str, seed: int) -> float:
    """Return T-SHAP by an estimator in percent."""
    settings = AttributionSettings(
        EQUATIONS, estimator, count_published_evaluations(table.players), seed
    )
    estimate = _run(
        table, begin_estimation(estimator, table.players, table.tokens, settings)
    )
    return 100 * float(compute_t_shap(estimate.phi, table.tokens))


def _run(table: Table, estimation: Estimation) -> Estimate:
    (estimate,) = estimate_in_step([estimation], table.compute_values)
    return estimate


def _compute_root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))
