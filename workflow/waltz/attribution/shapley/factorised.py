"""Shapley values of late fusion: image and text are encoded alone, each over its own subsets or orders (`bilinear`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from waltz.attribution.shapley.bilinear import (
    Side,
    Vectors,
    average_orders_within,
    compute_parts,
    compute_shapley_values,
    compute_sides_error,
)
from waltz.attribution.shapley.estimate import Estimate
from waltz.attribution.shapley.exact import MAX_PLAYERS
from waltz.models.encoders.coalitions import cut_evenly, join_states
from waltz.models.encoders.encoder import Encoder, LateEncoder, States
from waltz.models.encoders.players import Players
from waltz.models.memory import run_in_halves


@dataclass(frozen=True, eq=False)
class FactorisedEstimate:
    """Shapley values of a late-fusion game.

    Attributes:
        estimate: The values; `requested` counts encoder passes, an image side that texts share for each of them.
        passes: Encoder passes that were new with this text.
        t_shap_se: Standard error of T-SHAP, a share: 0 where exact, NaN where a sampled side has one pair of orders.
    """

    estimate: Estimate
    passes: int
    t_shap_se: float


def choose_estimator(encoder: Encoder, players: Players, budget: int) -> str:
    """Return the estimator that a budget allows: exact-factorised, exact, factorised-permutation or permutation.

    Args:
        encoder: The model.
        players: The game's players.
        budget: Encoder passes for late fusion, else coalitions.
    """
    words, patches = _find_free_players(players)
    if encoder.late and 2 ** len(words) + 2 ** len(patches) <= budget:
        return "exact-factorised"
    free = len(words) + len(patches)
    if free <= MAX_PLAYERS and 2**free <= budget:
        return "exact"
    return "factorised-permutation" if encoder.late else "permutation"


def compute_exact_factorised(
    encoder: LateEncoder, image: torch.Tensor, games: Sequence[Players]
) -> list[FactorisedEstimate]:
    """Return the exact Shapley values of each text; texts with one grid share an image side.

    Args:
        encoder: A model of late fusion.
        image: What `encoder.prepare_image` made.
        games: Players of each text with this image.
    """
    return _compute_estimates(encoder, image, games, None, 0)


def compute_factorised_permutations(
    encoder: LateEncoder, image: torch.Tensor, games: Sequence[Players], budget: int, seed: int
) -> list[FactorisedEstimate]:
    """Return unbiased Shapley values of each text from sampled orders of patches, and of tokens where these are many.

    All subsets of one side are taken where they need no more than half of the budget, and the other side has the rest;
    else both sides have as many orders. A sampled side has at least one order and its reverse, whatever the budget.

    Args:
        encoder: A model of late fusion.
        image: What `encoder.prepare_image` made.
        games: Players of each text with this image.
        budget: Most encoder passes for one text, those of its image included.
        seed: Seed of the orders; those of the patches are the same for all texts.
    """
    return _compute_estimates(encoder, image, games, budget, seed)


def _split_budget(words: int, patches: int, budget: int) -> tuple[int, int]:
    """Return the encoder passes for tokens and for patches."""
    if 2**words + 2**patches <= budget:
        return 2**words, 2**patches
    if 2**words <= budget // 2:
        return 2**words, budget - 2**words
    if 2**patches <= budget // 2:
        return budget - 2**patches, 2**patches
    pairs = (budget - 4) // (2 * (words + patches - 2))  # as many of either side
    return 2 + 2 * (words - 1) * pairs, 2 + 2 * (patches - 1) * pairs


@torch.inference_mode()
def _compute_estimates(
    encoder: LateEncoder, image: torch.Tensor, games: Sequence[Players], budget: int | None, seed: int
) -> list[FactorisedEstimate]:
    """Return the values of each text; no budget means all orders."""
    estimates = []
    image_sides: dict[tuple[int, int], Side] = {}
    for game in games:
        words, patches = (len(free) for free in _find_free_players(game))
        for_words, for_patches = (2**words, 2**patches) if budget is None else _split_budget(words, patches, budget)
        text = average_orders_within(_build_text_vectors(encoder, game), words, for_words, (seed, 0))
        has_side = (game.grid, for_patches) in image_sides
        if not has_side:
            image_sides[game.grid, for_patches] = average_orders_within(
                _build_image_vectors(encoder, image, game), patches, for_patches, (seed, 1)
            )
        side = image_sides[game.grid, for_patches]
        estimate, error = _combine_sides(encoder, game, text, side)
        estimates.append(FactorisedEstimate(estimate, text.passes + (0 if has_side else side.passes), error))
    return estimates


def _combine_sides(encoder: LateEncoder, game: Players, text: Side, image: Side) -> tuple[Estimate, float]:
    """Return the values of all players, and the standard error of T-SHAP."""
    free = np.concatenate([part + start for part, start in zip(_find_free_players(game), (0, game.words), strict=True)])
    phi, sampled = np.zeros(len(game)), []
    phi[free] = encoder.scale * np.concatenate(compute_shapley_values(text, image))
    for single in compute_parts(text, image):
        sampled.append(np.zeros((len(single), len(game))))
        sampled[-1][:, free] = encoder.scale * single
    ends = [np.array([encoder.scale * float(text.means[end] @ image.means[end]) + encoder.bias]) for end in (0, -1)]
    return (
        Estimate(
            phi=phi[:, None],
            base_value=ends[0],
            value=ends[1],
            requested=text.passes + image.passes,
            parts=sampled[0][:, :, None] if len(sampled) == 1 else None,
            exact=not sampled,
        ),
        compute_sides_error(sampled, game.words),
    )


def _find_free_players(game: Players) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the tokens and of the patches that coalitions change."""
    return np.flatnonzero(~game.always_visible[: game.words]), np.flatnonzero(~game.always_visible[game.words :])


def _build_text_vectors(encoder: LateEncoder, game: Players) -> Vectors:
    free, _ = _find_free_players(game)

    def vectors(masks: np.ndarray) -> np.ndarray:
        ids = game.mask_text(_place_masks(masks, free, game.words))
        return _compute_in_batches(
            lambda first, last: encoder.encode_text(ids[first:last].to(encoder.device)),
            len(masks),
            encoder.texts_per_batch,
        )

    return vectors


def _build_image_vectors(encoder: LateEncoder, image: torch.Tensor, game: Players) -> Vectors:
    _, free = _find_free_players(game)

    def vectors(masks: np.ndarray) -> np.ndarray:
        placed = _place_masks(masks, free, game.patches)
        return _compute_in_batches(
            lambda first, last: encoder.encode_image(game.mask_image(image, placed[first:last])),
            len(masks),
            encoder.images_per_batch,
        )

    return vectors


def _place_masks(masks: np.ndarray, free: np.ndarray, players: int) -> np.ndarray:
    """Return masks of the maskable players as masks of all."""
    placed = np.ones((len(masks), players), dtype=bool)
    placed[:, free] = masks
    return placed


def _compute_in_batches(compute: Callable[[int, int], States], size: int, batch: int) -> np.ndarray:
    """Return one vector for each row, computed batch by batch, as float64."""
    vectors = []
    for rows in cut_evenly(range(size), batch):
        states = run_in_halves(partial(_compute_from, compute, rows[0]), len(rows), join_states)
        vectors.append(states[0].double().cpu().numpy())
    return np.concatenate(vectors)


def _compute_from(compute: Callable[[int, int], States], start: int, first: int, last: int) -> States:
    return compute(start + first, start + last)
