"""MM-SHAP of a decoder's answers: what tokens of the prompt and patches contribute to what it says (thesis 4.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from waltz.attribution.prompt_games import estimation_of, published_players
from waltz.attribution.ratios import Profile
from waltz.attribution.settings import Settings
from waltz.attribution.shapley.estimate import Estimate, run_in_step
from waltz.attribution.t_shap import TShap, measure_outputs
from waltz.core.text_diff import Span
from waltz.models.decoders import players
from waltz.models.decoders.coalitions import Coalitions, Game
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt
from waltz.models.decoders.outcomes import FIRST_STEP
from waltz.models.decoders.players import Players

LOG_PROBABILITY = "log-probability"
"""What is explained of a token in `equations` unless a study says otherwise."""


@dataclass(frozen=True, eq=False)
class Said:
    """A prompt and what is said after it.

    Attributes:
        prompt: The prompt.
        targets: Token ids, each an output that is explained.
    """

    prompt: Prompt
    targets: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Contributed:
    """What the players of a prompt contribute to what is said after it.

    Attributes:
        players: Who plays.
        estimate: Shapley values of shape (players, outputs), players in the order of `players`.
        estimator: Name of the estimator.
        t_shap: Share of the text.
        evaluated: Distinct inputs among the coalitions that were asked.
        without_text: Value of each output where all text is masked, float64 of shape (outputs,).
        without_image: Value where all patches are.
    """

    players: Players
    estimate: Estimate
    estimator: str
    t_shap: TShap
    evaluated: int
    without_text: np.ndarray
    without_image: np.ndarray


def contributed(
    decoder: Decoder,
    picture: PreparedImage,
    said: Sequence[Said],
    settings: Settings,
    value: str = LOG_PROBABILITY,
    known: Sequence[dict[bytes, np.ndarray]] | None = None,
) -> list[Contributed]:
    """Shapley values of prompts that show one image, for the tokens said after each.

    Games whose patches are the same share masked images.

    Args:
        decoder: A loaded decoder.
        picture: What `decoder.image` made of the image.
        said: Prompts with what is said after them.
        settings: How Shapley values are estimated. In `equations` all tokens play that are not special; `published`
            follows the released scripts for models that see, which explain logits of the first step.
        value: For `equations`, what is explained of a token: one of `outcomes.VALUES`.
        known: For each prompt, values of coalitions by what is left visible; new ones are added.
    Raises:
        UserError: A prompt is longer than the model reads, or the evaluations do not do for one permutation.
    Source:
        Thesis 4.3; CC-SHAP-VLM's released scripts (`published`).
    """
    profile: Profile = "published" if settings.profile == "published" else "equations"
    make, of = (players.build_equations_players, value) if profile == "equations" else (published_players, FIRST_STEP)
    games = [Game(make(decoder, one.prompt, picture), one.targets, of) for one in said]
    table = Coalitions(decoder, picture, games)
    for before, stored in zip(table.known, known or [{} for _ in games], strict=True):
        before.update(stored)
    distinct: list[set[bytes]] = [set() for _ in games]

    def values(asked: list[np.ndarray]) -> list[np.ndarray]:
        for found, game, masks in zip(distinct, games, asked, strict=True):
            found.update(row.tobytes() for row in masks | game.players.always_visible)
        return table.values(asked)

    begun = [estimation_of(game.players, settings) for game in games]
    estimates = run_in_step([estimation for _, estimation in begun], values)
    halves = table.values([_halves(game.players) for game in games])
    for after, stored in zip(table.known, known or [], strict=known is not None):
        stored.update(after)
    return [
        Contributed(
            game.players,
            estimate,
            name,
            measure_outputs(estimate, game.players.text, profile),
            len(inputs),
            *half,
        )
        for game, estimate, (name, _), inputs, half in zip(games, estimates, begun, distinct, halves, strict=True)
    ]


def fields(
    estimate: Estimate,
    text: slice,
    share: TShap,
    *,
    tokens: Sequence[str],
    spans: Sequence[Span],
    grid: int,
    outputs: Sequence[str],
    estimator: str,
    seed: int,
) -> dict[str, Any]:
    """Columns of the attribution layout: text players first, whatever their places; NaN becomes null.

    Args:
        estimate: Shapley values.
        text: Places of the text players, which stand before or behind all patches.
        share: T-SHAP.
        tokens: Tokens of the text players.
        spans: Characters of the prompt that they stand for.
        grid: Patches a side.
        outputs: What is said, by tokens.
        estimator: Name of the estimator.
        seed: Its seed.
    """
    image = np.delete(estimate.phi, text, axis=0)
    return {
        "outputs": list(outputs),
        "score": float(estimate.value[0]) if len(estimate.value) == 1 else None,
        "tokens": list(tokens),
        "spans": [dict(span) for span in spans],
        "grid": grid,
        "phi": np.concatenate([estimate.phi[text], image]).tolist(),
        "base_value": estimate.base_value.tolist(),
        "value": estimate.value.tolist(),
        "t_shap": _or_null(share.value),
        "t_shap_se": _or_null(share.standard_error),
        "reason": share.reason or share.standard_error_reason,
        "estimator": estimator,
        "asked": estimate.asked,
        "residual": estimate.residual,
        "seed": seed,
    }


def of_players(played: Players) -> Mapping[str, Any]:
    """The text players' tokens and spans and the grid, as `fields` takes them."""
    return {
        "tokens": [played.prompt.tokens[place] for place in played.positions],
        "spans": [played.prompt.spans[place] for place in played.positions],
        "grid": played.grid,
    }


def _halves(played: Players) -> np.ndarray:
    """The patches alone and the text alone."""
    masks = np.zeros((2, len(played)), dtype=bool)
    masks[0, played.image] = True
    masks[1, played.text] = True
    return masks


def _or_null(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
