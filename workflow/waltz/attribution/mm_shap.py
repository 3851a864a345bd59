"""MM-SHAP of encoders: contributions of tokens and patches to the score of a text with an image
(thesis 4.3).
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import torch
from PIL import Image

from waltz.attribution.engine import (
    Additions,
    Attribution,
    GameEstimate,
    Instance,
    build_attributions,
    estimate_by_coalitions,
    refuse_interactions,
)
from waltz.attribution.published import (
    check_profile_estimator,
    count_published_evaluations,
)
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.attribution.shapley.estimators import FACTORISED_ESTIMATORS, begin_estimation
from waltz.attribution.shapley.late_fusion import (
    choose_estimator,
    compute_factorized,
)
from waltz.attribution.t_shap import TShap, drop_share_without_contrast, measure_t_shap
from waltz.core.errors import UserError
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.encoders.coalitions import EncoderCoalitions, EncoderPlayers, Outcome
from waltz.models.encoders.encoder import Encoder, LateEncoder
from waltz.models.regions import ImageOrRegions, get_players_function

Regroup = Callable[[EncoderPlayers, str], EncoderPlayers]
"""Function that takes the players of a profile and their text, and returns the players that the
user chose.
"""


def attribute_texts(
    encoder: Encoder,
    image: ImageOrRegions,
    texts: Sequence[str],
    settings: AttributionSettings,
    known_values: Sequence[dict[bytes, np.ndarray]] | None = None,
    outcome: Outcome | None = None,
    regroup: Regroup | None = None,
    progress: ProgressCallback = ignore_progress,
) -> list[Attribution]:
    """Return the Shapley values of each text with one image, with the values without the text and
    without the image.

    By default the probability of a match is explained if an encoder of early fusion has one; else
    the logit.

    Args:
        image: An RGB image, or the regions of one.
        texts: Texts of the image, such as caption and foil; their masked images are shared.
        settings: Fidelity, estimator and budget. If interactions are requested, encoders of late
            fusion compute them from the same passes, other encoders from further coalitions.
        known_values: For each text, known values of coalitions by what is visible; new values are
            added.
        outcome: Function of the encoder's logits that returns the explained value.
        regroup: Function that returns the players that the user chose; the image players are the
            same for all texts.
        progress: Called with the number of coalitions, or encoder passes, that are done.
    Raises:
        UserError: A text is longer than the encoder reads, or the evaluations do not suffice for
            one permutation.
    """
    # Each text has one game, played by its tokens and the patches (or regions) of the shared image.
    prepared = encoder.prepare_image(cast(Image.Image, image))
    build_players = get_players_function(encoder, settings.fidelity, settings.grid)
    players: list[EncoderPlayers] = []
    instances: list[Instance] = []
    for text in texts:
        game = build_players(encoder, encoder.tokenize(text), prepared)
        if regroup is not None:
            game = regroup(game, text)
        players.append(game)
        tokens = game.text_input
        instances.append(Instance(text, tokens.ids, tokens.tokens, tokens.spans))

    # Masked images are shared by all texts; `known_values` brings in the values that earlier runs
    # stored.
    coalitions = EncoderCoalitions(
        encoder, prepared, players, outcome or choose_outcome(encoder)
    )
    coalitions.progress = progress
    if known_values is not None:
        coalitions.known = list(known_values)

    # A text of unknown words that is masked by the unknown token, or a black image, does not change
    # when it is masked, so that no share can be measured.
    def check_contrast(t_shap: TShap, game: EncoderPlayers) -> TShap:
        return drop_share_without_contrast(
            t_shap, game.can_mask_text(), game.can_mask_image(prepared)
        )

    estimates = _estimate_games(encoder, coalitions, settings)
    additions = Additions(
        settings.seed,
        settings.evaluations,
        ablations=True,
        interactions=settings.interactions,
    )
    return build_attributions(
        coalitions, instances, estimates, additions, check_contrast
    )


def select_estimator(
    settings: AttributionSettings, encoder: Encoder, game: EncoderPlayers
) -> str:
    """Return the name of the estimator of a game: permutations in `published`; with `auto`, as the
    budget allows.

    Raises:
        UserError: The estimator does not fit the profile or the encoder, or cannot compute the
            requested interactions.
    """
    if settings.interactions:
        refuse_interactions(settings.fidelity)
    if settings.fidelity.estimators:
        check_profile_estimator(settings.estimator, settings.fidelity)
        return "permutation"
    if settings.interactions and encoder.late:
        return _select_interactions_estimator(settings, encoder, game)
    return _select_free_estimator(settings, encoder, game)


def _select_free_estimator(
    settings: AttributionSettings, encoder: Encoder, game: EncoderPlayers
) -> str:
    """Return the name of the estimator in a profile that allows every estimator."""
    if settings.estimator in FACTORISED_ESTIMATORS and not encoder.late:
        raise UserError(
            f"attribution.estimator: {settings.estimator} is for encoders of late fusion, models.{encoder.spec.name}"
            " is none; take permutation"
        )
    if settings.estimator != "auto":
        return settings.estimator
    budget = settings.evaluations
    if budget is None:
        budget = count_published_evaluations(len(game))
    return choose_estimator(encoder, game, budget, settings.standard_error)


def _select_interactions_estimator(
    settings: AttributionSettings, encoder: Encoder, game: EncoderPlayers
) -> str:
    """Return the name of the factorized estimator that computes the interactions of an encoder of
    late fusion.
    """
    if settings.estimator not in ("auto", *FACTORISED_ESTIMATORS):
        raise UserError(
            f"interactions: {encoder.spec.name} is of late fusion, whose interactions come from its factorised"
            " estimators; leave out estimator, and set a budget"
        )
    name = _select_free_estimator(settings, encoder, game)
    if name in FACTORISED_ESTIMATORS:
        return name
    # `auto` chose an estimator of coalitions, but interactions need the vectors of each modality.
    return "factorised-regression"


def name_explained_value(encoder: Encoder) -> str:
    """Return the name of the explained value: `probability` if an encoder of early fusion has one,
    else `logit`.
    """
    if encoder.probability and not encoder.late:
        return "probability"
    return "logit"


def choose_outcome(encoder: Encoder) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the function that computes the explained value from logits."""
    if name_explained_value(encoder) == "probability":
        return torch.sigmoid
    return lambda logits: logits


def _estimate_games(
    encoder: Encoder, coalitions: EncoderCoalitions, settings: AttributionSettings
) -> list[GameEstimate]:
    """Return the estimate of each game; games with the same estimator are estimated together."""
    # Games of one image can have different estimators: a short caption may have exact values while
    # its long foil needs a regression.
    positions_of_estimator: dict[str, list[int]] = defaultdict(list)
    for position, game in enumerate(coalitions.players):
        positions_of_estimator[select_estimator(settings, encoder, game)].append(
            position
        )
    estimates: dict[int, GameEstimate] = {}
    for estimator, positions in positions_of_estimator.items():
        if estimator in FACTORISED_ESTIMATORS:
            late_encoder = cast(LateEncoder, encoder)
            estimates |= _estimate_factorized(
                estimator, late_encoder, coalitions, positions, settings
            )
        else:
            estimates |= _estimate_by_coalitions(
                estimator, coalitions, positions, settings
            )
    return [estimates[position] for position in sorted(estimates)]


def _estimate_by_coalitions(
    estimator: str,
    coalitions: EncoderCoalitions,
    positions: Sequence[int],
    settings: AttributionSettings,
) -> dict[int, GameEstimate]:
    """Return the estimates of some games, by the position of the game, from the values of
    coalitions.
    """
    estimations = {}
    for position in positions:
        game = coalitions.players[position]
        estimations[position] = begin_estimation(
            estimator, len(game), game.n_text_players, settings, game.always_visible
        )
    results = {}
    for position, estimate in estimate_by_coalitions(coalitions, estimations).items():
        t_shap = measure_t_shap(estimate, coalitions.players[position].n_text_players)
        evaluated = len(coalitions.requested[position])
        results[position] = GameEstimate(estimator, estimate, evaluated, t_shap)
    return results


def _estimate_factorized(
    estimator: str,
    encoder: LateEncoder,
    coalitions: EncoderCoalitions,
    positions: Sequence[int],
    settings: AttributionSettings,
) -> dict[int, GameEstimate]:
    """Return the estimates of some games of late fusion, by position, from subsets of tokens and of
    patches.
    """
    players = [coalitions.players[position] for position in positions]
    # Without a budget, the vectors of all subsets of tokens and of patches are computed: exact
    # values.
    budget = None
    if estimator == "factorised-regression":
        budget = settings.evaluations
        if budget is None:
            budget = count_published_evaluations(max(map(len, players)))
    estimates = compute_factorized(
        encoder,
        coalitions.image,
        players,
        budget,
        settings.seed,
        settings.interactions,
        coalitions.progress,
        settings.standard_error,
    )

    # A regression takes the subsets that it needs even if the budget is smaller, so that the budget
    # is checked here.
    required = max(factorized.estimate.requested for factorized in estimates)
    if budget is not None and required > budget:
        raise UserError(
            f"attribution.evaluations: too small for regressions on tokens and on patches (got {budget},"
            f" expected at least {required}); set at least {required}"
        )
    results = {}
    for position, game, factorized in zip(positions, players, estimates, strict=True):
        pairs = factorized.interactions
        if pairs is not None:
            # Late fusion has one output: (tokens, patches) becomes (tokens, patches, 1).
            pairs = pairs[:, :, None]
        t_shap = measure_t_shap(factorized.estimate, game.n_text_players)
        results[position] = GameEstimate(
            estimator, factorized.estimate, factorized.passes, t_shap, pairs
        )
    return results
