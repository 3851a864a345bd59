"""Shapley values of late fusion: image and text are encoded alone, each over all or some of its own subsets.

Let v(S ∪ U) = scale · ⟨f(S), g(U)⟩ + bias for patches S and tokens U. In a random order of all n = a + b players, the
order of the a patches, that of the b tokens and how both interleave are independent. The patch that comes after s
patches has u tokens before it with probability

    P(s, u) = C(s + u, u) C(a − s − 1 + b − u, b − u) / C(a + b, b),

so its Shapley value is Σ P(s, u) ⟨gain of f at s, mean of g after u⟩, and that of a token the same with both sides
exchanged. Over all orders this is Σ w(s + u) ⟨D, G⟩ with w(k) = k! (n − k − 1)! / n! and sums D and G over subsets,
from 2^a + 2^b encoder passes instead of 2^(a + b). With fewer, the vectors of each side are predicted by a regression
on some of its subsets (`regression`), whose means take the place of those over all subsets. A player that is never
masked changes no value and is skipped.
The second difference of v for a patch and a token is ⟨gain of f at s, gain of g at u⟩, whose weight depends on s + u
alone, so that interactions need no other pass either.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from waltz.attribution.shapley.estimate import MIN_PARTS, Estimate
from waltz.attribution.shapley.estimators import MAX_EXACT_PLAYERS, choose_sampler
from waltz.attribution.shapley.regression import (
    GROWTH,
    MAX_COALITIONS,
    Fit,
    count_fixed_subsets,
    draw_subsets,
    fit_subsets,
)
from waltz.attribution.t_shap import compute_t_shap_error
from waltz.models.batches import ProgressCallback, ignore_progress, run_in_halves
from waltz.models.encoders.coalitions import Players, cut_evenly, join_states
from waltz.models.encoders.encoder import Encoder, LateEncoder, States
from waltz.models.games import split_rows

Vectors = Callable[[np.ndarray], np.ndarray]
"""From masks of one side's maskable players, bool (k, players), to float64 vectors (k, width)."""


@dataclass(frozen=True, eq=False)
class Side:
    """The vectors of one side, averaged over all orders of its maskable players.

    Attributes:
        gains: Mean over orders of what the player at a position adds, float64 (players, positions, width): zero in the
            orders where another player stands there.
        means: Mean vector of the first s players, float64 (players + 1, width).
        passes: Encoder passes.
        fit: The regression that both come from; None where all subsets are known.
    """

    gains: np.ndarray
    means: np.ndarray
    passes: int
    fit: Fit | None = None


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


def average_some_orders(vectors: Vectors, players: int, passes: int, seed: Sequence[int]) -> Side:
    """Return a side from a regression on some subsets of its players, at least those that every regression needs."""
    masks = draw_subsets(players, passes, seed)
    fit = fit_subsets(masks, vectors(masks))
    return Side(fit.gains, fit.means, len(masks), fit)


def average_orders_within(vectors: Vectors, players: int, passes: int, seed: Sequence[int]) -> Side:
    """Return a side from all subsets where the passes suffice, else from as many as they allow."""
    if 2**players <= max(passes, count_fixed_subsets(players)):
        return average_all_orders(vectors, players)
    return average_some_orders(vectors, players, passes, seed)


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

    It is exact where all subsets of both sides are known.

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
    """Return for each side with a regression the values by each of its random pairs: (pairs, tokens + patches).

    The pair is left out of the regression, and what it misses then is added (see `regression.Fit`).
    """
    parts = []
    for side, other_side, text_first in ((text, image, True), (image, text, False)):
        if side.fit is None:
            continue
        fit, players, others = side.fit, len(side.gains), len(other_side.gains)
        meets = compute_interleaving(players, others) @ other_side.means
        own = np.einsum("phis,phs->pi", fit.gain_changes, fit.residuals @ meets.T)
        gains = np.einsum("jud,us->jsd", other_side.gains, compute_interleaving(others, players))
        theirs = np.einsum("phs,phjs->pj", fit.mean_changes, np.einsum("phd,jsd->phjs", fit.residuals, gains))
        values = compute_shapley_values(text, image)
        changes = [own, theirs] if text_first else [theirs, own]
        parts.append(np.concatenate(values) + np.concatenate(changes, axis=1))
    return parts


def compute_sides_error(sides: Sequence[np.ndarray], phi: np.ndarray, words: int) -> float:
    """Return the standard error of T-SHAP by the jackknife: each side's random pairs are omitted in turn.

    Args:
        sides: For each side with a regression, the estimates of single pairs, shape (pairs, players).
        phi: The values by the regressions, shape (players,).
    Returns:
        The root of the sum of both sides' squares; NaN where a side has less than two pairs.
    """
    if any(len(single) < 2 for single in sides):
        return math.nan
    return math.hypot(*(compute_t_shap_error(single[:, :, None], words, phi[:, None]) for single in sides))


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
        t_shap_se: Standard error of T-SHAP, a share: 0 where exact, NaN where a regression has less than two random
            pairs.
        parts: Random pairs behind it, of the side that has fewer; infinite where exact.
        interactions: See `compute_cross_interactions`; None where they were not requested.
    """

    estimate: Estimate
    passes: int
    t_shap_se: float
    parts: float
    interactions: np.ndarray | None = None


def choose_estimator(encoder: Encoder, players: Players, budget: int, standard_error: float | None = None) -> str:
    """Return the estimator that a budget allows: of exact values, else a regression, else permutations.

    Args:
        budget: Encoder passes for late fusion, else coalitions.
        standard_error: Standard error of T-SHAP to reach, or None.
    """
    words, patches = (len(free) for free in _find_free_players(players))
    free = words + patches
    if standard_error is None and encoder.late and 2**words + 2**patches <= budget:
        return "exact-factorised"
    if standard_error is None and free <= MAX_EXACT_PLAYERS and 2**free <= budget:
        return "exact"
    least = count_fixed_subsets(words) + count_fixed_subsets(patches)
    if encoder.late and (least <= budget or budget < 2 * len(players) + 1):  # permutations need less, but not much
        return "factorised-regression"
    return choose_sampler(free, len(players), budget)


class _CachedVectors:
    """Vectors of subsets, each computed once."""

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = vectors
        self.known: dict[bytes, np.ndarray] = {}

    def __call__(self, masks: np.ndarray) -> np.ndarray:
        keys = split_rows(masks)
        new = [place for place, key in enumerate(keys) if key not in self.known]
        if new:
            self.known.update(zip([keys[place] for place in new], self.vectors(masks[new]), strict=True))
        return np.array([self.known[key] for key in keys])


@torch.inference_mode()
def compute_factorised(
    encoder: LateEncoder,
    image: torch.Tensor,
    games: Sequence[Players],
    budget: int | None = None,
    seed: int = 0,
    interactions: bool = False,
    progress: ProgressCallback = ignore_progress,
    standard_error: float | None = None,
) -> list[FactorisedEstimate]:
    """Return the Shapley values of each text: exact, or from regressions on subsets of tokens and of patches.

    With a budget, all subsets of one side are taken where they need no more than half of it, and the other side has the
    rest; else both sides have as many beyond those that each regression needs. Texts with one grid share masked images.

    Args:
        image: Result of `encoder.prepare_image`.
        games: Players of each text with this image.
        budget: Most encoder passes for one text, those of its image included; None takes all subsets. Each side takes
            at least the subsets that its regression needs.
        seed: Seed of the subsets; those of the patches are the same for all texts.
        interactions: Whether interactions of tokens with patches are computed too, without another pass.
        progress: Called with the number of passes that are done.
        standard_error: With a budget, passes end once the standard error of T-SHAP, a share, is at most this in
            two rounds that follow each other.
    """
    estimates = []
    image_vectors: dict[int, _CachedVectors] = {}
    image_sides: dict[tuple[int, int], Side] = {}
    for game in games:
        words, patches = (len(free) for free in _find_free_players(game))
        text_vectors = build_text_vectors(encoder, game, progress)
        if budget is not None:
            text_vectors = _CachedVectors(text_vectors)
        if game.grid not in image_vectors:
            image_vectors[game.grid] = _CachedVectors(build_image_vectors(encoder, image, game, progress))
        cached = image_vectors[game.grid]
        passes, known, is_met = 0, len(cached.known), False
        for for_words, for_patches in _list_rounds(words, patches, budget, standard_error is not None):
            text = average_orders_within(text_vectors, words, for_words, (seed, 0))
            if (game.grid, for_patches) not in image_sides:
                vectors = cached.vectors if budget is None else cached
                side = average_orders_within(vectors, patches, for_patches, (seed, 1))
                image_sides[game.grid, for_patches] = side
                passes += side.passes if budget is None else 0
            image_side = image_sides[game.grid, for_patches]
            estimate, error, pairs = _combine_sides(encoder, game, text, image_side)
            was_met = is_met
            is_met = standard_error is not None and pairs >= MIN_PARTS and error <= standard_error
            reached = was_met and is_met
            if reached:
                break
        if standard_error is not None:
            estimate = replace(estimate, stopped_by="standard error" if reached else "evaluations")
        cross = None
        if interactions:
            cross = np.zeros((game.words, game.patches))
            cross[np.ix_(*_find_free_players(game))] = encoder.scale * compute_cross_interactions(text, image_side)
        passes += text.passes + len(cached.known) - known
        estimates.append(FactorisedEstimate(estimate, passes, error, pairs, cross))
    return estimates


def _list_rounds(words: int, patches: int, budget: int | None, grows: bool) -> list[tuple[int, int]]:
    """Return the passes of tokens and of patches after each round: all at once, or ever more."""
    if budget is None:
        return [(2**words, 2**patches)]
    budgets = [budget]
    count = count_fixed_subsets(words) + count_fixed_subsets(patches) + 4 * MIN_PARTS
    while grows and count < budget:
        budgets.insert(-1, count)
        count = math.ceil(count * GROWTH)
    return [_split_budget(words, patches, count) for count in budgets]


def _split_budget(words: int, patches: int, budget: int) -> tuple[int, int]:
    """Return the encoder passes for tokens and for patches."""
    fixed_words, fixed_patches = count_fixed_subsets(words), count_fixed_subsets(patches)
    if 2**words + 2**patches <= budget:
        return 2**words, 2**patches
    if 2**words <= min(budget // 2, budget - fixed_patches):
        return 2**words, min(budget - 2**words, MAX_COALITIONS)
    if 2**patches <= min(budget // 2, budget - fixed_words):
        return min(budget - 2**patches, MAX_COALITIONS), 2**patches
    half = max(0, budget - fixed_words - fixed_patches) // 2
    return min(fixed_words + half, MAX_COALITIONS), min(fixed_patches + half, MAX_COALITIONS)


def _combine_sides(encoder: LateEncoder, game: Players, text: Side, image: Side) -> tuple[Estimate, float, float]:
    """Return the values of all players, the standard error of T-SHAP, and the fewest random pairs of a regression."""
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
        parts=sampled[0][:, :, None] if len(sampled) == 1 and len(sampled[0]) else None,
        exact=not sampled,
        fitted=bool(sampled),
    )
    return estimate, compute_sides_error(sampled, phi, game.words), min(map(len, sampled), default=math.inf)


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
