"""Compare T-SHAP with known shares of text: of rulers, and of games that are built to mislead
T-SHAP.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from waltz.attribution.mm_shap import attribute_texts
from waltz.attribution.shapley.estimate import AttributionSettings, estimate_in_step
from waltz.attribution.shapley.estimators import begin_exact
from waltz.attribution.t_shap import compute_t_shap
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import PERCENT, Resampling
from waltz.core.measure import Measure
from waltz.core.sampling import derive_seed
from waltz.core.schema import MeasurementRecord
from waltz.fidelity import EQUATIONS
from waltz.measures.items import Item, read_item_sample
from waltz.measures.masks import enumerate_masks
from waltz.measures.rows import build_row, pool_items
from waltz.models.encoders.encoder import Encoder
from waltz.models.encoders.kinds.ruler import Ruler

MEASUREMENT = "ground_truth"
SMALLEST_PHI = 1e-12
"""Shapley values of smaller magnitude count as 0: they are rounding errors."""
UNDEFINED = "every Shapley value is 0, so no share is defined"
Score = Callable[[np.ndarray, np.ndarray], Any]
"""Function from visible tokens, bool (k, tokens), and visible patches, bool (k, patches), to scores
of shape (k,).
"""


@dataclass(frozen=True, slots=True)
class EnumeratedGame:
    """Describe a game that is small enough to enumerate all its coalitions.

    Attributes:
        name: Name of the rule that computes the score, such as `additive`.
        tokens: Number of text players.
        patches: Number of image players.
        score: The score.
    """

    name: str
    tokens: int
    patches: int
    score: Score


@dataclass(frozen=True, slots=True)
class GroundTruthSettings:
    """Settings of the measurement of rulers.

    Attributes:
        sample: Number of items a data set.
        evaluations: Budget of a text: the largest number of coalitions.
        estimators: Names of estimators.
    """

    sample: int
    evaluations: int
    estimators: Sequence[str]


def build_games(tokens: int, patches: int) -> list[EnumeratedGame]:
    """Return games in which text and image differ little but in their number of players.

    In each game, text can change the score by at most 1, and so can the image. By
    `compute_range_share`, the true share of text is therefore a half.

    Args:
        tokens: Number of text players.
        patches: Number of image players.
    """
    # Half of the tokens raise the score, the others lower it.
    signs = np.resize([1.0, -1.0], tokens)
    scores: dict[str, Score] = {
        "additive": lambda text, image: text.mean(axis=1) + image.mean(axis=1),
        "cancelling": lambda text, image: text @ signs / tokens + image.mean(axis=1),
        "saturated text": lambda text, image: text.any(axis=1) + image.mean(axis=1),
        "parity of text": lambda text, image: text.sum(axis=1) % 2 + image.mean(axis=1),
        "exclusive or": lambda text, image: (
            text.all(axis=1) ^ image.all(axis=1)
        ).astype(np.float64),
        "product": lambda text, image: text.mean(axis=1) * image.mean(axis=1),
        "saturated product": lambda text, image: text.any(axis=1) * image.mean(axis=1),
        "conjunctive product": lambda text, image: (
            text.all(axis=1) * image.mean(axis=1)
        ),
        "cubic product": lambda text, image: (
            text.mean(axis=1) ** 3 * image.mean(axis=1)
        ),
        "conjunction": lambda text, image: (
            text.all(axis=1) & image.all(axis=1)
        ).astype(np.float64),
        "disjunction": lambda text, image: (
            text.any(axis=1) | image.any(axis=1)
        ).astype(np.float64),
    }
    return [
        EnumeratedGame(name, tokens, patches, score) for name, score in scores.items()
    ]


def compute_game_t_shap(game: EnumeratedGame) -> float:
    """Return T-SHAP of a game from all coalitions, a share of 1; NaN where every Shapley value is
    0.
    """

    def compute_values(requested: list[np.ndarray]) -> list[np.ndarray]:
        values = []
        for masks in requested:
            scores = game.score(masks[:, : game.tokens], masks[:, game.tokens :])
            values.append(scores[:, None].astype(np.float64))
        return values

    (estimate,) = estimate_in_step(
        [begin_exact(game.tokens + game.patches)], compute_values
    )
    # Without this, rounding errors would give a share where every Shapley value is 0.
    phi = np.where(np.abs(estimate.phi) < SMALLEST_PHI, 0.0, estimate.phi)
    return float(compute_t_shap(phi, game.tokens))


def compute_range_share(game: EnumeratedGame) -> float:
    """Return how much of the possible change of the score text can cause alone, a share of 1.

    The change of a modality is the largest difference between two scores that differ in its players
    alone. For an additive score it is the sum of |phi| over its players, so that the share is
    T-SHAP.
    """
    text_masks = enumerate_masks(game.tokens)
    image_masks = enumerate_masks(game.patches)
    # Scores by text mask (axis 0) and image mask (axis 1): (2**tokens, 2**patches).
    rows = []
    for text_mask in text_masks:
        repeated = np.repeat(text_mask[None], len(image_masks), axis=0)
        rows.append(game.score(repeated, image_masks))
    scores = np.stack(rows).astype(np.float64)

    by_text = np.ptp(scores, axis=0).max()  # text varies, the image stays
    by_image = np.ptp(scores, axis=1).max()
    return float(by_text / (by_text + by_image))


def measure_games(sizes: Iterable[tuple[int, int]]) -> list[MeasurementRecord]:
    """Return for each built game T-SHAP and the range share in percent, and their difference in
    percentage points.

    Args:
        sizes: Number of tokens and number of patches of each game.
    """
    rows = []
    for tokens, patches in sizes:
        for game in build_games(tokens, patches):
            t_shap = 100 * compute_game_t_shap(game)
            known_share = 100 * compute_range_share(game)
            measures = {
                "t_shap": Measure(t_shap, 1),
                "known_share": Measure(known_share, 1),
                "t_shap_difference": Measure(t_shap - known_share, 1),
            }
            # T-SHAP is a share of the sum of |phi|, which is 0 in some games.
            if np.isnan(t_shap):
                measures["t_shap"] = measures["t_shap_difference"] = Measure(
                    None, 1, reason=UNDEFINED
                )
            for quantity, measure in measures.items():
                size = f"{tokens} tokens, {patches} patches"
                row = build_row(
                    MEASUREMENT, quantity, measure, "players", size, model=game.name
                )
                rows.append(row)
    return rows


def measure_rulers(
    rulers: Sequence[Ruler],
    datasets: Iterable[DatasetFiles],
    settings: GroundTruthSettings,
    seed: int,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return T-SHAP of rulers by estimator, by data set and over all data sets.

    Quantities are mean T-SHAP in percent, its root mean square error against the known share in
    percentage points, and the percent of items for which T-SHAP rises with the known share of the
    rulers.

    Args:
        rulers: Rulers of different shares.
        datasets: Data sets of captions and foils; captions are attributed.
        settings: Sample, budget and estimators.
        seed: Seed of the sample and of the estimators.
        resampling: Resampling of the scenes for intervals.
    """
    sorted_rulers = sorted(rulers, key=lambda ruler: ruler.share)

    rows: list[MeasurementRecord] = []
    # Clusters and values of the items of all data sets, by ruler, estimator and quantity.
    pooled: dict[tuple[str, str, str], tuple[list[str], list[float]]] = {}
    for dataset in datasets:
        items = read_item_sample(dataset, settings.sample, seed)
        clusters = [item.scene for item in items]
        for estimator in settings.estimators:
            values_of = _compare_rulers(
                sorted_rulers, items, estimator, settings.evaluations, seed
            )
            for (model, quantity), values in values_of.items():
                measure = pool_items(
                    quantity, values, clusters, dataset.name, resampling, PERCENT
                )
                rows.append(
                    build_row(
                        MEASUREMENT,
                        quantity,
                        measure,
                        "estimator",
                        estimator,
                        model=model,
                        dataset=dataset.name,
                    )
                )
                all_clusters, all_values = pooled.setdefault(
                    (model, estimator, quantity), ([], [])
                )
                all_clusters += clusters
                all_values += values
    for (model, estimator, quantity), (all_clusters, all_values) in pooled.items():
        measure = pool_items(
            quantity, all_values, all_clusters, "all", resampling, PERCENT
        )
        rows.append(
            build_row(
                MEASUREMENT, quantity, measure, "estimator", estimator, model=model
            )
        )
    return rows


def _compare_rulers(
    sorted_rulers: Sequence[Ruler],
    items: Sequence[Item],
    estimator: str,
    evaluations: int,
    seed: int,
) -> dict[tuple[str, str], list[float]]:
    """Return T-SHAP and its error for each ruler and item, and for each item whether T-SHAP orders
    the rulers.

    Returns:
        One number for each item, in percent, by name of the ruler and quantity. The name is empty
        for `ordered`, which is 100 if T-SHAP orders the rulers by their known share, else 0.
    """
    shares: dict[str, list[float]] = {}
    for ruler in sorted_rulers:
        shares[ruler.spec.name] = []
        for item in items:
            item_seed = derive_seed(item.dataset, item.item_id, seed)
            attribution_settings = AttributionSettings(
                EQUATIONS, estimator, evaluations, item_seed
            )
            (attribution,) = attribute_texts(
                cast(Encoder, ruler), item.image, [item.caption], attribution_settings
            )
            shares[ruler.spec.name].append(100 * attribution.t_shap.value)

    # T-SHAP must rise from each ruler to the next one: steps of shape (rulers - 1, items).
    steps = np.diff(np.array(list(shares.values())), axis=0)
    is_ordered = (steps > 0).all(axis=0)
    values_of = {("", "ordered"): np.where(is_ordered, 100.0, 0.0).tolist()}
    for ruler in sorted_rulers:
        ruler_shares = shares[ruler.spec.name]
        values_of[ruler.spec.name, "t_shap"] = ruler_shares
        values_of[ruler.spec.name, "error"] = [
            share - 100 * ruler.share for share in ruler_shares
        ]
    return values_of
