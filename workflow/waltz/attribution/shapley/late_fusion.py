"""Shapley values of late fusion: image and text are encoded alone, each over its own subsets or orders.

Let v(S ∪ U) = scale · ⟨f(S), g(U)⟩ + bias for patches S and tokens U. In a random order of all n = a + b players, the
order of the a patches, that of the b tokens and how both interleave are independent. The patch that comes after s
patches has u tokens before it with probability

    P(s, u) = C(s + u, u) C(a − s − 1 + b − u, b − u) / C(a + b, b),

so its Shapley value is Σ P(s, u) ⟨gain of f at s, mean of g after u⟩, and that of a token the same with both sides
exchanged. Over all orders this is Σ w(s + u) ⟨D, G⟩ with w(k) = k! (n − k − 1)! / n! and sums D and G over subsets,
from 2^a + 2^b encoder passes instead of 2^(a + b). Over sampled orders each order of patches meets each order of
tokens, in all their interleavings, without another pass. A player that is never masked changes no value and is skipped.
The second difference of v for a patch and a token is ⟨gain of f at s, gain of g at u⟩, whose weight depends on s + u
alone, so that interactions need no other pass either.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from waltz.attribution.shapley.estimate import Estimate
from waltz.attribution.shapley.estimators import MAX_EXACT_PLAYERS
from waltz.attribution.t_shap import compute_t_shap_error
from waltz.models.batches import ProgressCallback, ignore_progress, run_in_halves
from waltz.models.encoders.coalitions import Players, cut_evenly, join_states
from waltz.models.encoders.encoder import Encoder, LateEncoder, States

Vectors = Callable[[np.ndarray], np.ndarray]
"""From masks of one side's maskable players, bool (k, players), to float64 vectors (k, width)."""


@dataclass(frozen=True, eq=False)
class Side:
    """The vectors of one side, over all or sampled orders of its maskable players.

    Attributes:
        gains: Mean over orders of what the player at a position adds, float64 (players, positions, width): zero in the
            orders where another player stands there.
        means: Mean vector of the first s players, float64 (players + 1, width).
        passes: Encoder passes.
        orders: Sampled orders, each with its reverse, (pairs, 2, players); None where all orders count.
        prefixes: Vectors along them, float64 (pairs, 2, players + 1, width).
    """

    gains: np.ndarray
    means: np.ndarray
    passes: int
    orders: np.ndarray | None = None
    prefixes: np.ndarray | None = None


def average_all_orders(vectors: Vectors, players: int, batch: int = 4096) -> Side:
    """Return a side over all subsets of its players, whose vectors are summed batch by batch."""
    inside: np.ndarray = np.zeros(())
    total: np.ndarray = np.zeros(())
    for first in range(0, 2**players, batch):
        numbers = np.arange(first, min(first + batch, 2**players))
        masks = (numbers[:, None] >> np.arange(players)) & 1 == 1
        of_size = np.eye(players + 1)[masks.sum(axis=1)]
        batch_vectors = vectors(masks)
        total = total + of_size.T @ batch_vectors
        inside = inside + np.array([(of_size * masks[:, [player]]).T @ batch_vectors for player in range(players)])
    sizes = np.array([math.comb(players, size) for size in range(players + 1)], dtype=np.float64)
    means = total / sizes[:, None]
    if not players:
        return Side(np.zeros((0, 0, means.shape[1])), means, 1)
    contributions = inside[:, 1:] - (total[None, :-1] - inside[:, :-1])
    times = np.array([players * math.comb(players - 1, size) for size in range(players)], dtype=np.float64)
    return Side(contributions / times[:, None], means, 2**players)


def average_sampled_orders(vectors: Vectors, players: int, pairs: int, seed: Sequence[int]) -> Side:
    """Return a side over sampled orders of its players, each with its reverse."""
    generator = np.random.default_rng(seed)
    one_way = np.stack([generator.permutation(players) for _ in range(pairs)])
    orders = np.stack([one_way, one_way[:, ::-1]], axis=1)
    ranks = orders.argsort(axis=-1)
    masks = ranks[:, :, None, :] < np.arange(players + 1)[:, None]
    distinct, rows = np.unique(masks.reshape(-1, players), axis=0, return_inverse=True)
    prefixes = vectors(distinct)[rows.reshape(-1)].reshape(pairs, 2, players + 1, -1)
    contributions = np.diff(prefixes, axis=2)
    gains = np.zeros((players, players, contributions.shape[-1]))
    np.add.at(gains, (orders, np.arange(players)), contributions / (2 * pairs))
    return Side(gains, prefixes.mean(axis=(0, 1)), len(distinct), orders, prefixes)


def average_orders_within(vectors: Vectors, players: int, passes: int, seed: Sequence[int]) -> Side:
    """Return a side over all orders where the passes suffice, else over as many pairs of orders as they allow."""
    if players < 2 or 2**players <= passes:
        return average_all_orders(vectors, players)
    return average_sampled_orders(vectors, players, max(1, (passes - 2) // (2 * (players - 1))), seed)


def compute_interleaving(own: int, others: int) -> np.ndarray:
    """Return the probability that the player after s of its own side has u of the other side before it.

    Args:
        own: Players of its own side.
        others: Players of the other side.
    Returns:
        float64 of shape (own, others + 1), whose rows sum to 1.
    """
    ways = math.comb(own + others, others)
    return np.array(
        [
            [math.comb(s + u, u) * math.comb(own - s - 1 + others - u, others - u) / ways for u in range(others + 1)]
            for s in range(own)
        ]
    ).reshape(own, others + 1)


def compute_shapley_values(text: Side, image: Side) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of maskable tokens and patches where v is the dot product of both sides."""
    return _compute_values(text.gains, image.means), _compute_values(image.gains, text.means)


def compute_cross_interactions(text: Side, image: Side) -> np.ndarray:
    """Return the Shapley interaction index of each maskable token with each patch, where v is the dot product.

    The index of two players averages the second difference of v over all sizes of a coalition without them, and over
    all coalitions of a size. For a token, which comes after u others, and a patch, which comes after s others, that is
    Σ P(s, u) ⟨gain of f at s, gain of g at u⟩, with

        P(s, u) = C(a − 1, s) C(b − 1, u) / ((n − 1) C(n − 2, s + u)).

    It is exact where both sides are over all orders, and unbiased where one is sampled or both are.

    Returns:
        float64 of shape (tokens, patches).
    Source:
        Grabisch and Roubens (1999), of order 2.
    """
    tokens, patches = len(text.gains), len(image.gains)
    if not tokens or not patches:
        return np.zeros((tokens, patches))
    sizes = tokens + patches - 2
    weights = np.array(
        [
            [
                tokens * math.comb(tokens - 1, u) * patches * math.comb(patches - 1, s)
                / ((sizes + 1) * math.comb(sizes, s + u))
                for u in range(tokens)
            ]
            for s in range(patches)
        ]
    )  # fmt: skip
    meets = np.einsum("su,jsd->jud", weights, image.gains)
    pairs: np.ndarray = np.tensordot(text.gains, meets, axes=([1, 2], [1, 2]))
    return pairs


def compute_parts(text: Side, image: Side) -> list[np.ndarray]:
    """Return for each sampled side the values from single pairs with all of the other: (pairs, tokens + patches)."""
    parts = []
    for side, other_side, text_first in ((text, image, True), (image, text, False)):
        if side.orders is None or side.prefixes is None:
            continue
        players = side.orders.shape[-1]
        meets = compute_interleaving(players, len(other_side.means) - 1) @ other_side.means
        dots = np.einsum("pksd,sd->pks", np.diff(side.prefixes, axis=2), meets)
        own = np.take_along_axis(dots, side.orders.argsort(axis=-1), axis=-1).mean(axis=1)
        before = compute_interleaving(len(other_side.gains), players)
        gains = np.einsum("jud,us->jsd", other_side.gains, before)
        theirs = np.einsum("jsd,psd->pj", gains, side.prefixes.mean(axis=1))
        parts.append(np.concatenate([own, theirs] if text_first else [theirs, own], axis=1))
    return parts


def compute_sides_error(sides: Sequence[np.ndarray], words: int) -> float:
    """Return the standard error of T-SHAP by the jackknife: each side's pairs of orders are omitted in turn.

    Args:
        sides: For each sampled side, the estimates of single pairs, shape (pairs, players).
    Returns:
        The root of the sum of both sides' variances, which counts what they have in common twice; NaN where a side has
        a single pair.
    """
    if any(len(single) < 2 for single in sides):
        return math.nan
    return math.hypot(*(compute_t_shap_error(single[:, :, None], words) for single in sides))


def _compute_values(gains: np.ndarray, means: np.ndarray) -> np.ndarray:
    meets = compute_interleaving(len(gains), len(means) - 1) @ means
    values: np.ndarray = np.einsum("isd,sd->i", gains, meets)
    return values


@dataclass(frozen=True, eq=False)
class FactorisedEstimate:
    """Shapley values of a late-fusion game.

    Attributes:
        estimate: The values; `requested` counts encoder passes, an image side that texts share for each of them.
        passes: Encoder passes that were new with this text.
        t_shap_se: Standard error of T-SHAP, a share: 0 where exact, NaN where a sampled side has one pair of orders.
        interactions: See `compute_cross_interactions`; None where they were not requested.
    """

    estimate: Estimate
    passes: int
    t_shap_se: float
    interactions: np.ndarray | None = None


def choose_estimator(encoder: Encoder, players: Players, budget: int) -> str:
    """Return the estimator that a budget allows: exact-factorised, exact, factorised-permutation or permutation.

    Args:
        budget: Encoder passes for late fusion, else coalitions.
    """
    words, patches = _find_free_players(players)
    if encoder.late and 2 ** len(words) + 2 ** len(patches) <= budget:
        return "exact-factorised"
    free = len(words) + len(patches)
    if free <= MAX_EXACT_PLAYERS and 2**free <= budget:
        return "exact"
    return "factorised-permutation" if encoder.late else "permutation"


@torch.inference_mode()
def compute_factorised(
    encoder: LateEncoder,
    image: torch.Tensor,
    games: Sequence[Players],
    budget: int | None = None,
    seed: int = 0,
    interactions: bool = False,
    progress: ProgressCallback = ignore_progress,
) -> list[FactorisedEstimate]:
    """Return the Shapley values of each text: exact, or unbiased from sampled orders of patches and tokens.

    With a budget, all subsets of one side are taken where they need no more than half of it, and the other side has the
    rest; else both sides have as many orders. A sampled side has at least one order and its reverse, whatever the
    budget. Texts with one grid share an image side.

    Args:
        image: Result of `encoder.prepare_image`.
        games: Players of each text with this image.
        budget: Most encoder passes for one text, those of its image included; None takes all orders.
        seed: Seed of the orders; those of the patches are the same for all texts.
        interactions: Whether interactions of tokens with patches are computed too, without another pass.
        progress: Called with the number of passes that are done.
    """
    estimates = []
    image_sides: dict[tuple[int, int], Side] = {}
    for game in games:
        words, patches = (len(free) for free in _find_free_players(game))
        for_words, for_patches = (2**words, 2**patches) if budget is None else _split_budget(words, patches, budget)
        text = average_orders_within(build_text_vectors(encoder, game, progress), words, for_words, (seed, 0))
        passes = text.passes
        if (game.grid, for_patches) not in image_sides:
            vectors = build_image_vectors(encoder, image, game, progress)
            side = average_orders_within(vectors, patches, for_patches, (seed, 1))
            image_sides[game.grid, for_patches] = side
            passes += side.passes
        image_side = image_sides[game.grid, for_patches]
        estimate, error = _combine_sides(encoder, game, text, image_side)
        pairs = None
        if interactions:
            pairs = np.zeros((game.words, game.patches))
            pairs[np.ix_(*_find_free_players(game))] = encoder.scale * compute_cross_interactions(text, image_side)
        estimates.append(FactorisedEstimate(estimate, passes, error, pairs))
    return estimates


def _split_budget(words: int, patches: int, budget: int) -> tuple[int, int]:
    """Return the encoder passes for tokens and for patches."""
    if 2**words + 2**patches <= budget:
        return 2**words, 2**patches
    if 2**words <= budget // 2:
        return 2**words, budget - 2**words
    if 2**patches <= budget // 2:
        return budget - 2**patches, 2**patches
    pairs = (budget - 4) // max(1, 2 * (words + patches - 2))  # as many of either side
    return 2 + 2 * (words - 1) * pairs, 2 + 2 * (patches - 1) * pairs


def _combine_sides(encoder: LateEncoder, game: Players, text: Side, image: Side) -> tuple[Estimate, float]:
    """Return the values of all players, and the standard error of T-SHAP."""
    words, patches = _find_free_players(game)
    free = np.concatenate([words, patches + game.words])
    phi = np.zeros(len(game))
    phi[free] = encoder.scale * np.concatenate(compute_shapley_values(text, image))
    sampled = []
    for single in compute_parts(text, image):
        sampled.append(np.zeros((len(single), len(game))))
        sampled[-1][:, free] = encoder.scale * single
    ends = [np.array([encoder.scale * float(text.means[end] @ image.means[end]) + encoder.bias]) for end in (0, -1)]
    estimate = Estimate(
        phi=phi[:, None],
        base_value=ends[0],
        value=ends[1],
        requested=text.passes + image.passes,
        parts=sampled[0][:, :, None] if len(sampled) == 1 else None,
        exact=not sampled,
    )
    return estimate, compute_sides_error(sampled, game.words)


def _find_free_players(game: Players) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the tokens and of the patches that coalitions change."""
    return np.flatnonzero(~game.always_visible[: game.words]), np.flatnonzero(~game.always_visible[game.words :])


def build_text_vectors(encoder: LateEncoder, game: Players, progress: ProgressCallback = ignore_progress) -> Vectors:
    """Return the function from masks of a game's maskable tokens to text vectors."""
    free, _ = _find_free_players(game)

    def compute_vectors(masks: np.ndarray) -> np.ndarray:
        ids = game.mask_text(_place_masks(masks, free, game.words))

        def encode(first: int, last: int) -> States:
            return encoder.encode_text(ids[first:last].to(encoder.device))

        return _compute_in_batches(encode, len(masks), encoder.texts_per_batch, progress)

    return compute_vectors


def build_image_vectors(
    encoder: LateEncoder, image: torch.Tensor, game: Players, progress: ProgressCallback = ignore_progress
) -> Vectors:
    """Return the function from masks of a game's maskable patches to vectors of the prepared image."""
    _, free = _find_free_players(game)

    def compute_vectors(masks: np.ndarray) -> np.ndarray:
        placed = _place_masks(masks, free, game.patches)

        def encode(first: int, last: int) -> States:
            return encoder.encode_image(game.mask_image(image, placed[first:last]))

        return _compute_in_batches(encode, len(masks), encoder.images_per_batch, progress)

    return compute_vectors


def _place_masks(masks: np.ndarray, free: np.ndarray, players: int) -> np.ndarray:
    """Return masks of the maskable players as masks of all."""
    placed = np.ones((len(masks), players), dtype=bool)
    placed[:, free] = masks
    return placed


def _compute_in_batches(
    encode: Callable[[int, int], States], size: int, batch: int, progress: ProgressCallback
) -> np.ndarray:
    """Return one vector for each row, computed batch by batch, as float64."""
    vectors = []
    for rows in cut_evenly(range(size), batch):

        def encode_rows(first: int, last: int, start: int = rows[0]) -> States:
            return encode(start + first, start + last)

        states = run_in_halves(encode_rows, len(rows), join_states)
        vectors.append(states[0].double().cpu().numpy())
        progress(len(rows))
    return np.concatenate(vectors)
