"""Bias and error of T-SHAP from few evaluations, against exact values.

The values of all 2**(tokens + patches) coalitions of a caption are computed once, as one table, from
which exact values and the estimates of many seeds are read without a further pass. The score of late
fusion is the dot product of a text vector and an image vector, so that 2**tokens + 2**patches passes
give its table. Early fusion needs a pass for each coalition.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
import torch

from waltz.attribution.mm_shap import choose_outcome
from waltz.attribution.published import (
    PUBLISHED_PERMUTATIONS,
    count_permutation_coalitions,
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
    count_evaluations_for_point,
    measure_t_shap,
)
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import PERCENT, Bounds, Resampling
from waltz.core.schema import MeasurementRecord
from waltz.fidelity import EQUATIONS
from waltz.measures.controls import Reload, randomize_weights
from waltz.measures.items import Item, read_item_sample
from waltz.measures.masks import enumerate_masks, number_masks
from waltz.measures.rows import average, build_row, pool_items
from waltz.models.encoders.coalitions import (
    EncoderCoalitions,
    EncoderPlayers,
    build_equations_players,
)
from waltz.models.encoders.encoder import Encoder, LateEncoder

MEASUREMENT = "bias"
_build_row = partial(build_row, MEASUREMENT)
MAX_TOKENS = 9
"""Largest number of tokens of a measured caption of late fusion: with nine tokens and nine patches,
each modality needs 512 passes.
"""
MAX_TOKENS_EARLY = 6
"""The same of early fusion: with six tokens and nine patches there are 2**15 coalitions."""
BOUNDS: dict[str, Bounds] = {"covered": PERCENT}
"""Smallest and largest value of the quantities that have any."""
ROUNDING = 1e-6
"""Points of T-SHAP by which an interval may miss the exact value, because of rounding."""
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
        early_sample: Number of captions a data set of encoders of early fusion, among captions of at
            most `MAX_TOKENS_EARLY` tokens; 0 leaves these encoders out.
        random_networks: Number of random networks of each encoder of early fusion, to which its
            captions are dealt out.
    """

    sample: int
    repeats: int
    permutations: Sequence[int]
    estimators: Sequence[str]
    estimator_repeats: int
    early_sample: int = 0
    random_networks: int = 0


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
def tabulate(encoder: Encoder, item: Item) -> Table:
    """Return the values of all coalitions of a caption and its image, with the exact T-SHAP.

    The explained value is that of `attribute_texts`: the probability of a match for early fusion
    that has one, else the logit.
    """
    image = encoder.prepare_image(item.image)
    game = build_equations_players(encoder, encoder.tokenize(item.caption), image)
    if encoder.late:
        values = _tabulate_late(cast(LateEncoder, encoder), game, image)
    else:
        values = _tabulate_early(encoder, game, image)
    return Table(values, compute_exact_t_shap(values), item.scene)


def compute_exact_t_shap(values: np.ndarray) -> float:
    """Return T-SHAP of a game in percent, from the values of all its coalitions, as `Table` has
    them.
    """
    n_text_masks, n_image_masks = values.shape
    tokens, patches = n_text_masks.bit_length() - 1, n_image_masks.bit_length() - 1
    # The value of two masks is the dot product of the text mask's unit vector and of the image
    # mask's column, as if the score were one of late fusion.
    unit_vectors = np.eye(n_text_masks)
    text_orders = average_all_orders(
        lambda masks: unit_vectors[number_masks(masks)], tokens
    )
    image_orders = average_all_orders(
        lambda masks: values.T[number_masks(masks)], patches
    )
    phi = np.concatenate(compute_shapley_values(text_orders, image_orders))
    return 100 * float(compute_t_shap(phi[:, None], tokens))


def measure_bias(
    encoders: Mapping[str, Reload],
    datasets: Sequence[DatasetFiles],
    settings: BiasSettings,
    seed: int,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return bias and error of T-SHAP by number of permutations and by estimator, in percentage
    points.

    Args:
        encoders: Function that loads each encoder, by name.
        datasets: Data sets of captions and foils; captions are attributed.
        settings: Samples, budgets, estimators and number of random networks.
        seed: Seed of the sample, of the estimators and of random weights.
        resampling: Resampling of scenes, and of random networks.
    """
    rows: list[MeasurementRecord] = []
    for name, load in encoders.items():
        encoder = load()
        items = _select_short(encoder, datasets, settings, seed)
        if not items:
            continue
        # Games of the trained network, and of networks that learned nothing.
        tables_of = {name: [tabulate(encoder, item) for item in items]}
        if not encoder.late and settings.random_networks:
            tables_of[f"{name}, random weights"] = tabulate_random_networks(
                load, items, settings.random_networks, seed
            )
        for model, tables in tables_of.items():
            rows += measure_permutations(
                model,
                tables,
                settings.permutations,
                settings.repeats,
                seed,
                resampling,
            )
            rows += measure_estimators(
                model,
                tables,
                settings.estimators,
                settings.estimator_repeats,
                seed,
                resampling,
            )
    return rows


def tabulate_random_networks(
    load: Reload, items: Sequence[Item], networks: int, seed: int
) -> list[Table]:
    """Return a table of each item by one of some networks with random weights, to which the items
    are dealt out; the cluster of a table is its network.
    """
    tables = []
    for number in range(networks):
        network = load()
        randomize_weights(network, seed + number)
        for item in items[number::networks]:
            tables.append(replace(tabulate(network, item), cluster=str(number)))
    return tables


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
        draws = []
        for repeat in range(repeats):
            draws.append(draw_permutations(table, maximum, first_seed + repeat))
        for count in permutations:
            # The first k permutations are those that a budget of k permutations draws.
            shares = []
            for draw in draws:
                shares.append(_measure_first(table, draw, count))
            values = summarize_shares(table, shares)
            values["evaluations"] = count * count_permutation_coalitions(table.players)
            for quantity, value in values.items():
                values_of.setdefault((count, quantity), []).append(value)
        # Evaluations for an interval of 1 point to either end, from the error of the largest number
        # of permutations.
        error = values_of[maximum, "error"][-1] / 100
        evaluations = maximum * count_permutation_coalitions(table.players)
        needed_evaluations.append(count_evaluations_for_point(evaluations, error))

    rows = []
    for (count, quantity), numbers in values_of.items():
        measure = pool_items(
            quantity, numbers, clusters, model, resampling, BOUNDS.get(quantity)
        )
        rows.append(
            _build_row(
                quantity, measure, model=model, factor="permutations", level=str(count)
            )
        )
    exact = average([table.t_shap for table in tables], clusters, model, resampling)
    rows.append(
        _build_row("t_shap", exact, model=model, factor="permutations", level="all")
    )
    text_shares = [100 * table.tokens / table.players for table in tables]
    share_of_players = average(text_shares, clusters, model, resampling)
    # Noise pulls T-SHAP towards this share.
    rows.append(
        _build_row("t_shap", share_of_players, model=model, factor="share of players")
    )
    needed = average(needed_evaluations, clusters, model, resampling)
    rows.append(_build_row("evaluations_for_1_point", needed, model=model))
    return rows


def summarize_shares(table: Table, shares: Sequence[TShap]) -> dict[str, float]:
    """Return the bias and error of T-SHAP over several seeds of one game, in percent and percentage
    points.

    Args:
        table: The game.
        shares: T-SHAP of each seed.
    Returns:
        By name of the quantity: the mean over seeds, the bias, the bias signed so that it is
        positive towards the share of tokens among the players, and the root mean square error. If
        the estimator has a standard error, `covered` is the percent of seeds whose interval
        contains the exact value, and `interval_width` the mean width of the interval. If it can be
        corrected, the first four quantities of corrected T-SHAP.
    """
    summary = _summarize_errors(table, [share.value for share in shares], "")
    # Ends of the interval of each seed, of shape (seeds,).
    low, high = 100 * np.array([share.interval for share in shares]).T
    # Both are NaN for an estimator without a standard error.
    if not np.isnan(low).all():
        is_above_low = low - ROUNDING <= table.t_shap
        is_below_high = table.t_shap <= high + ROUNDING
        summary["covered"] = 100 * float(np.mean(is_above_low & is_below_high))
        summary["interval_width"] = float(np.mean(high - low))
    corrected = [share.corrected for share in shares]
    if not np.isnan(corrected).all():
        summary |= _summarize_errors(table, corrected, "_corrected")
    return summary


def _summarize_errors(
    table: Table, shares: Sequence[float], suffix: str
) -> dict[str, float]:
    """Return mean, bias and error of shares against the exact T-SHAP, in percent and points."""
    percents = 100 * np.array(shares)
    bias = float(percents.mean() - table.t_shap)
    return {
        f"t_shap{suffix}": float(percents.mean()),
        f"bias{suffix}": bias,
        f"bias_towards_players{suffix}": table.direction_of_players * bias,
        f"error{suffix}": _compute_root_mean_square(percents - table.t_shap),
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
        values_of: dict[str, list[float]] = {}
        for number, table in enumerate(tables):
            first_seed = seed + number * repeats
            shares = []
            for repeat in range(repeats):
                shares.append(_estimate_t_shap(table, estimator, first_seed + repeat))
            summary = summarize_shares(table, shares)
            # Every estimator has the budget of ten permutations.
            summary["evaluations"] = count_published_evaluations(table.players)
            for quantity, value in summary.items():
                values_of.setdefault(quantity, []).append(value)
        for quantity, values in values_of.items():
            measure = pool_items(
                quantity, values, clusters, model, resampling, BOUNDS.get(quantity)
            )
            rows.append(
                _build_row(
                    quantity, measure, model=model, factor=factor, level=estimator
                )
            )
    return rows


def _tabulate_late(
    encoder: LateEncoder, game: EncoderPlayers, image: torch.Tensor
) -> np.ndarray:
    """Return the values of all coalitions of late fusion, without its constant."""
    # Row k is the vector of the mask with number k: (2**tokens, size) and (2**patches, size).
    text_vectors = build_text_vectors(encoder, game)(
        enumerate_masks(game.n_text_players)
    )
    image_vectors = build_image_vectors(encoder, image, game)(
        enumerate_masks(game.n_image_players)
    )
    values: np.ndarray = encoder.scale * text_vectors @ image_vectors.T
    return values


def _tabulate_early(
    encoder: Encoder, game: EncoderPlayers, image: torch.Tensor
) -> np.ndarray:
    """Return the values of all coalitions, each from a pass of its own."""
    coalitions = EncoderCoalitions(encoder, image, [game], choose_outcome(encoder))
    (values,) = coalitions.values([enumerate_masks(len(game))])
    # Text players are the low bits of a mask's number, so that axis 0 is the patch mask here.
    return values.reshape(2**game.n_image_players, 2**game.n_text_players).T


def _select_short(
    encoder: Encoder,
    datasets: Sequence[DatasetFiles],
    settings: BiasSettings,
    seed: int,
) -> list[Item]:
    """Return items whose captions have few tokens, by seeded rank in each data set."""
    max_tokens, sample = MAX_TOKENS_EARLY, settings.early_sample
    if encoder.late:
        max_tokens, sample = MAX_TOKENS, settings.sample
    items: list[Item] = []
    for dataset in datasets:
        short: list[Item] = []
        for item in read_item_sample(dataset, CANDIDATES_PER_ITEM * sample, seed):
            text = encoder.tokenize(item.caption)
            # Special tokens are no players.
            if len(text.ids) - sum(text.special) <= max_tokens:
                short.append(item)
        items += short[:sample]
    return items


def draw_permutations(table: Table, permutations: int, seed: int) -> Estimate:
    """Return the estimate from some permutations, each with its reverse."""
    evaluations = permutations * count_permutation_coalitions(table.players)
    return _run(table, begin_permutations(table.players, evaluations, seed))


def _measure_first(table: Table, draw: Estimate, count: int) -> TShap:
    """Return T-SHAP of the first permutations of a draw."""
    assert draw.parts is not None
    parts = draw.parts[:count]
    first = replace(draw, phi=parts.mean(axis=0), parts=parts)
    return measure_t_shap(first, table.tokens)


def _estimate_t_shap(table: Table, estimator: str, seed: int) -> TShap:
    """Return T-SHAP by an estimator."""
    settings = AttributionSettings(
        EQUATIONS, estimator, count_published_evaluations(table.players), seed
    )
    estimate = _run(
        table, begin_estimation(estimator, table.players, table.tokens, settings)
    )
    return measure_t_shap(estimate, table.tokens)


def _run(table: Table, estimation: Estimation) -> Estimate:
    (estimate,) = estimate_in_step([estimation], table.compute_values)
    return estimate


def _compute_root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))
