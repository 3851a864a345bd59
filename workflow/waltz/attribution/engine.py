"""One game, one estimation, one record: the engine behind MM-SHAP of encoders and decoders, CC-SHAP
and `Explainer`.

`mm_shap` turns texts with an image into games, `prompt_attribution` prompts. Both estimate the
games and call `build_attributions`, which adds what belongs to Shapley values: values without a
modality, interactions, T-SHAP.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from waltz.attribution.shapley.estimate import Estimate, Estimation, estimate_in_step
from waltz.attribution.shapley.interactions import (
    compute_joint_share,
    estimate_interactions,
)
from waltz.attribution.t_shap import TShap
from waltz.core.errors import UserError
from waltz.core.text_diff import Span
from waltz.fidelity import Fidelity
from waltz.models import games
from waltz.models.games import CoalitionValues


@dataclass(frozen=True, eq=False)
class Instance:
    """Hold what one game is about: a text of an image, or a prompt with the tokens that were
    generated after it.

    Attributes:
        text: The text, or the rendered prompt with one placeholder for its image.
        ids: Token ids of the text, by position.
        tokens: Tokens of the text, by position.
        spans: Characters of the text that each token stands for, by position.
        targets: Ids of the generated tokens that are explained; empty for a text.
        query_suffix: End of the prompt that asks for the answer or explanation; empty for a text.
    """

    text: str
    ids: Sequence[int]
    tokens: Sequence[str]
    spans: Sequence[Span]
    targets: tuple[int, ...] = ()
    query_suffix: str = ""


@dataclass(frozen=True, eq=False)
class GameEstimate:
    """Hold the estimated Shapley values of one game, with T-SHAP and the cost of the estimate.

    Attributes:
        estimator: Name of the estimator that was used; for `auto`, the estimator that was chosen.
        estimate: Shapley values of shape (players, outputs).
        evaluated: Number of distinct inputs among the requested coalitions; for a factorized
            estimator, number of encoder passes that were not computed before.
        t_shap: T-SHAP of the estimate.
        interactions: Shapley interaction indices, float64 of shape (text players, image players,
            outputs), if the estimator computes them itself; else None.
    """

    estimator: str
    estimate: Estimate
    evaluated: int
    t_shap: TShap
    interactions: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Attribution:
    """Hold the Shapley values of one instance, with all that is computed next to them.

    The players are in the order of the game. The outputs are the score of a text, or the explained
    tokens of a prompt.

    Attributes:
        instance: The text, or the prompt with its generated tokens.
        tokens: Token of each text player, or pieces of the text where shap's partition explainer
            cut it.
        spans: Characters of the text that each text player stands for; empty where they are not
            known.
        text_slice: Positions of the text players among all players.
        players: The players; None where shap's partition explainer cut the text into pieces.
        estimate: Shapley values `phi`, float64 of shape (players, outputs); `base_value`, of the
            empty coalition, and `value`, of all players together, float64 of shape (outputs,).
        estimator: Name of the estimator.
        t_shap: Share of the text in the magnitude, 0 to 1, with its error; 1 without an image.
        evaluated: Number of distinct inputs among the requested coalitions, stored ones included.
        seed: Seed of the estimation.
        without_text: Value of each output where all text is masked, float64 of shape (outputs,);
            None where it was not computed.
        without_image: The same where all of the image is masked.
        interactions: Shapley interaction indices, float64 of shape (text players, image players,
            outputs); None where they were not requested.
    """

    instance: Instance
    tokens: tuple[str, ...]
    spans: tuple[Span, ...]
    text_slice: slice
    players: games.Players | None
    estimate: Estimate
    estimator: str
    t_shap: TShap
    evaluated: int
    seed: int
    without_text: np.ndarray | None = None
    without_image: np.ndarray | None = None
    interactions: np.ndarray | None = None

    @property
    def text(self) -> str:
        """Return the text, or the rendered prompt."""
        return self.instance.text

    @property
    def score(self) -> float:
        """Return the value of the first output for all players together: the score of the unmasked
        input.
        """
        return float(self.estimate.value[0])

    @property
    def text_phi(self) -> np.ndarray:
        """Return the Shapley values of the text players, float64 of shape (text players, outputs)."""
        return self.estimate.phi[self.text_slice]

    @property
    def image_phi(self) -> np.ndarray:
        """Return the Shapley values of the image players, float64 of shape (image players,
        outputs).
        """
        return np.delete(self.estimate.phi, self.text_slice, axis=0)

    @property
    def phi_text_first(self) -> np.ndarray:
        """Return the Shapley values of text players, then of image players, float64 of shape
        (players, outputs).
        """
        return np.concatenate([self.text_phi, self.image_phi])

    @property
    def joint_share(self) -> float:
        """Return the share of the first output that pairs of text and image make together; NaN
        without interactions.
        """
        if self.interactions is None:
            return float("nan")
        return compute_joint_share(self.phi_text_first[:, 0], self.interactions[..., 0])

    @property
    def grid(self) -> int:
        """Return the number of patches on a side of the grid; 0 without an image, or for other
        image regions.
        """
        return 0 if self.players is None else self.players.grid

    @property
    def token_ids(self) -> Sequence[Hashable]:
        """Return an identity for each text player, by which the players of two prompts are
        compared.

        It is the token id, a tuple of token ids for a word or span, or the piece of text for the
        partition explainer.
        """
        if self.players is None:
            return self.tokens
        ids = self.instance.ids
        if self.players.groups is None:
            return [ids[position] for position in self.players.positions]
        # A word or span has several tokens.
        ids_of_players: list[tuple[int, ...]] = []
        for positions in self.players.list_positions():
            ids_of_players.append(tuple(ids[position] for position in positions))
        return ids_of_players


def refuse_interactions(fidelity: Fidelity) -> None:
    """Refuse to compute interactions in a profile that does not define them.

    Raises:
        UserError: The profile has fixed estimators.
    """
    if fidelity.estimators:
        raise UserError(
            f"interactions: profile {fidelity.name} defines none; take profile equations"
        )


def estimate_by_coalitions(
    coalitions: CoalitionValues[Any], estimations: Mapping[int, Estimation]
) -> dict[int, Estimate]:
    """Run the estimations of some games in step, so that masked images that they share are computed
    once.

    Args:
        coalitions: All games, with their values.
        estimations: For the position of each game that is estimated, an estimation that has not
            begun.
    Returns:
        The estimate of each of these games, by position.
    """
    positions = list(estimations)

    def compute_values(requested: list[np.ndarray]) -> list[np.ndarray]:
        # A game without an estimation requests no coalition.
        masks = [
            np.zeros((0, len(players)), dtype=bool) for players in coalitions.players
        ]
        for position, requested_masks in zip(positions, requested, strict=True):
            masks[position] = requested_masks
        values = coalitions.values(masks)
        return [values[position] for position in positions]

    estimates = estimate_in_step(list(estimations.values()), compute_values)
    return dict(zip(positions, estimates, strict=True))


def build_ablation_masks(players: games.Players) -> np.ndarray:
    """Return the coalitions of all players, of the image alone and of the text alone: bool of shape
    (3, players).
    """
    # A player is visible where the mask is true.
    is_text = np.zeros(len(players), dtype=bool)
    is_text[players.text] = True
    return np.array([np.ones_like(is_text), ~is_text, is_text])


def compute_ablated_values(coalitions: CoalitionValues[Any]) -> list[np.ndarray]:
    """Compute the values of each game unmasked, without its text and without its image (thesis
    4.4.5).

    All three inputs are coalitions of MM-SHAP's game, so that values which the estimator has
    requested are not computed again. Each text and each patch grid is encoded at most twice:
    unmasked and masked.

    Returns:
        For each game, float64 of shape (3, outputs).
    """
    return coalitions.values(
        [build_ablation_masks(players) for players in coalitions.players]
    )


def compute_interactions(
    coalitions: CoalitionValues[Any], evaluations: int | None, seed: int
) -> list[np.ndarray]:
    """Compute the Shapley interaction indices of text players with image players from further
    coalitions.

    Args:
        evaluations: Maximum number of coalitions of each game; None takes as many as permutations
            do.
        seed: Seed of the coalitions.
    Returns:
        For each game, float64 of shape (text players, image players, outputs).
    """
    counts = [len(players) for players in coalitions.players]
    pairs_of_games = estimate_interactions(
        coalitions.values, counts, [evaluations] * len(counts), seed
    )
    # Of all pairs of players, only the pairs of a text player with an image player are kept.
    return [
        pairs[players.text, players.image]
        for players, pairs in zip(coalitions.players, pairs_of_games, strict=True)
    ]


@dataclass(frozen=True)
class Additions:
    """Select what is computed next to the Shapley values.

    Attributes:
        seed: Seed of the estimation, and of the coalitions of interactions.
        evaluations: Maximum number of coalitions for the interactions of a game; None takes as many
            as permutations do.
        ablations: Whether values without the text and without the image are computed.
        interactions: Whether interactions of text players with image players are computed.
    """

    seed: int
    evaluations: int | None
    ablations: bool
    interactions: bool


def build_attributions(
    coalitions: CoalitionValues[Any],
    instances: Sequence[Instance],
    estimates: Sequence[GameEstimate],
    additions: Additions,
    check_contrast: Callable[[TShap, Any], TShap],
) -> list[Attribution]:
    """Return the record of each game, with values without a modality and interactions where they
    are requested.

    Args:
        coalitions: The games, with the values that their estimators requested.
        instances: What each game is about.
        estimates: The estimate of each game.
        check_contrast: Function of T-SHAP and the players that returns T-SHAP, or NaN where masking
            changes nothing.
    """
    # Some of these coalitions are known by now: every estimator requests the coalition of all
    # players, and a permutation may pass through the coalition of one modality.
    ablated: list[np.ndarray] | None = None
    if additions.ablations:
        ablated = compute_ablated_values(coalitions)
    # Factorized estimators give interactions themselves; other games need further coalitions.
    interactions = [result.interactions for result in estimates]
    if additions.interactions and any(pairs is None for pairs in interactions):
        interactions = list(
            compute_interactions(coalitions, additions.evaluations, additions.seed)
        )

    attributions = []
    for position, (players, instance, result) in enumerate(
        zip(coalitions.players, instances, estimates, strict=True)
    ):
        tokens, spans = players.label_text(instance.tokens, instance.spans)
        without_text = without_image = None
        if ablated is not None:
            _, without_text, without_image = ablated[position]
        attributions.append(
            Attribution(
                instance=instance,
                tokens=tokens,
                spans=spans,
                text_slice=players.text,
                players=players,
                estimate=result.estimate,
                estimator=result.estimator,
                t_shap=check_contrast(result.t_shap, players),
                evaluated=result.evaluated,
                seed=additions.seed,
                without_text=without_text,
                without_image=without_image,
                interactions=interactions[position],
            )
        )
    return attributions
