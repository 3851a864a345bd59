"""MM-SHAP of encoders: contributions of tokens and patches to the score of a text with an image (thesis 4.3)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from PIL import Image

from waltz.attribution.shapley.estimate import AttributionSettings, Estimate, run_in_step
from waltz.attribution.shapley.estimators import FACTORISED_ESTIMATORS, begin_estimation, count_published_evaluations
from waltz.attribution.shapley.late_fusion import (
    choose_estimator,
    compute_exact_factorised,
    compute_factorised_permutations,
)
from waltz.attribution.t_shap import TShap, measure_t_shap
from waltz.core.errors import UserError
from waltz.core.text_diff import Span
from waltz.evaluation.metrics.pair_metrics import RIGHT_PREDICTION, THRESHOLD, predict_pair_text
from waltz.fidelity import get_fidelity
from waltz.models.encoders.coalitions import Coalitions, Outcome, Players
from waltz.models.encoders.encoder import Encoder, LateEncoder
from waltz.models.regions import ImageOrRegions, get_players_function

if TYPE_CHECKING:
    from waltz.models.encoders.coalitions import Coalitions, Players


@dataclass(frozen=True, eq=False)
class Attribution:
    """Shapley values of one text with one image.

    Attributes:
        score: The explained value of the whole text and image.
        tokens: The text players' tokens.
        spans: Characters of the text that they stand for.
        grid: Patches a side; the image players follow the text players row by row.
        phi: float64 of shape (players, outputs).
        base_value: Value of the empty coalition, of each output.
        value: Value of all players together.
        t_shap: Text's share of the magnitude, between 0 and 1; NaN with a reason.
        t_shap_se: Its standard error; NaN with a reason.
        reason: Why one of them is NaN.
        estimator: The estimator that was used.
        requested: Coalitions (or encoder passes) that the estimator requested.
        evaluated: Distinct inputs among them; those stored before are not computed again.
        residual: Largest |sum of phi - (value - base_value)|.
        without_text: Value of the image players alone.
        without_image: Value of the text players alone.
        seed: Seed of the permutations.
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
        encoder: A loaded encoder.
        image: An RGB image, or the regions of one.
        texts: Texts of the image, such as caption and foil; their masked images are shared.
        settings: How Shapley values are estimated.
        known_values: For each text, values of coalitions by what is visible; new ones are added.
        outcome: From the encoder's logits to the value that is explained.
    Raises:
        UserError: A text is longer than the encoder reads, or the evaluations do not suffice for one permutation.
    """
    prepared = encoder.prepare_image(cast(Image.Image, image))  # an encoder of regions takes regions
    players = get_players_function(encoder, settings.profile)
    games = [players(encoder, encoder.tokenize(text), prepared) for text in texts]
    coalitions = Coalitions(encoder, prepared, games, outcome or choose_outcome(encoder))
    for values, stored_values in zip(coalitions.known, known_values or [], strict=known_values is not None):
        values.update(stored_values)
    estimators = [select_estimator(settings, encoder, game) for game in games]
    attributions: dict[int, Attribution] = {}
    for estimator in dict.fromkeys(estimators):
        indices = [index for index, name in enumerate(estimators) if name == estimator]
        if estimator in FACTORISED_ESTIMATORS:
            estimates = _estimate_factorised(
                estimator, cast(LateEncoder, encoder), prepared, [games[index] for index in indices], settings
            )
        else:
            estimates = _estimate_by_coalitions(estimator, coalitions, indices, settings)
        for index, (estimate, evaluated, t_shap) in zip(indices, estimates, strict=True):
            attributions[index] = _build_attribution(
                games[index], estimate, estimator, evaluated, t_shap, settings.seed
            )
    ablated = compute_ablated_values(coalitions)
    for values, stored_values in zip(coalitions.known, known_values or [], strict=known_values is not None):
        stored_values.update(values)
    return [
        replace(attributions[index], without_text=ablated[index][1:2], without_image=ablated[index][2:3])
        for index in range(len(games))
    ]


def select_estimator(settings: AttributionSettings, encoder: Encoder, game: Players) -> str:
    """Return the estimator of a game: permutations in `published`; with `auto`, what the budget allows.

    Raises:
        UserError: The estimator does not fit the profile or the encoder.
    """
    allowed = get_fidelity(settings.profile).estimators
    if allowed and settings.estimator not in allowed:
        raise UserError(
            f"attribution.estimator: does not fit the profile {settings.profile} (got {settings.estimator!r}, expected"
            f" {' or '.join(allowed)}); take another profile"
        )
    if allowed:
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


def _estimate_factorised(
    name: str, encoder: LateEncoder, prepared: torch.Tensor, games: Sequence[Players], settings: AttributionSettings
) -> list[tuple[Estimate, int, TShap]]:
    """Return estimate, new encoder passes and T-SHAP of each game."""
    if name == "exact-factorised":
        estimates = compute_exact_factorised(encoder, prepared, games)
    else:
        budget = settings.evaluations or count_published_evaluations(max(map(len, games)))
        estimates = compute_factorised_permutations(encoder, prepared, games, budget, settings.seed)
        least = max(factorised.estimate.requested for factorised in estimates)
        if least > budget:
            raise UserError(
                f"attribution.evaluations: too small for a pair of orders of tokens and of patches (got {budget},"
                f" expected at least {least}); set at least {least}"
            )
    results = []
    for game, factorised in zip(games, estimates, strict=True):
        t_shap = measure_t_shap(factorised.estimate, game.words)
        if t_shap.reason is None:
            reason = None if np.isfinite(factorised.t_shap_se) else "one pair of orders a side; two give an error"
            t_shap = replace(t_shap, standard_error=factorised.t_shap_se, standard_error_reason=reason)
        results.append((factorised.estimate, factorised.passes, t_shap))
    return results


def _estimate_by_coalitions(
    name: str, coalitions: Coalitions, indices: Sequence[int], settings: AttributionSettings
) -> list[tuple[Estimate, int, TShap]]:
    """Return estimate, distinct inputs and T-SHAP of some games, whose estimations advance together."""
    games = coalitions.players

    def compute_values(requested: list[np.ndarray]) -> list[np.ndarray]:
        masks = dict(zip(indices, requested, strict=True))
        none = [np.zeros((0, len(game)), dtype=bool) for game in games]
        values = coalitions.values([masks.get(index, none[index]) for index in range(len(games))])
        return [values[index] for index in indices]

    estimations = [begin_estimation(name, len(games[index]), games[index].words, settings) for index in indices]
    return [
        (estimate, len(coalitions.requested[index]), measure_t_shap(estimate, games[index].words))
        for index, estimate in zip(indices, run_in_step(estimations, compute_values), strict=True)
    ]


def _build_attribution(
    game: Players, estimate: Estimate, name: str, evaluated: int, t_shap: TShap, seed: int
) -> Attribution:
    not_ablated = np.zeros(0)
    return Attribution(
        score=float(estimate.value[0]),
        tokens=tuple(game.text_input.tokens[position] for position in game.positions),
        spans=tuple(game.text_input.spans[position] for position in game.positions),
        grid=game.grid,
        phi=estimate.phi,
        base_value=estimate.base_value,
        value=estimate.value,
        t_shap=t_shap.value,
        t_shap_se=t_shap.standard_error,
        reason=t_shap.reason or t_shap.standard_error_reason,
        estimator=name,
        requested=estimate.requested,
        evaluated=evaluated,
        residual=estimate.residual,
        without_text=not_ablated,
        without_image=not_ablated,
        seed=seed,
    )


def name_explained_value(encoder: Encoder) -> str:
    """Return `probability` of a match where an encoder of early fusion has one, else `logit`."""
    return "probability" if encoder.probability and not encoder.late else "logit"


def choose_outcome(encoder: Encoder) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the explained value as a function of the logit."""
    return torch.sigmoid if name_explained_value(encoder) == "probability" else _keep_logits


def _keep_logits(logits: torch.Tensor) -> torch.Tensor:
    return logits


MASKED_PARTS = ("nothing", "text", "image")
"""What is masked, in the order of the masks."""
SETTINGS = {masked: f"without {masked}" for masked in ("text", "image")}
"""Names of the ablated scores among the settings of the evaluation layout."""


def build_masks(game: "Players") -> np.ndarray:
    """Return the coalitions of all players, of the patches alone and of the text alone.

    Returns:
        bool of shape (3, players), true where a player takes part; rows as in `MASKED_PARTS`.
    """
    text = np.arange(len(game)) < game.words
    return np.array([np.ones_like(text), ~text, text])


def compute_ablated_values(coalitions: "Coalitions") -> list[np.ndarray]:
    """Compute the values of each game unmasked, without its text and without the image.

    All three are coalitions of MM-SHAP's game, so values that its estimator has requested are not computed again. Each
    text and each patch grid is encoded at most twice: unmasked and masked.

    Args:
        coalitions: The games of an image's texts, under either profile.
    Returns:
        For each game, float64 of shape (3,); entries as in `MASKED_PARTS`.
    """
    return [values[:, 0] for values in coalitions.values([build_masks(game) for game in coalitions.players])]


def build_ablated_rows(
    item: Mapping[str, Any], roles: Sequence[str], profile: str, values: Sequence[np.ndarray], probability: bool
) -> list[dict[str, Any]]:
    """Build rows of the evaluation layout for one item, to which the metrics of whole inputs apply.

    A caption and a foil of equal length are the same once their texts are masked: they tie, which is wrong in acc_r.

    Args:
        item: Its item_id and image.
        roles: Role of each text: caption, foil, mismatched.
        profile: Profile whose masking rules apply.
        values: Result of `compute_ablated_values`, text by text.
        probability: Whether the values are the model's own probabilities of a match.
    """
    rows = []
    for column, masked in list(enumerate(MASKED_PARTS))[1:]:
        for role, value in zip(roles, values, strict=True):
            score = float(value[column])
            prediction = predict_pair_text(score - THRESHOLD, score, profile) if probability else None
            rows.append(
                {
                    "item_id": item["item_id"],
                    "role": role,
                    "profile": profile,
                    "setting": SETTINGS[masked],
                    "image": item["image"],
                    "score": score,
                    "tokens": None,
                    "probability": score if probability else None,
                    "prediction": prediction,
                    "correct": None if prediction is None else prediction == RIGHT_PREDICTION[role],
                    "error": None,
                }
            )
    return rows
