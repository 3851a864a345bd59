"""Shapley values of late fusion: image and text are encoded alone, each over all or some of its
subsets.

Let v(S ∪ U) = scale · ⟨f(S), g(U)⟩ + bias for patches S and tokens U. In a random order of all n =
a + b players, three things are independent: the order of the a patches, the order of the b tokens,
and how both orders interleave. The patch that comes after s patches has u tokens before it with
probability

    P(s, u) = C(s + u, u) C(a − s − 1 + b − u, b − u) / C(a + b, b),

so that its Shapley value is Σ P(s, u) ⟨gain of f at s, mean of g after u⟩. The Shapley value of a
token is the same with both modalities exchanged. Over all orders this is Σ w(s + u) ⟨D, G⟩ with
w(k) = k! (n − k − 1)! / n! and sums D and G over subsets, from 2^a + 2^b encoder passes instead of
2^(a + b). With fewer passes, a regression predicts the vectors of each modality from some of its
subsets (`regression`), and the means of the prediction replace the means over all subsets. A
player that is never masked changes no value and is skipped.

The second difference of v for a patch and a token is ⟨gain of f at s, gain of g at u⟩. Its weight
depends only on s + u, so that interactions need no further pass.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from waltz.attribution.published import count_permutation_coalitions
from waltz.attribution.shapley.estimate import MIN_PARTS, Estimate, describe_stop
from waltz.attribution.shapley.estimators import MAX_EXACT_PLAYERS, choose_sampler
from waltz.attribution.shapley.regression import (
    DRAWS,
    GROWTH,
    MAX_COALITIONS,
    Fit,
    PartFit,
    count_fixed_subsets,
    draw_subsets,
    factorize,
    fit_subsets,
)
from waltz.attribution.t_shap import measure_t_shap
from waltz.models.batch_size import BatchSize
from waltz.models.batches import (
    ProgressCallback,
    ignore_progress,
    run_in_halves,
    transfer_together,
)
from waltz.models.encoders.coalitions import EncoderPlayers, join_states
from waltz.models.encoders.encoder import Encoder, LateEncoder, States
from waltz.models.games import encode_masks

Vectors = Callable[[np.ndarray], np.ndarray]
"""Function that takes masks of one modality's maskable players, bool (k, players), and returns the
encoder's vectors, float64 (k, width).
"""
MAX_WAITING_BYTES = 2**28
"""Bytes of vectors that are kept on their device before they are transferred to the host."""
ENUMERATION_BATCH = 4096
"""Number of subsets whose vectors are in memory at once."""


@dataclass(frozen=True, eq=False)
class ModalityMeans:
    """Hold the vectors of one modality, averaged over all orders of its maskable players.

    Attributes:
        gains: Mean change of the vector when a player joins at a position, over all orders, float64
            (players, positions, width). An order in which another player has this position counts
            as zero.
        means: Mean vector when the first s players of an order are visible, float64 (players + 1,
            width).
        passes: Number of encoder passes.
        fit: The regression that gains and means come from; None if all subsets were encoded.
    """

    gains: np.ndarray
    means: np.ndarray
    passes: int
    fit: Fit | None = None


def average_all_orders(
    vectors: Vectors, players: int, batch: int = ENUMERATION_BATCH
) -> ModalityMeans:
    """Return the exact means of one modality, from the vectors of all subsets of its players.

    Args:
        vectors: Function that returns the vectors of some subsets.
        players: Number of maskable players.
        batch: Number of subsets whose vectors are summed at once.
    """
    # totals[s] is the sum of the vectors of all subsets of size s; inside[i, s] is the sum over the
    # subsets of size s that contain player i.
    inside: np.ndarray = np.zeros(())
    totals: np.ndarray = np.zeros(())
    n_subsets = 2**players
    for first in range(0, n_subsets, batch):
        numbers = np.arange(first, min(first + batch, n_subsets))
        # (subsets, players): bits of the subset's number
        masks = (numbers[:, None] >> np.arange(players)) & 1 == 1
        # (subsets, sizes): 1 at the size of each subset
        of_size = np.eye(players + 1)[masks.sum(axis=1)]
        batch_vectors = vectors(masks)  # (subsets, width)
        totals = totals + of_size.T @ batch_vectors
        with_player = [
            (of_size * masks[:, [player]]).T @ batch_vectors
            for player in range(players)
        ]
        inside = inside + np.array(with_player)
    subsets_of_size = np.array(
        [math.comb(players, size) for size in range(players + 1)], dtype=np.float64
    )
    means = totals / subsets_of_size[:, None]
    if not players:
        return ModalityMeans(np.zeros((0, 0, means.shape[1])), means, 1)

    # Gain of player i at size s: the sum over subsets of size s + 1 with i, minus the sum over
    # subsets of size s without i.
    # (players, positions, width)
    contributions = inside[:, 1:] - (totals[None, :-1] - inside[:, :-1])
    # Player i has each of the n positions with probability 1 / n, and C(n - 1, s) subsets without i
    # have size s.
    counts = np.array(
        [players * math.comb(players - 1, size) for size in range(players)],
        dtype=np.float64,
    )
    return ModalityMeans(contributions / counts[:, None], means, n_subsets)


def average_some_orders(
    vectors: Vectors, players: int, passes: int, seed: Sequence[int]
) -> ModalityMeans:
    """Return the means of one modality, predicted by a regression on some subsets of its players.

    Args:
        passes: Number of subsets; the subsets that every regression needs are always among them.
    """
    masks = draw_subsets(players, passes, seed)
    fit = fit_subsets(masks, vectors(masks))
    return ModalityMeans(fit.gains, fit.means, len(masks), fit)


def average_orders_within(
    vectors: Vectors, players: int, passes: int, seed: Sequence[int]
) -> ModalityMeans:
    """Return the means of one modality: exact if the passes suffice for all subsets, else from a
    regression.
    """
    # A regression that needs all subsets anyway gains nothing.
    if 2**players <= max(passes, count_fixed_subsets(players)):
        return average_all_orders(vectors, players)
    return average_some_orders(vectors, players, passes, seed)


def compute_interleaving(n_players: int, n_opposite: int) -> np.ndarray:
    """Return P(s, u): the probability that u players of the other modality come before a player.

    The player comes after s players of its modality; all orders of all players are equally likely.

    Args:
        n_players: Number of players of the modality.
        n_opposite: Number of players of the other modality.
    Returns:
        float64 of shape (n_players, n_opposite + 1), whose rows sum to 1.
    """
    # Number of ways to interleave both orders; the product below counts the ways before and after
    # the player.
    ways = math.comb(n_players + n_opposite, n_opposite)
    probabilities = np.zeros((n_players, n_opposite + 1))
    for s in range(n_players):
        for u in range(n_opposite + 1):
            before = math.comb(s + u, u)
            after = math.comb(n_players - s - 1 + n_opposite - u, n_opposite - u)
            probabilities[s, u] = before * after / ways
    return probabilities


def compute_shapley_values(
    text: ModalityMeans, image: ModalityMeans
) -> tuple[np.ndarray, np.ndarray]:
    """Return the Shapley values of the maskable tokens, and of the maskable patches.

    The value function is the dot product of both modalities' vectors, without scale and bias.
    """
    return _compute_values(text.gains, image.means), _compute_values(
        image.gains, text.means
    )


def _compute_values(gains: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return phi_i = sum over s and u of P(s, u) <gain of i at s, mean of the other modality after
    u>.

    Args:
        gains: Gains of one modality, (players, positions, width).
        means: Means of the other modality, (others + 1, width).
    """
    # expected_means[s], (positions, width): mean vector of the other modality when the player at
    # position s joins.
    expected_means = compute_interleaving(len(gains), len(means) - 1) @ means
    # i: players, s: positions, d: width
    values: np.ndarray = np.einsum("isd,sd->i", gains, expected_means)
    return values


def compute_cross_interactions(text: ModalityMeans, image: ModalityMeans) -> np.ndarray:
    """Return the Shapley interaction index of each maskable token with each maskable patch.

    The value function v is the dot product of both modalities' vectors. The index of two players
    averages the second difference of v over all sizes of a coalition without them, and over all
    coalitions of one size. If u other tokens and s other patches are in the coalition, it is Σ P(s,
    u) ⟨gain of f at s, gain of g at u⟩, with

        P(s, u) = C(a − 1, s) C(b − 1, u) / ((n − 1) C(n − 2, s + u)).

    The index is exact if all subsets of both modalities are known.

    Returns:
        float64 of shape (tokens, patches).
    Source:
        Grabisch and Roubens (1999), of order 2.
    """
    tokens, patches = len(text.gains), len(image.gains)
    if not tokens or not patches:
        return np.zeros((tokens, patches))
    n_others = tokens + patches - 2  # all players but the pair
    # P(s, u), times a and b: gains are means over positions, and so divided by the number of
    # players.
    weights = np.zeros((patches, tokens))
    for s in range(patches):
        for u in range(tokens):
            ways = (
                tokens * math.comb(tokens - 1, u) * patches * math.comb(patches - 1, s)
            )
            weights[s, u] = ways / ((n_others + 1) * math.comb(n_others, s + u))
    # s: positions of patches, u: positions of tokens, j: patches, d: width
    weighted_gains = np.einsum("su,jsd->jud", weights, image.gains)
    pairs: np.ndarray = np.tensordot(text.gains, weighted_gains, axes=([1, 2], [1, 2]))
    return pairs


def compute_error_covariance(text: ModalityMeans, image: ModalityMeans) -> np.ndarray:
    """Return the posterior covariance of the Shapley values of the maskable tokens and patches, from
    the regressions of both modalities: float64 of shape (tokens + patches, tokens + patches).
    """
    n_tokens, n_patches = len(text.gains), len(image.gains)
    tokens_first = np.arange(n_tokens + n_patches)
    patches_first = np.roll(tokens_first, -n_tokens)
    covariance = np.zeros((n_tokens + n_patches, n_tokens + n_patches))
    for modality, opposite, order in (
        (text, image, tokens_first),
        (image, text, patches_first),
    ):
        if modality.fit is not None:
            for part in modality.fit.parts:
                covariance[np.ix_(order, order)] += _compute_part_covariance(
                    part, modality, opposite
                )
    return covariance


def _compute_part_covariance(
    part: PartFit, modality: ModalityMeans, opposite: ModalityMeans
) -> np.ndarray:
    """Return the covariance of the Shapley values of a modality's players, then of the other
    modality's, that one part of the regression of the modality leaves.
    """
    n_players, n_opposite = len(modality.gains), len(opposite.gains)
    # The misses of the pairs give the covariance of the errors of a vector: that of their R, where misses = Q R.
    misses = np.linalg.qr(part.misses / math.sqrt(len(part.misses)), mode="r")
    # An error e of the gains of player i at s changes the value of player i by e times the mean of the other modality.
    expected_means = compute_interleaving(n_players, n_opposite) @ opposite.means
    own_weights = misses @ expected_means.T  # (misses, positions)
    # It changes the means after s and more players, and by these the values of the other modality.
    interleaving = compute_interleaving(n_opposite, n_players)
    opposite_gains = np.einsum("jud,us->jsd", opposite.gains, interleaving)
    later_gains = np.flip(np.cumsum(np.flip(opposite_gains, axis=1), axis=1), axis=1)
    # (misses, opposite players, positions)
    opposite_weights = np.einsum("md,jsd->mjs", misses, later_gains[:, 1:])

    # Prior covariances of the gains of a player with those of all players, and of all with all.
    with_all = part.per_player + n_players * part.shared
    explained = part.explain(part.covariances)  # (players, positions, pairs)
    explained_of_all = explained.sum(axis=0)
    # (positions, players * pairs): a copy in this order makes the products below fast.
    explained_by_position = explained.swapaxes(0, 1).reshape(n_players, -1)
    covariance = np.zeros((n_players + n_opposite, n_players + n_opposite))
    values, cross = (
        covariance[:n_players, :n_players],
        covariance[:n_players, n_players:],
    )
    opposite_values = covariance[n_players:, n_players:]
    for own_weight, opposite_weight in zip(own_weights, opposite_weights, strict=True):
        values += own_weight @ part.shared @ own_weight
        values += own_weight @ part.per_player @ own_weight * np.eye(n_players)
        cross += opposite_weight @ with_all @ own_weight
        opposite_values += n_players * opposite_weight @ with_all @ opposite_weight.T
        explained_own = (own_weight @ explained_by_position).reshape(n_players, -1)
        explained_opposite = opposite_weight @ explained_of_all
        explained_values = np.concatenate([explained_own, explained_opposite])
        covariance -= explained_values @ explained_values.T
    covariance[n_players:, :n_players] = cross.T
    return covariance


@dataclass(frozen=True, eq=False)
class FactorizedEstimate:
    """Hold the Shapley values of a late-fusion game.

    Attributes:
        estimate: The values. `requested` counts encoder passes; each text counts the passes of the
            shared image too.
        passes: Number of encoder passes that no earlier text had made.
        interactions: See `compute_cross_interactions`; None if they were not requested.
    """

    estimate: Estimate
    passes: int
    interactions: np.ndarray | None = None


def choose_estimator(
    encoder: Encoder,
    players: EncoderPlayers,
    budget: int,
    standard_error: float | None = None,
) -> str:
    """Return the name of the estimator that a budget allows: exact values, else a regression, else
    permutations.

    Args:
        budget: Encoder passes for late fusion, else coalitions.
        standard_error: Standard error of T-SHAP to reach, or None.
    """
    free_tokens, free_patches = _find_free_players(players)
    tokens, patches = len(free_tokens), len(free_patches)
    maskable = tokens + patches
    takes_exact = standard_error is None
    if takes_exact and encoder.late and 2**tokens + 2**patches <= budget:
        return "exact-factorised"
    if takes_exact and maskable <= MAX_EXACT_PLAYERS and 2**maskable <= budget:
        return "exact"
    required = count_fixed_subsets(tokens) + count_fixed_subsets(patches)
    # One permutation takes 2 n + 1 coalitions. A budget that suffices for neither permutation nor
    # regression takes the regression, which reports what it needs.
    suffices_for_regression = required <= budget
    is_too_small = budget < count_permutation_coalitions(len(players))
    if encoder.late and (suffices_for_regression or is_too_small):
        return "factorised-regression"
    return choose_sampler(maskable, len(players), budget)


class _CachedVectors:
    """Compute the vector of each subset once, and keep it."""

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = vectors
        self.known: dict[bytes, np.ndarray] = {}

    def __call__(self, masks: np.ndarray) -> np.ndarray:
        keys = encode_masks(masks)
        new = [position for position, key in enumerate(keys) if key not in self.known]
        if new:
            new_vectors = self.vectors(masks[new])
            for position, vector in zip(new, new_vectors, strict=True):
                self.known[keys[position]] = vector
        return np.array([self.known[key] for key in keys])


@torch.inference_mode()
def compute_factorized(
    encoder: LateEncoder,
    image: torch.Tensor,
    games: Sequence[EncoderPlayers],
    budget: int | None = None,
    seed: int = 0,
    interactions: bool = False,
    progress: ProgressCallback = ignore_progress,
    standard_error: float | None = None,
) -> list[FactorizedEstimate]:
    """Return the Shapley values of each text: exact, or from regressions on subsets of tokens and
    of patches.

    If all subsets of one modality fit into half of the budget, they are all encoded, and the other
    modality gets the rest. Else each modality gets the subsets that its regression needs, and half
    of the remaining budget. Texts with the same grid share masked images.

    Args:
        image: Result of `encoder.prepare_image`.
        games: Players of each text with this image.
        budget: Maximum number of encoder passes for one text, the passes of its image included;
            None takes all subsets. Each modality takes at least the subsets that its regression
            needs.
        seed: Seed of the subsets; the subsets of the patches are the same for all texts.
        interactions: Whether interactions of tokens with patches are computed too; they need no
            further pass.
        progress: Called with the number of passes that are done.
        standard_error: With a budget, passes end once the standard error of T-SHAP, a share, is at
            most this in two consecutive rounds.
    """
    images = _SharedImages(encoder, image, budget, seed, progress)
    return [
        _estimate_game(encoder, game, images, interactions, standard_error)
        for game in games
    ]


class _SharedImages:
    """Compute the means of an image's patches once for each grid, so that several texts share them.

    Attributes:
        budget: Maximum number of encoder passes for one text; None takes all subsets.
    """

    def __init__(
        self,
        encoder: LateEncoder,
        image: torch.Tensor,
        budget: int | None,
        seed: int,
        progress: ProgressCallback,
    ) -> None:
        self.encoder, self.image, self.budget = encoder, image, budget
        self.seed, self.progress = seed, progress
        self._vectors: dict[int, _CachedVectors] = {}
        self._means: dict[tuple[int, int], ModalityMeans] = {}

    def get_vectors(self, game: EncoderPlayers) -> _CachedVectors:
        """Return the function that computes the vectors of masked images; it keeps those that
        earlier texts needed.
        """
        if game.grid not in self._vectors:
            vectors = build_image_vectors(self.encoder, self.image, game, self.progress)
            self._vectors[game.grid] = _CachedVectors(vectors)
        return self._vectors[game.grid]

    def average(
        self, game: EncoderPlayers, patches: int, passes: int
    ) -> tuple[ModalityMeans, int]:
        """Return the means of a game's patches, and the number of new passes.

        With a budget the second number is 0, since the caller counts the new passes from the cached
        vectors.

        Args:
            patches: Number of maskable patches.
            passes: Maximum number of encoder passes.
        """
        key = game.grid, passes
        if key in self._means:
            return self._means[key], 0
        cached = self.get_vectors(game)
        # Without a budget each subset is requested once, so that no vector is kept.
        vectors = cached.vectors if self.budget is None else cached
        means = average_orders_within(vectors, patches, passes, (self.seed, 1))
        self._means[key] = means
        return means, means.passes if self.budget is None else 0


def _estimate_game(
    encoder: LateEncoder,
    game: EncoderPlayers,
    images: _SharedImages,
    interactions: bool,
    standard_error: float | None,
) -> FactorizedEstimate:
    """Return the Shapley values of one text; see `compute_factorized`."""
    free_tokens, free_patches = _find_free_players(game)
    tokens, patches = len(free_tokens), len(free_patches)
    text_vectors = build_text_vectors(encoder, game, images.progress)
    if images.budget is not None:
        text_vectors = _CachedVectors(text_vectors)
    cached_images = images.get_vectors(game)
    known_before = len(cached_images.known)

    # Without a target error there is one round; with a target, rounds of more and more passes,
    # until two consecutive checks are met.
    passes = 0
    is_met = is_reached = False
    for token_passes, patch_passes in _list_rounds(
        tokens, patches, images.budget, standard_error is not None
    ):
        text = average_orders_within(
            text_vectors, tokens, token_passes, (images.seed, 0)
        )
        image, new_passes = images.average(game, patches, patch_passes)
        passes += new_passes
        estimate = _combine_modalities(encoder, game, text, image)
        was_met = is_met
        is_met = standard_error is not None and _has_error_within(
            estimate, game.n_text_players, standard_error
        )
        is_reached = was_met and is_met
        if is_reached:
            break
    estimate = replace(estimate, stopped_by=describe_stop(standard_error, is_reached))

    # Players that are never masked have no interactions: their entries stay 0.
    cross = None
    if interactions:
        cross = np.zeros((game.n_text_players, game.n_image_players))
        cross[np.ix_(free_tokens, free_patches)] = (
            encoder.scale * compute_cross_interactions(text, image)
        )
    # Passes of an image that an earlier text made are not counted again.
    passes += text.passes + len(cached_images.known) - known_before
    return FactorizedEstimate(estimate, passes, cross)


def _has_error_within(
    estimate: Estimate, text_players: int, standard_error: float
) -> bool:
    """Return whether T-SHAP has at most a standard error, which exact values always have."""
    if estimate.exact:
        return True
    has_pairs = estimate.pairs is not None and estimate.pairs >= MIN_PARTS
    t_shap = measure_t_shap(estimate, text_players)
    return has_pairs and t_shap.standard_error <= standard_error


def _list_rounds(
    tokens: int, patches: int, budget: int | None, grows: bool
) -> list[tuple[int, int]]:
    """Return the numbers of passes for tokens and for patches in each round.

    Args:
        budget: Maximum number of passes; None takes all subsets in one round.
        grows: Whether there are several rounds of more and more passes, between which an error is
            checked.
    """
    if budget is None:
        return [(2**tokens, 2**patches)]
    budgets = []
    if grows:
        # The first check needs MIN_PARTS chosen pairs, of two passes each, in both modalities.
        count = (
            count_fixed_subsets(tokens) + count_fixed_subsets(patches) + 4 * MIN_PARTS
        )
        while count < budget:
            budgets.append(count)
            count = math.ceil(count * GROWTH)
    budgets.append(budget)
    return [_split_budget(tokens, patches, count) for count in budgets]


def _split_budget(tokens: int, patches: int, budget: int) -> tuple[int, int]:
    """Split a budget of encoder passes between tokens and patches; see `compute_factorized`."""
    all_tokens, all_patches = 2**tokens, 2**patches
    if all_tokens + all_patches <= budget:
        return all_tokens, all_patches
    # One modality gets all its subsets, if these need at most half of the budget and leave enough
    # for the regression of the other modality.
    fixed_tokens, fixed_patches = (
        count_fixed_subsets(tokens),
        count_fixed_subsets(patches),
    )
    if all_tokens <= min(budget // 2, budget - fixed_patches):
        return all_tokens, min(budget - all_tokens, MAX_COALITIONS)
    if all_patches <= min(budget // 2, budget - fixed_tokens):
        return min(budget - all_patches, MAX_COALITIONS), all_patches
    # Both modalities get a regression, and the same number of random subsets.
    half = max(0, budget - fixed_tokens - fixed_patches) // 2
    return min(fixed_tokens + half, MAX_COALITIONS), min(
        fixed_patches + half, MAX_COALITIONS
    )


def _combine_modalities(
    encoder: LateEncoder,
    game: EncoderPlayers,
    text: ModalityMeans,
    image: ModalityMeans,
) -> Estimate:
    """Return the estimate of a game; with two regressions, `pairs` is the smaller number."""
    free_tokens, free_patches = _find_free_players(game)
    free = np.concatenate([free_tokens, free_patches + game.n_text_players])
    # A player that is never masked adds nothing: its value stays 0.
    phi = np.zeros(len(game))
    phi[free] = encoder.scale * np.concatenate(compute_shapley_values(text, image))
    fits = [modality.fit for modality in (text, image) if modality.fit is not None]
    parts = None
    if fits:
        factor = factorize(compute_error_covariance(text, image))
        errors = np.zeros((DRAWS, len(game)))
        normal = np.random.default_rng(0).normal(size=(DRAWS, len(free)))
        errors[:, free] = encoder.scale * normal @ factor.T
        parts = np.concatenate([phi + errors, phi - errors])[:, :, None]
    return Estimate(
        phi=phi[:, None],
        base_value=_compute_end_value(encoder, text.means[0], image.means[0]),
        value=_compute_end_value(encoder, text.means[-1], image.means[-1]),
        requested=text.passes + image.passes,
        parts=parts,
        exact=not fits,
        pairs=min((fit.pairs for fit in fits), default=None),
    )


def _compute_end_value(
    encoder: LateEncoder, text: np.ndarray, image: np.ndarray
) -> np.ndarray:
    """Return the value v of a text vector with an image vector, float64 of shape (1,)."""
    return np.array([encoder.scale * float(text @ image) + encoder.bias])


def _find_free_players(game: EncoderPlayers) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the tokens, and of the patches, that coalitions mask: two int64 arrays."""
    is_free = ~game.always_visible
    return np.flatnonzero(is_free[: game.n_text_players]), np.flatnonzero(
        is_free[game.n_text_players :]
    )


def build_text_vectors(
    encoder: LateEncoder,
    game: EncoderPlayers,
    progress: ProgressCallback = ignore_progress,
) -> Vectors:
    """Return the function that computes the text vectors for masks of a game's maskable tokens."""
    free_tokens, _ = _find_free_players(game)
    batch_size = BatchSize(encoder.device, encoder.texts_per_batch)

    def compute_vectors(masks: np.ndarray) -> np.ndarray:
        ids = game.mask_text(_extend_masks(masks, free_tokens, game.n_text_players))

        def encode(first: int, last: int) -> States:
            return encoder.encode_text(ids[first:last].to(encoder.device))

        return _compute_in_batches(encode, len(masks), batch_size, progress)

    return compute_vectors


def build_image_vectors(
    encoder: LateEncoder,
    image: torch.Tensor,
    game: EncoderPlayers,
    progress: ProgressCallback = ignore_progress,
) -> Vectors:
    """Return the function that computes the image vectors for masks of a game's maskable patches."""
    _, free_patches = _find_free_players(game)
    batch_size = BatchSize(encoder.device, encoder.images_per_batch)

    def compute_vectors(masks: np.ndarray) -> np.ndarray:
        patch_masks = _extend_masks(masks, free_patches, game.n_image_players)

        def encode(first: int, last: int) -> States:
            return encoder.encode_image(game.mask_image(image, patch_masks[first:last]))

        return _compute_in_batches(encode, len(masks), batch_size, progress)

    return compute_vectors


def _extend_masks(masks: np.ndarray, free: np.ndarray, players: int) -> np.ndarray:
    """Extend masks of the maskable players to all players, of which the others stay visible: bool
    (k, players).
    """
    extended = np.ones((len(masks), players), dtype=bool)
    extended[:, free] = masks
    return extended


def _compute_in_batches(
    encode: Callable[[int, int], States],
    size: int,
    batch_size: BatchSize,
    progress: ProgressCallback,
) -> np.ndarray:
    """Return the vectors of some rows, computed batch by batch: float64 of shape (size, width)."""
    vectors: list[np.ndarray] = []
    waiting: list[torch.Tensor] = []
    for rows in batch_size.cut(range(size)):

        def encode_rows(first: int, last: int, start: int = rows[0]) -> States:
            with batch_size.measure(last - first):
                return encode(start + first, start + last)

        # A batch that does not fit into memory is halved.
        states = run_in_halves(encode_rows, len(rows), join_states)
        waiting.append(states[0])
        progress(len(rows))
        # Vectors stay on their device as long as they take little memory there.
        if sum(tensor.nbytes for tensor in waiting) > MAX_WAITING_BYTES:
            vectors += transfer_together(waiting)
            waiting = []
    return np.concatenate([*vectors, *transfer_together(waiting)])
