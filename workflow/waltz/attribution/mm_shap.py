"""MM-SHAP: what each token and each patch contributes to the score of a text beside an image (thesis 4.3)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image

from waltz.attribution.ablation import ablate
from waltz.attribution.estimate import Estimate, Estimation
from waltz.attribution.estimators import estimation
from waltz.attribution.exact import MOST_PLAYERS as MOST_EXACT
from waltz.attribution.settings import Settings
from waltz.attribution.t_shap import measure
from waltz.core.text import Span
from waltz.models.encoders.coalitions import Coalitions
from waltz.models.encoders.encoder import Encoder
from waltz.models.encoders.players import PROFILES, Players


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
    image: Image.Image,
    texts: Sequence[str],
    settings: Settings,
    known: Sequence[dict[bytes, float]] | None = None,
) -> list[Attribution]:
    """Shapley values of each text beside one image.

    What is explained is the probability of a match where the encoder has one, and the logit otherwise, as for encoders
    of late fusion.

    Args:
        encoder: A loaded encoder.
        image: An RGB image.
        texts: Texts of the image, such as caption and foil; their masked images are shared.
        settings: How Shapley values are estimated.
        known: For each text, values of coalitions by what is left visible; new ones are added.
    Raises:
        UserError: A text is longer than the encoder reads, or the evaluations do not do for one permutation.
    """
    prepared = encoder.image(image)
    games = [PROFILES[settings.profile](encoder, encoder.text(text), prepared) for text in texts]
    table = Coalitions(encoder, prepared, games, explained(encoder))
    if known is not None:
        for before, stored in zip(table.known, known, strict=True):
            before.update(stored)
    chosen = [choose(settings, len(game)) for game in games]
    estimations = [estimation(name, len(game), game.words, settings) for name, game in zip(chosen, games, strict=True)]
    distinct: list[set[bytes]] = [set() for _ in games]

    def values(asked: list[np.ndarray]) -> list[np.ndarray]:
        for found, game, masks in zip(distinct, games, asked, strict=True):
            found.update(row.tobytes() for row in masks | game.kept)
        return table.values(asked)

    estimates = in_step(estimations, values)
    ablated = ablate(table)
    if known is not None:
        for after, stored in zip(table.known, known, strict=True):
            stored.update(after)
    return [
        _attribution(game, estimate, name, len(found), without, settings.seed)
        for game, estimate, name, found, without in zip(games, estimates, chosen, distinct, ablated, strict=True)
    ]


def choose(settings: Settings, players: int) -> str:
    """The estimator of a game: permutations in `published`, exact values where `auto` can afford them.

    Args:
        settings: Profile, estimator and evaluations.
        players: Number of players.
    """
    if settings.profile == "published":
        return "permutation"
    if settings.estimator != "auto":
        return settings.estimator
    affordable = settings.evaluations is not None and 2**players <= settings.evaluations
    return "exact" if players <= MOST_EXACT and affordable else "permutation"


def _attribution(
    game: Players, estimate: Estimate, name: str, evaluated: int, ablated: np.ndarray, seed: int
) -> Attribution:
    share = measure(estimate, game.words)
    return Attribution(
        score=float(estimate.value[0]),
        tokens=tuple(game.text.tokens[position] for position in game.positions),
        spans=tuple(game.text.spans[position] for position in game.positions),
        grid=game.grid,
        phi=estimate.phi,
        base_value=estimate.base_value,
        value=estimate.value,
        t_shap=share.value,
        t_shap_se=share.standard_error,
        reason=share.reason or share.standard_error_reason,
        estimator=name,
        asked=estimate.asked,
        evaluated=evaluated,
        residual=estimate.residual,
        without_text=ablated[1:2],
        without_image=ablated[2:3],
        seed=seed,
    )


def what_is_explained(encoder: Encoder) -> str:
    """`probability` of a match where an encoder that fuses early has one, else `logit`."""
    return "probability" if encoder.probability and not encoder.late else "logit"


def explained(encoder: Encoder) -> Callable[[torch.Tensor], torch.Tensor]:
    """What is explained, as a function of the logit."""
    return torch.sigmoid if what_is_explained(encoder) == "probability" else _itself


def in_step(begun: Sequence[Estimation], values: Callable[[list[np.ndarray]], list[np.ndarray]]) -> list[Estimate]:
    """Run estimations together: what all of them ask in a round is computed at once.

    Args:
        begun: An estimation of each game, none of which has asked yet.
        values: For each game, from coalitions of shape (k, players), k possibly 0, to values of shape (k, outputs).
    """
    found: dict[int, Estimate] = {}
    asked: list[np.ndarray | None] = [next(game) for game in begun]
    nobody = [np.zeros((0, masks.shape[1]), dtype=bool) for masks in asked if masks is not None]
    while len(found) < len(begun):
        answers = values([nobody[game] if masks is None else masks for game, masks in enumerate(asked)])
        for game, running in enumerate(begun):
            if asked[game] is not None:
                try:
                    asked[game] = running.send(answers[game])
                except StopIteration as finished:
                    found[game], asked[game] = finished.value, None
    return [found[game] for game in range(len(begun))]


def _itself(logits: torch.Tensor) -> torch.Tensor:
    return logits
