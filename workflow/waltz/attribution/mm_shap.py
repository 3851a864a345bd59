"""MM-SHAP of encoders: contributions of tokens and patches to the score of a text with an image (thesis 4.3)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from waltz.attribution.shapley.interactions import estimate_interactions
from waltz.attribution.shapley.late_fusion import FactorisedEstimate, choose_estimator, compute_factorised
from waltz.attribution.t_shap import TShap, measure_t_shap
from waltz.core.errors import UserError
from waltz.core.text_diff import Span
from waltz.fidelity import get_fidelity
from waltz.models.batches import ProgressCallback, ignore_progress
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
        t_shap_interval: Its 95 % interval; NaN where there is no standard error.
        t_shap_corrected: T-SHAP without most of the bias of few permutations, see `TShap.corrected`.
        reason: Why one of them is NaN.
        requested: Coalitions (or encoder passes) that the estimator requested.
        evaluated: Distinct inputs among them; those stored before are not computed again.
        residual: Largest |sum of phi - (value - base_value)|.
        without_text: Value of the image players alone.
        without_image: Value of the text players alone.
        interactions: Shapley interaction indices of text players with image players, float64 of shape (words, patches);
            None where they were not requested.
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
    t_shap_interval: tuple[float, float]
    t_shap_corrected: float
    reason: str | None
    estimator: str
    requested: int
    evaluated: int
    residual: float
    without_text: np.ndarray
    without_image: np.ndarray
    seed: int
    interactions: np.ndarray | None = None


def attribute_texts(
    encoder: Encoder,
    image: ImageOrRegions,
    texts: Sequence[str],
    settings: AttributionSettings,
    known_values: Sequence[dict[bytes, np.ndarray]] | None = None,
    outcome: Outcome | None = None,
    regroup: Callable[[Players, str], Players] | None = None,
    interactions: bool = False,
    progress: ProgressCallback = ignore_progress,
) -> list[Attribution]:
    """Return the Shapley values of each text with one image.

    By default the probability of a match is explained where the encoder has one, and the logit otherwise, as for
    encoders of late fusion.

    Args:
        image: An RGB image, or the regions of one.
        texts: Texts of the image, such as caption and foil; their masked images are shared.
        known_values: For each text, values of coalitions by what is visible; new ones are added.
        outcome: From the encoder's logits to the value that is explained.
        regroup: From the players of the profile and their text to players of the user's own, whose image players are
            the same for all texts.
        interactions: Whether interactions between text and image players are computed too, for `equations`: from the
            same passes for late fusion, else with further coalitions.
        progress: Called with the number of coalitions, or passes, that are done.
    Raises:
        UserError: A text is longer than the encoder reads, or the evaluations do not suffice for one permutation.
    """
    prepared = encoder.prepare_image(cast(Image.Image, image))  # an encoder of regions takes regions
    build_players = get_players_function(encoder, settings.profile, settings.grid)
    games = [build_players(encoder, encoder.tokenize(text), prepared) for text in texts]
    if regroup is not None:
        games = [regroup(game, text) for game, text in zip(games, texts, strict=True)]
    coalitions = Coalitions(encoder, prepared, games, outcome or choose_outcome(encoder))
    coalitions.progress = progress
    if known_values is not None:
        coalitions.known = list(known_values)
    estimators = [select_estimator(settings, encoder, game, interactions) for game in games]
    estimates: dict[int, tuple[Estimate, int, TShap]] = {}
    cross: dict[int, np.ndarray] = {}
    for estimator in dict.fromkeys(estimators):
        indices = [index for index, name in enumerate(estimators) if name == estimator]
        if estimator in FACTORISED_ESTIMATORS:
            own_games = [games[index] for index in indices]
            factorised = _estimate_factorised(
                estimator, cast(LateEncoder, encoder), prepared, own_games, settings, interactions, progress
            )
            results = [_measure_factorised(game, own) for game, own in zip(own_games, factorised, strict=True)]
            cross |= {
                index: own.interactions
                for index, own in zip(indices, factorised, strict=True)
                if own.interactions is not None
            }
        else:
            results = _estimate_by_coalitions(estimator, coalitions, indices, settings)
        estimates |= dict(zip(indices, results, strict=True))
    ablated = compute_ablated_values(coalitions)
    if interactions and not cross:
        budgets = [settings.evaluations] * len(games)
        every = estimate_interactions(coalitions.values, [len(game) for game in games], budgets, settings.seed)
        cross = {index: pairs[games[index].text, games[index].image, 0] for index, pairs in enumerate(every)}
    attributions = []
    for index, game in enumerate(games):
        estimate, evaluated, t_shap = estimates[index]
        tokens, spans = game.label_text(game.text_input.tokens, game.text_input.spans)
        attributions.append(
            Attribution(
                score=float(estimate.value[0]),
                tokens=tokens,
                spans=spans,
                grid=game.grid,
                phi=estimate.phi,
                base_value=estimate.base_value,
                value=estimate.value,
                t_shap=t_shap.value,
                t_shap_se=t_shap.standard_error,
                t_shap_interval=t_shap.interval,
                t_shap_corrected=t_shap.corrected,
                reason=t_shap.reason,
                estimator=estimators[index],
                requested=estimate.requested,
                evaluated=evaluated,
                residual=estimate.residual,
                without_text=ablated[index][1:2],
                without_image=ablated[index][2:3],
                seed=settings.seed,
                interactions=cross.get(index),
            )
        )
    return attributions


def select_estimator(settings: AttributionSettings, encoder: Encoder, game: Players, interactions: bool = False) -> str:
    """Return the estimator of a game: permutations in `published`; with `auto`, what the budget allows.

    Args:
        interactions: Whether interactions are computed too, which late fusion takes from a factorised estimator.
    Raises:
        UserError: The estimator does not fit the profile or the encoder.
    """
    if interactions:
        return _select_interactions_estimator(settings, encoder, game)
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
    budget = count_published_evaluations(len(game)) if settings.evaluations is None else settings.evaluations
    return choose_estimator(encoder, game, budget, settings.standard_error)


def _select_interactions_estimator(settings: AttributionSettings, encoder: Encoder, game: Players) -> str:
    if get_fidelity(settings.profile).estimators:
        raise UserError(f"interactions: profile {settings.profile} defines none; take profile equations")
    if not encoder.late:
        return select_estimator(settings, encoder, game)
    if settings.estimator not in ("auto", *FACTORISED_ESTIMATORS):
        raise UserError(
            f"interactions: {encoder.spec.name} is of late fusion, whose interactions come from its factorised"
            " estimators; leave out estimator, and set a budget"
        )
    name = select_estimator(settings, encoder, game)
    return name if name in FACTORISED_ESTIMATORS else "factorised-regression"


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
    name: str,
    encoder: LateEncoder,
    prepared: torch.Tensor,
    games: Sequence[Players],
    settings: AttributionSettings,
    interactions: bool,
    progress: ProgressCallback,
) -> list[FactorisedEstimate]:
    """Return the estimate of each game within the budget."""
    budget = None
    if name == "factorised-regression":
        budget = settings.evaluations
        if budget is None:
            budget = count_published_evaluations(max(map(len, games)))
    estimates = compute_factorised(
        encoder, prepared, games, budget, settings.seed, interactions, progress, settings.standard_error
    )
    least = max(factorised.estimate.requested for factorised in estimates)
    if budget is not None and least > budget:
        raise UserError(
            f"attribution.evaluations: too small for regressions on tokens and on patches (got {budget},"
            f" expected at least {least}); set at least {least}"
        )
    return estimates


def _measure_factorised(game: Players, factorised: FactorisedEstimate) -> tuple[Estimate, int, TShap]:
    """Return estimate, new encoder passes and T-SHAP of a game."""
    t_shap, error = measure_t_shap(factorised.estimate, game.words), factorised.t_shap_se
    if not math.isnan(t_shap.value):
        reason = "fewer than two random pairs on one side; two give an error" if math.isnan(error) else None
        t_shap = replace(t_shap, standard_error=error, reason=reason, parts=factorised.parts)
    return factorised.estimate, factorised.passes, t_shap


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

    estimations = [
        begin_estimation(name, len(game), game.words, settings, game.always_visible)
        for game in (games[index] for index in indices)
    ]
    return [
        (estimate, len(coalitions.requested[index]), measure_t_shap(estimate, games[index].words))
        for index, estimate in zip(indices, run_in_step(estimations, compute_values), strict=True)
    ]
