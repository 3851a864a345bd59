"""MM-SHAP: what each token and each patch contributes to the score of a text beside an image (thesis 4.3)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from PIL import Image

from waltz.attribution.companions.ablation import ablate
from waltz.attribution.settings import Settings
from waltz.attribution.shapley.estimate import Estimate, run_in_step
from waltz.attribution.shapley.estimators import FACTORISED_ESTIMATORS, begin_estimation
from waltz.attribution.shapley.factorised import (
    FactorisedEstimate,
    choose_estimator,
    compute_exact_factorised,
    compute_factorised_permutations,
)
from waltz.attribution.shapley.permutations import count_published_evaluations
from waltz.attribution.t_shap import TShap, measure
from waltz.core.errors import UserError
from waltz.core.text_diff import Span
from waltz.fidelity import get_fidelity
from waltz.models.encoders.coalitions import Coalitions, Outcome
from waltz.models.encoders.encoder import Encoder, LateEncoder
from waltz.models.encoders.players import Players
from waltz.models.regions import ImageOrRegions, get_players_function


@dataclass(frozen=True, eq=False)
class Attribution:
    """The Shapley values of one text beside one image.

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
        asked: Coalitions (or encoder passes) that the estimator asked for.
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
    asked: int
    evaluated: int
    residual: float
    without_text: np.ndarray
    without_image: np.ndarray
    seed: int


def attribute(
    encoder: Encoder,
    image: ImageOrRegions,
    texts: Sequence[str],
    settings: Settings,
    known: Sequence[dict[bytes, np.ndarray]] | None = None,
    outcome: Outcome | None = None,
) -> list[Attribution]:
    """Shapley values of each text beside one image.

    What is explained, unless said, is the probability of a match where the encoder has one, and the logit otherwise, as
    for encoders of late fusion.

    Args:
        encoder: A loaded encoder.
        image: An RGB image, or the regions of one.
        texts: Texts of the image, such as caption and foil; their masked images are shared.
        settings: How Shapley values are estimated.
        known: For each text, values of coalitions by what is left visible; new ones are added.
        outcome: What is explained of what the encoder's `fuse` gives.
    Raises:
        UserError: A text is longer than the encoder reads, or the evaluations do not suffice for one permutation.
    """
    prepared = encoder.prepare_image(cast(Image.Image, image))  # an encoder of regions takes regions
    players = get_players_function(encoder, settings.profile)
    games = [players(encoder, encoder.tokenize(text), prepared) for text in texts]
    table = Coalitions(encoder, prepared, games, outcome or explained(encoder))
    if known is not None:
        for before, stored in zip(table.known, known, strict=True):
            before.update(stored)
    names = [estimator_of(settings, encoder, game) for game in games]
    found: dict[int, Attribution] = {}
    for name in dict.fromkeys(names):
        places = [place for place, other in enumerate(names) if other == name]
        if name in FACTORISED_ESTIMATORS:
            of = [games[place] for place in places]
            made = _factorised(name, cast(LateEncoder, encoder), prepared, of, settings)
            for place, one in zip(places, made, strict=True):
                share = measure(one.estimate, games[place].words)
                if share.reason is None:
                    reason = None if np.isfinite(one.t_shap_se) else "one pair of orders a side; two give an error"
                    share = replace(share, standard_error=one.t_shap_se, standard_error_reason=reason)
                found[place] = _attribution(games[place], one.estimate, name, one.passes, share, settings.seed)
        else:
            for place, estimate, evaluated in _by_masks(name, table, places, settings):
                share = measure(estimate, games[place].words)
                found[place] = _attribution(games[place], estimate, name, evaluated, share, settings.seed)
    ablated = ablate(table)
    if known is not None:
        for after, stored in zip(table.known, known, strict=True):
            stored.update(after)
    return [
        replace(found[place], without_text=ablated[place][1:2], without_image=ablated[place][2:3])
        for place in range(len(games))
    ]


def estimator_of(settings: Settings, encoder: Encoder, game: Players) -> str:
    """The estimator of a game: permutations in `published`, what the budget allows where it says `auto`.

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


def _factorised(
    name: str, encoder: LateEncoder, prepared: torch.Tensor, games: Sequence[Players], settings: Settings
) -> list[FactorisedEstimate]:
    if name == "exact-factorised":
        return compute_exact_factorised(encoder, prepared, games)
    budget = settings.evaluations or count_published_evaluations(max(map(len, games)))
    found = compute_factorised_permutations(encoder, prepared, games, budget, settings.seed)
    least = max(one.estimate.requested for one in found)
    if least > budget:
        raise UserError(
            f"attribution.evaluations: too small for a pair of orders of tokens and of patches (got {budget}, expected"
            f" at least {least}); set at least {least}"
        )
    return found


def _by_masks(
    name: str, table: Coalitions, places: Sequence[int], settings: Settings
) -> Iterator[tuple[int, Estimate, int]]:
    """Place, estimate and distinct inputs of each of some games, whose estimations advance together."""
    games = table.players

    def values(asked: list[np.ndarray]) -> list[np.ndarray]:
        of_place = dict(zip(places, asked, strict=True))
        nobody = [np.zeros((0, len(game)), dtype=bool) for game in games]
        answers = table.values([of_place.get(place, nobody[place]) for place in range(len(games))])
        return [answers[place] for place in places]

    begun = [begin_estimation(name, len(games[place]), games[place].words, settings) for place in places]
    for place, estimate in zip(places, run_in_step(begun, values), strict=True):
        yield place, estimate, len(table.requested[place])


def _attribution(game: Players, estimate: Estimate, name: str, evaluated: int, share: TShap, seed: int) -> Attribution:
    nothing = np.zeros(0)
    return Attribution(
        score=float(estimate.value[0]),
        tokens=tuple(game.text_input.tokens[position] for position in game.positions),
        spans=tuple(game.text_input.spans[position] for position in game.positions),
        grid=game.grid,
        phi=estimate.phi,
        base_value=estimate.base_value,
        value=estimate.value,
        t_shap=share.value,
        t_shap_se=share.standard_error,
        reason=share.reason or share.standard_error_reason,
        estimator=name,
        asked=estimate.requested,
        evaluated=evaluated,
        residual=estimate.residual,
        without_text=nothing,
        without_image=nothing,
        seed=seed,
    )


def what_is_explained(encoder: Encoder) -> str:
    """`probability` of a match where an encoder that fuses early has one, else `logit`."""
    return "probability" if encoder.probability and not encoder.late else "logit"


def explained(encoder: Encoder) -> Callable[[torch.Tensor], torch.Tensor]:
    """What is explained, as a function of the logit."""
    return torch.sigmoid if what_is_explained(encoder) == "probability" else _itself


def _itself(logits: torch.Tensor) -> torch.Tensor:
    return logits
