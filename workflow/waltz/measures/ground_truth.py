"""Ground truth of T-SHAP: rulers whose share of text is known, and games that are built to mislead it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from waltz.attribution.mm_shap import attribute_texts
from waltz.attribution.shapley.estimate import AttributionSettings, run_in_step
from waltz.attribution.shapley.estimators import begin_exact
from waltz.attribution.t_shap import compute_t_shap
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import PERCENT, Measure, Resampling
from waltz.measures.items import derive_seed, read_items
from waltz.measures.rows import Row, build_row, pool
from waltz.models.encoders.encoder import Encoder
from waltz.models.encoders.kinds.ruler import Ruler

MEASUREMENT = "ground_truth"
Score = Callable[[np.ndarray, np.ndarray], Any]
"""From visible tokens, bool (k, tokens), and visible patches, bool (k, patches), to scores of shape (k,)."""


@dataclass(frozen=True)
class Game:
    """A score of coalitions that can be enumerated.

    Attributes:
        name: What the score does.
        tokens: Number of text players.
        patches: Number of image players.
        score: The score.
    """

    name: str
    tokens: int
    patches: int
    score: Score


def build_games(tokens: int, patches: int) -> list[Game]:
    """Return games whose text and image are alike but for the number of their players.

    In each of them, text can change the score by 1 at most, and so can the image: by `compute_range_share` the truth
    is a half.

    Args:
        tokens: Number of text players.
        patches: Number of image players.
    """
    signs = np.resize([1.0, -1.0], tokens)
    scores: dict[str, Score] = {
        "additive": lambda text, image: text.mean(axis=1) + image.mean(axis=1),
        "cancelling": lambda text, image: text @ signs / tokens + image.mean(axis=1),
        "saturated text": lambda text, image: text.any(axis=1) + image.mean(axis=1),
        "parity of text": lambda text, image: text.sum(axis=1) % 2 + image.mean(axis=1),
        "exclusive or": lambda text, image: (text.all(axis=1) ^ image.all(axis=1)).astype(np.float64),
        "product": lambda text, image: text.mean(axis=1) * image.mean(axis=1),
        "conjunction": lambda text, image: (text.all(axis=1) & image.all(axis=1)).astype(np.float64),
        "disjunction": lambda text, image: (text.any(axis=1) | image.any(axis=1)).astype(np.float64),
    }
    return [Game(name, tokens, patches, score) for name, score in scores.items()]


def compute_game_t_shap(game: Game) -> float:
    """Return T-SHAP of a game from all coalitions; NaN where every Shapley value is 0."""
    (estimate,) = run_in_step(
        [begin_exact(game.tokens + game.patches)],
        lambda requested: [game.score(*_split(masks, game.tokens))[:, None].astype(np.float64) for masks in requested],
    )
    return float(compute_t_shap(np.where(np.abs(estimate.phi) < 1e-12, 0.0, estimate.phi), game.tokens))


def compute_range_share(game: Game) -> float:
    """Return the share of text in the changes that each modality can make to the score while the other stays.

    The change of a modality is the largest difference between two scores that differ in its players alone. For an
    additive score it is the sum of |phi| over its players, so that the share is T-SHAP.
    """
    text, image = (_enumerate(players) for players in (game.tokens, game.patches))
    table = np.stack([game.score(np.repeat(row[None], len(image), axis=0), image) for row in text]).astype(np.float64)
    by_text, by_image = np.ptp(table, axis=0).max(), np.ptp(table, axis=1).max()
    return float(by_text / (by_text + by_image))


def measure_games(sizes: Iterable[tuple[int, int]]) -> list[Row]:
    """Return T-SHAP of each built game, its range share, and the difference to it, in percent and points.

    Args:
        sizes: Numbers of tokens and patches.
    """
    rows = []
    for tokens, patches in sizes:
        for game in build_games(tokens, patches):
            t_shap, truth = 100 * compute_game_t_shap(game), 100 * compute_range_share(game)
            place = {"model": game.name, "factor": "players", "level": f"{tokens} tokens, {patches} patches"}
            undefined = "every Shapley value is 0, so no share is defined" if np.isnan(t_shap) else None
            measures = {
                "t_shap": Measure(None if undefined else t_shap, 1, reason=undefined),
                "known_share": Measure(truth, 1),
                "t_shap_difference": Measure(None if undefined else t_shap - truth, 1, reason=undefined),
            }
            rows += [build_row(MEASUREMENT, name, measure, **place) for name, measure in measures.items()]
    return rows


def measure_rulers(
    rulers: Sequence[Ruler],
    datasets: Iterable[DatasetFiles],
    *,
    sample: int,
    evaluations: int,
    estimators: Sequence[str],
    seed: int,
    how: Resampling,
) -> list[Row]:
    """Return T-SHAP of rulers in percent by estimator, its root mean square error, and whether it orders them: by data
    set, and of all.

    Args:
        rulers: Rulers of different shares.
        datasets: Data sets of captions and foils; captions are attributed.
        sample: Number of items a data set.
        evaluations: Most coalitions of a text.
        estimators: Names of estimators.
        how: Resampling of the scenes for intervals.
    """
    rows: list[Row] = []
    together: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    in_order = sorted(rulers, key=lambda ruler: ruler.share)
    for dataset in datasets:
        items = read_items(dataset, sample, seed)
        clusters = [item.scene for item in items]
        for estimator in estimators:
            settings = [
                AttributionSettings("equations", estimator, evaluations, derive_seed(item.dataset, item.item_id, seed))
                for item in items
            ]
            shares = {
                ruler.spec.name: [
                    100 * attribute_texts(cast(Encoder, ruler), item.image, [item.caption], own)[0].t_shap
                    for item, own in zip(items, settings, strict=True)
                ]
                for ruler in in_order
            }
            steps = np.diff(np.array(list(shares.values())), axis=0)
            found = {("", "ordered"): np.where((steps > 0).all(axis=0), 100.0, 0.0).tolist()}
            for ruler in in_order:
                own = shares[ruler.spec.name]
                found[ruler.spec.name, "t_shap"] = own
                found[ruler.spec.name, "error"] = [share - 100 * ruler.share for share in own]
            for (model, quantity), values in found.items():
                measure = pool(quantity, values, clusters, dataset.name, how, PERCENT)
                place = {"model": model, "dataset": dataset.name, "factor": "estimator", "level": estimator}
                rows.append(build_row(MEASUREMENT, quantity, measure, **place))
                together.setdefault((model, estimator, quantity), []).extend(zip(clusters, values, strict=True))
    for (model, estimator, quantity), pairs in together.items():
        names, values = zip(*pairs, strict=True)
        measure = pool(quantity, values, names, "all", how, PERCENT)
        rows.append(build_row(MEASUREMENT, quantity, measure, model=model, factor="estimator", level=estimator))
    return rows


def _enumerate(players: int) -> np.ndarray:
    """Return all coalitions of some players: bool (2**players, players)."""
    masks: np.ndarray = (np.arange(2**players)[:, None] >> np.arange(players) & 1).astype(bool)
    return masks


def _split(masks: np.ndarray, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    return masks[:, :tokens], masks[:, tokens:]
