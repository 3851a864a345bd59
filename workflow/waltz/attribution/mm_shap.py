"""MM-SHAP of encoders: contributions of tokens and patches to the score of a text with an image (thesis 4.3)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from PIL import Image

from waltz.attribution.shapley.estimate import AttributionSettings, Estimate, run_in_step
from waltz.attribution.shapley.estimators import (
    FACTORISED_ESTIMATORS,
    begin_estimation,
    check_profile_estimator,
    count_published_evaluations,
)
from waltz.attribution.shapley.late_fusion import choose_estimator, compute_factorised
from waltz.attribution.t_shap import TShap, measure_t_shap
from waltz.core.errors import UserError
from waltz.core.text_diff import Span
from waltz.fidelity import get_fidelity
from waltz.models.encoders.coalitions import Coalitions, Outcome, Players
from waltz.models.encoders.encoder import Encoder, LateEncoder
from waltz.models.regions import ImageOrRegions, get_players_function


@dataclass(frozen=True, eq=False)
class Attribution:
    """Shapley values of one text with one image.

    Attributes:
        score: The explained value of the whole text and image.
        spans: Characters of the text that they stand for.
        grid: Patches a side; the image players follow the text players row by row.
        phi: float64 of shape (players, outputs).
        base_value: Value of the empty coalition, of each output.
        value: Value of all players together.
        t_shap: Text's share of the magnitude, between 0 and 1; NaN with a reason.
        t_shap_se: Its standard error; NaN with a reason.
        reason: Why one of them is NaN.
        requested: Coalitions (or encoder passes) that the estimator requested.
        evaluated: Distinct inputs among them; those stored before are not computed again.
        residual: Largest |sum of phi - (value - base_value)|.
        without_text: Value of the image players alone.
        without_image: Value of the text players alone.
    """

    score: float
    tokens: tuple[str, ...]
    spans: tuple[Span, ...]
    grid: int
    phi: np.ndarray
    base_value: np.ndarray
    value: np.ndarray
    t_shap: float
    t_shap_se: float
    reason: str | None
    estimator: str
    requested: int
    evaluated: int
    residual: float
    without_text: np.ndarray
    without_image: np.ndarray
    seed: int


def attribute_texts(
    encoder: Encoder,
    image: ImageOrRegions,
    texts: Sequence[str],
    settings: AttributionSettings,
    known_values: Sequence[dict[bytes, np.ndarray]] | None = None,
    outcome: Outcome | None = None,
) -> list[Attribution]:
    """Return the Shapley values of each text with one image.

    By default the probability of a match is explained where the encoder has one, and the logit otherwise, as for
    encoders of late fusion.

    Args:
        image: An RGB image, or the regions of one.
        texts: Texts of the image, such as caption and foil; their masked images are shared.
        known_values: For each text, values of coalitions by what is visible; new ones are added.
        outcome: From the encoder's logits to the value that is explained.
    Raises:
        UserError: A text is longer than the encoder reads, or the evaluations do not suffice for one permutation.
    """
    prepared = encoder.prepare_image(cast(Image.Image, image))  # an encoder of regions takes regions
    build_players = get_players_function(encoder, settings.profile)
    games = [build_players(encoder, encoder.tokenize(text), prepared) for text in texts]
    coalitions = Coalitions(encoder, prepared, games, outcome or choose_outcome(encoder))
    if known_values is not None:
        coalitions.known = list(known_values)
    estimators = [select_estimator(settings, encoder, game) for game in games]
    estimates: dict[int, tuple[Estimate, int, TShap]] = {}
    for estimator in dict.fromkeys(estimators):
        indices = [index for index, name in enumerate(estimators) if name == estimator]
        if estimator in FACTORISED_ESTIMATORS:
            own_games = [games[index] for index in indices]
            results = _estimate_factorised(estimator, cast(LateEncoder, encoder), prepared, own_games, settings)
        else:
            results = _estimate_by_coalitions(estimator, coalitions, indices, settings)
        estimates |= dict(zip(indices, results, strict=True))
    ablated = compute_ablated_values(coalitions)
    attributions = []
    for index, game in enumerate(games):
        estimate, evaluated, t_shap = estimates[index]
        attributions.append(
            Attribution(
                score=float(estimate.value[0]),
                tokens=tuple(game.text_input.tokens[position] for position in game.positions),
                spans=tuple(game.text_input.spans[position] for position in game.positions),
                grid=game.grid,
                phi=estimate.phi,
                base_value=estimate.base_value,
                value=estimate.value,
                t_shap=t_shap.value,
                t_shap_se=t_shap.standard_error,
                reason=t_shap.reason,
                estimator=estimators[index],
                requested=estimate.requested,
                evaluated=evaluated,
                residual=estimate.residual,
                without_text=ablated[index][1:2],
                without_image=ablated[index][2:3],
                seed=settings.seed,
            )
        )
    return attributions


def select_estimator(settings: AttributionSettings, encoder: Encoder, game: Players) -> str:
    """Return the estimator of a game: permutations in `published`; with `auto`, what the budget allows.

    Raises:
        UserError: The estimator does not fit the profile or the encoder.
    """
    if get_fidelity(settings.profile).estimators:
        check_profile_estimator(settings.estimator, settings.profile)
        return "permutation"
    if settings.estimator in FACTORISED_ESTIMATORS and not encoder.late:
        raise UserError(
            f"attribution.estimator: {settings.estimator} is for encoders of late fusion, models.{encoder.spec.name}"
            " is none; take permutation"
        )
    if settings.estimator != "auto":
        return settings.estimator
    if settings.standard_error is not None:
        return "permutation"
    return choose_estimator(encoder, game, settings.evaluations or count_published_evaluations(len(game)))


def name_explained_value(encoder: Encoder) -> str:
    """Return `probability` of a match where an encoder of early fusion has one, else `logit`."""
    return "probability" if encoder.probability and not encoder.late else "logit"


def choose_outcome(encoder: Encoder) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the explained value as a function of the logit."""
    return torch.sigmoid if name_explained_value(encoder) == "probability" else lambda logits: logits


def build_ablation_masks(game: Players) -> np.ndarray:
    """Return the coalitions of all players, of the patches alone and of the text alone: bool of shape (3, players)."""
    text = np.arange(len(game)) < game.words
    return np.array([np.ones_like(text), ~text, text])


def compute_ablated_values(coalitions: Coalitions) -> list[np.ndarray]:
    """Compute the values of each game unmasked, without its text and without the image (thesis 4.4.5).

    All three are coalitions of MM-SHAP's game, so values that its estimator has requested are not computed again. Each
    text and each patch grid is encoded at most twice: unmasked and masked.

    Returns:
        For each game, float64 of shape (3,).
    """
    return [values[:, 0] for values in coalitions.values(list(map(build_ablation_masks, coalitions.players)))]


def _estimate_factorised(
    name: str, encoder: LateEncoder, prepared: torch.Tensor, games: Sequence[Players], settings: AttributionSettings
) -> list[tuple[Estimate, int, TShap]]:
    """Return estimate, new encoder passes and T-SHAP of each game."""
    budget = None
    if name == "factorised-permutation":
        budget = settings.evaluations or count_published_evaluations(max(map(len, games)))
    estimates = compute_factorised(encoder, prepared, games, budget, settings.seed)
    least = max(factorised.estimate.requested for factorised in estimates)
    if budget is not None and least > budget:
        raise UserError(
            f"attribution.evaluations: too small for a pair of orders of tokens and of patches (got {budget},"
            f" expected at least {least}); set at least {least}"
        )
    results = []
    for game, factorised in zip(games, estimates, strict=True):
        t_shap, error = measure_t_shap(factorised.estimate, game.words), factorised.t_shap_se
        if not math.isnan(t_shap.value):
            reason = "one pair of orders a side; two give an error" if math.isnan(error) else None
            t_shap = TShap(t_shap.value, error, reason)
        results.append((factorised.estimate, factorised.passes, t_shap))
    return results


def _estimate_by_coalitions(
    name: str, coalitions: Coalitions, indices: Sequence[int], settings: AttributionSettings
) -> list[tuple[Estimate, int, TShap]]:
    """Return estimate, distinct inputs and T-SHAP of some games, whose estimations advance together."""
    games = coalitions.players

    def compute_values(requested: list[np.ndarray]) -> list[np.ndarray]:
        masks = [np.zeros((0, len(game)), dtype=bool) for game in games]
        for index, own_masks in zip(indices, requested, strict=True):
            masks[index] = own_masks
        values = coalitions.values(masks)
        return [values[index] for index in indices]

    estimations = [begin_estimation(name, len(games[index]), games[index].words, settings) for index in indices]
    return [
        (estimate, len(coalitions.requested[index]), measure_t_shap(estimate, games[index].words))
        for index, estimate in zip(indices, run_in_step(estimations, compute_values), strict=True)
    ]
