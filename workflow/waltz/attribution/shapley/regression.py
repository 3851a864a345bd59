"""Regression on coalitions: Shapley values of the smoothest function that has the values of some
coalitions.

Each game v is the sum of an odd part (v(S) - v(rest)) / 2, with the rest the complement of S, and an
even part (v(S) + v(rest)) / 2. Shapley values depend on the odd part alone. Each part is predicted
by the mean of a Gaussian process on coalitions: with d(S, B) the number of players in which S and B
differ, the values of S and B have the correlation r^d, so that y(S) = (v(S) - v(rest)) / sqrt(2) has
the covariance r^d - r^(n - d), and the same sum of the even part r^d + r^(n - d). Both parts are
independent. Among `CORRELATIONS`, r is the value that predicts each known y best from the others; near
1 the prediction is additive. The mean of a prediction over the coalitions of one size, with or
without a player, has a closed form, so that the Shapley values of the prediction need no sampling.

The coalitions are: no player, all players, each single player, all players but one; then pairs of a
coalition and its complement. The first pairs lower the posterior variance of the Shapley values most,
the later ones do so among the coalitions of each size in turn. The Shapley values are exact if all
coalitions are known, or if r describes the game. The posterior covariance, with the variance that the
leave-one-out residuals show, gives draws of the error; the change since half of the pairs adds the bias.
"""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from waltz.attribution.shapley.estimate import (
    MIN_PARTS,
    Estimate,
    Estimation,
    describe_stop,
)
from waltz.attribution.t_shap import compute_t_shap_error
from waltz.core.errors import UserError

CORRELATIONS = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99, 0.999)
"""Candidates for r, the correlation of the values of two coalitions that differ in one player."""
MAX_COALITIONS = 4096
"""Largest number of coalitions of one regression; its time grows with their cube, its memory with
their square.
"""
ROUND = 16
"""Number of coalitions that are computed together in one round: eight pairs of complements."""
GROWTH = 1.1
"""Factor by which the number of coalitions grows between two checks of the standard error."""
NUGGET = 1e-10
"""Variance that is added to keep the equations solvable for many coalitions, a share of the
variance of the process.
"""
MAX_MISFIT = 3e-5
"""Largest allowed difference of a prediction from a value that it was fitted to, a share of the
largest value.
"""
DESIGN_DECAY = 4.0
"""Decay -n log r of the correlation r under which coalitions are chosen, before any value is known."""
CANDIDATES = 600
"""Number of random coalitions, of all sizes alike, among which the best ones are chosen."""
DRAWS = 64
"""Number of draws of the error of a prediction; each is taken with both signs."""


@dataclass(frozen=True, eq=False)
class PartFit:
    """Hold the prediction of the odd or the even part of a game, and what it leaves unknown.

    A value has any width: one number for each output, or a vector of an encoder. A gain is that of a
    player at a position, over all orders of the players; an order in which another player has this
    position counts as zero. All arrays are float64.

    The posterior covariance of the gains of players i and j at positions s and t, for a variance of
    1, is `shared`[s, t], plus `per_player`[s, t] if i = j, minus the product of E[i, s] and E[j, t], with E
    what `explain` returns for `covariances`.

    Attributes:
        gains: Predicted gains, (players, positions, width).
        per_player: (positions, positions).
        shared: (positions, positions).
        covariances: Covariance of each gain with y of each pair, (players, positions, pairs).
        lower: Lower triangular factor of the covariance of y, (pairs, pairs).
        misses: Leave-one-out residual of each pair over its standard deviation, (pairs, width).
            Their mean square is the variance.
    """

    gains: np.ndarray
    per_player: np.ndarray
    shared: np.ndarray
    covariances: np.ndarray
    lower: np.ndarray
    misses: np.ndarray

    def explain(self, covariances: np.ndarray) -> np.ndarray:
        """Return factors whose products are the covariances that the known y explain.

        Args:
            covariances: Covariances of some sums of gains with y, (..., pairs).
        """
        rows = covariances.reshape(-1, len(self.lower))
        explained: np.ndarray = solve_triangular(self.lower, rows.T, lower=True).T
        return explained.reshape(covariances.shape)


@dataclass(frozen=True, eq=False)
class Fit:
    """Hold the averages of a prediction of all coalitions from which Shapley values are computed.

    Attributes:
        gains: Sum of the gains of both parts, float64 of shape (players, positions, width). The sum
            over positions is phi.
        means: Mean value of the coalitions of each size, float64 of shape (players + 1, width).
        parts: The odd and the even part.
        pairs: Number of pairs of complements beyond those that every regression needs.
    """

    gains: np.ndarray
    means: np.ndarray
    parts: tuple[PartFit, PartFit]
    pairs: int


def count_fixed_subsets(players: int) -> int:
    """Return the number of coalitions that every regression needs: no player, all, single players,
    all but one.
    """
    # With two players or fewer, some of these coalitions are equal.
    return min(2 * players + 2, 1 << players)


def draw_subsets(players: int, count: int, seed: Sequence[int]) -> np.ndarray:
    """Return distinct coalitions for a regression: bool of shape (k, players), k at most `count`.

    Each coalition is followed by its complement. The coalitions that every regression needs come
    first. A larger count with the same seed begins with the coalitions of a smaller one.
    """
    n_fixed = count_fixed_subsets(players)
    n_pairs = max(0, (count - n_fixed) // 2)
    halves = np.concatenate(
        [_list_fixed_halves(players), _choose_halves(players, n_pairs, tuple(seed))]
    )
    return np.stack([halves, ~halves], axis=1).reshape(-1, players)


def _list_fixed_halves(players: int) -> np.ndarray:
    """Return the coalitions of no player and of single players, one of each pair of complements:
    bool of shape (pairs, players).
    """
    nobody = np.zeros((1, players), dtype=bool)
    halves = np.concatenate([nobody, np.eye(players, dtype=bool)])
    # With two players or fewer, the complement of a single player comes before it.
    return halves[: count_fixed_subsets(players) // 2]


@functools.lru_cache(maxsize=256)
def _choose_halves(players: int, count: int, seed: tuple[int, ...]) -> np.ndarray:
    """Return the first coalitions of `_generate_halves`: read-only bool of shape (k, players), k at
    most `count`.
    """
    generated = _generate_halves(players, np.random.default_rng(seed))
    halves = list(itertools.islice(generated, count))
    chosen = np.array(halves, dtype=bool).reshape(-1, players)
    chosen.flags.writeable = False  # shared by all calls
    return chosen


def _generate_halves(
    players: int, generator: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yield coalitions of the sizes from 2 to players // 2, one of each pair of complements.

    As many as there are players are the best candidates of any size. The later ones have the size
    that has fewest so far; they are the best candidates of the size while it has some, then random.
    It ends when every pair was yielded.
    """
    # The number of pairs of each size that are not yielded yet.
    left = {size: _count_pairs(players, size) for size in range(2, players // 2 + 1)}
    n_yielded = dict.fromkeys(left, 0)
    seen: set[bytes] = set()
    candidates = _draw_candidates(players, left, generator)
    greedy = _GreedyDesign(players, candidates)
    while any(left.values()):
        open_sizes = [size for size, count in left.items() if count]
        if sum(n_yielded.values()) >= players:
            fewest = min(n_yielded[size] for size in open_sizes)
            turn = [size for size in open_sizes if n_yielded[size] == fewest]
            open_sizes = [int(generator.choice(turn))]
        half = greedy.choose(open_sizes)
        if half is None:
            size = int(generator.choice(open_sizes))
            half = _draw_unseen(players, size, generator, seen)
        size = int(half.sum())
        seen.add(half.tobytes())
        left[size] -= 1
        n_yielded[size] += 1
        yield half


def _draw_candidates(
    players: int, possible: dict[int, int], generator: np.random.Generator
) -> np.ndarray:
    """Return random coalitions, as many of each size: bool of shape (candidates, players).

    Args:
        possible: Number of pairs of complements of each size.
    """
    candidates = []
    for size, n_possible in possible.items():
        seen: set[bytes] = set()
        for _ in range(min(CANDIDATES // len(possible), n_possible)):
            half = _draw_unseen(players, size, generator, seen)
            seen.add(half.tobytes())
            candidates.append(half)
    return np.array(candidates, dtype=bool).reshape(-1, players)


class _GreedyDesign:
    """Choose coalitions one after the other, each of which lowers the sum of the posterior variances
    of the Shapley values most (A-optimal).

    The posterior covariances of all candidates follow from a Cholesky decomposition that grows by a
    column with each chosen coalition.
    """

    def __init__(self, players: int, candidates: np.ndarray) -> None:
        fixed = _list_fixed_halves(players)
        self.halves = np.concatenate([fixed, candidates])
        self.sizes = self.halves.sum(axis=1)
        self.is_free = np.ones(len(self.halves), dtype=bool)
        self.correlation = choose_design_correlation(players)
        # Posterior covariance of phi with y, (players, halves), and variance of y, (halves,).
        gain_covariances = _compute_gain_covariances(self.halves, self.correlation, -1)
        self.phi_covariances = gain_covariances.sum(axis=1)
        self.variances = np.full(len(self.halves), 1 - self.correlation**players)
        self.columns = np.zeros((0, len(self.halves)))
        for position in range(len(fixed)):
            self._add(position)

    def choose(self, sizes: Sequence[int]) -> np.ndarray | None:
        """Return the best free candidate of some sizes, bool of shape (players,); None if there is
        none.
        """
        is_allowed = self.is_free & np.isin(self.sizes, sizes)
        if not is_allowed.any():
            return None
        explained = (self.phi_covariances**2).sum(axis=0)
        decreases = explained / np.maximum(self.variances, NUGGET)
        best = int(np.where(is_allowed, decreases, -1.0).argmax())
        self._add(best)
        chosen: np.ndarray = self.halves[best]
        return chosen

    def _add(self, position: int) -> None:
        """Take the value of a coalition as known."""
        players = self.halves.shape[1]
        distances = (self.halves != self.halves[position]).sum(axis=1)
        covariances = _correlate(distances, self.correlation, players, -1)
        covariances = covariances - self.columns[:, position] @ self.columns
        deviation = math.sqrt(max(self.variances[position], NUGGET))
        column = covariances / deviation
        weights = self.phi_covariances[:, [position]] / deviation
        self.phi_covariances = self.phi_covariances - weights * column
        self.variances = self.variances - column**2
        self.columns = np.concatenate([self.columns, column[None]])
        self.is_free[position] = False


def choose_design_correlation(players: int) -> float:
    """Return the correlation under which coalitions are chosen."""
    return math.exp(-DESIGN_DECAY / players)


def _draw_unseen(
    players: int, size: int, generator: np.random.Generator, seen: set[bytes]
) -> np.ndarray:
    """Return a random coalition of a size; neither it nor its complement was seen before: bool of
    shape (players,).
    """
    while True:
        half = np.zeros(players, dtype=bool)
        half[generator.permutation(players)[:size]] = True
        if half.tobytes() not in seen and (~half).tobytes() not in seen:
            return half


def _count_pairs(players: int, size: int) -> int:
    """Return the number of pairs of complementary coalitions in which one coalition has this size."""
    count = math.comb(players, size)
    if 2 * size == players:
        # The complement has the same size, so that each pair was counted twice.
        return count // 2
    return count


def fit_subsets(masks: np.ndarray, values: np.ndarray) -> Fit:
    """Predict the values of all coalitions from the values of some, and return the averages of the
    prediction.

    Args:
        masks: Coalitions of `draw_subsets`, bool of shape (m, players), at least one player.
        values: Their values, float64 of shape (m, width).
    """
    odd = _fit_part(masks, values, -1)
    even = _fit_part(masks, values, 1)
    gains = odd.gains + even.gains
    # The gains of all players at a position are what the mean value rises by.
    rises = np.cumsum(gains.sum(axis=0), axis=0)  # (players, width)
    means = np.concatenate([values[:1], values[0] + rises])
    pairs = (len(masks) - count_fixed_subsets(masks.shape[1])) // 2
    return Fit(gains, means, (odd, even), pairs)


def _fit_part(masks: np.ndarray, values: np.ndarray, sign: int) -> PartFit:
    """Predict the odd part (sign -1) or the even part (sign 1) of a game; see `fit_subsets`."""
    halves = masks[::2]
    players = halves.shape[1]
    # The mean of v(none) and v(all), which come first; the odd part does not depend on it.
    center = values[:2].mean(axis=0)
    centered = values - center
    part_values = (centered[::2] + sign * centered[1::2]) / math.sqrt(
        2
    )  # (pairs, width)
    # With members coded as 1 and -1, the product of two coalitions is players - 2 d.
    signs = 2.0 * halves - 1
    # d(S, B), of shape (pairs, pairs)
    distances = np.rint(players - signs @ signs.T) / 2
    correlation, inverse = _choose_correlation(distances, players, sign, part_values)
    coefficients = inverse @ part_values

    gain_covariances = _compute_gain_covariances(halves, correlation, sign)
    covariance = _correlate(distances, correlation, players, sign)
    lower = np.linalg.cholesky(covariance + NUGGET * np.eye(len(halves)))
    per_player, shared = _compute_prior(players, correlation, sign)
    return PartFit(
        gains=np.tensordot(gain_covariances, coefficients, axes=1),
        per_player=per_player,
        shared=shared,
        covariances=gain_covariances,
        lower=lower,
        misses=coefficients / np.sqrt(np.diag(inverse))[:, None],
    )


def _correlate(
    distances: np.ndarray, correlation: float, players: int, sign: int
) -> np.ndarray:
    """Return the covariance of y for pairs at some distances: r^d - r^(n - d) for the odd part (sign
    -1), r^d + r^(n - d) for the even part (sign 1).
    """
    covariances: np.ndarray = correlation**distances + sign * correlation ** (
        players - distances
    )
    return covariances


def _compute_gain_covariances(
    halves: np.ndarray, correlation: float, sign: int
) -> np.ndarray:
    """Return the covariances of the gains with y of some coalitions: (players, positions, pairs)."""
    # The covariance of the gain of player i at position s with v(B) is the mean of r^d(S + i, B) - r^d(S, B) over
    # coalitions S of size s without player i, times 1 / n, the chance that player i stands at position s. S + i and S
    # differ from B alike in the other n - 1 players, so that the difference is (1 - r) r^d of these, positive where B
    # has player i. The complement of B has the opposite sign and n - 1 - |B without i| of the other players.
    players = halves.shape[1]
    sizes_without = halves.sum(axis=1)[None] - halves.T  # (players, pairs)
    mean_powers = _average_correlation(players - 1, correlation)
    part_powers = (mean_powers - sign * mean_powers[:, ::-1]) / math.sqrt(2)
    # (players, positions, pairs)
    powers_without = part_powers[:, sizes_without].swapaxes(0, 1)
    gain_signs = np.where(halves.T, 1.0, -1.0)[:, None]  # (players, 1, pairs)
    covariances: np.ndarray = (1 - correlation) / players * gain_signs * powers_without
    return covariances


@functools.cache
def _compute_prior(
    players: int, correlation: float, sign: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the prior covariances of gains at two positions, for a variance of 1: what the gains of
    one player have beyond those of two players, and those of two players; both (positions,
    positions).
    """
    powers = _average_correlation(players - 1, correlation)  # (positions, positions)
    # The gain of player j after coalitions T of size t compares T + j with T; see
    # `_compute_gain_covariances`. For i = j the sign of both differs.
    same_player = 2 * powers
    # T has player i with probability t / (n - 1).
    positions = np.arange(players)
    share = positions / max(players - 1, 1)
    steps = np.diff(powers, axis=1)  # powers[s, t + 1] - powers[s, t]
    rise = np.pad(steps, ((0, 0), (1, 0)))
    fall = np.pad(steps, ((0, 0), (0, 1)))
    two_players = share * rise - (1 - share) * fall
    scale = (1 - correlation) / players**2
    # The odd part of a gain at s is its mean with that at n - 1 - s, the even part half of their
    # difference.
    same_part, shared = (
        scale * (covariances - sign * covariances[:, ::-1]) / 2
        for covariances in (same_player, two_players)
    )
    return same_part - shared, shared


def _choose_correlation(
    distances: np.ndarray, players: int, sign: int, values: np.ndarray
) -> tuple[float, np.ndarray]:
    """Choose the correlation that predicts each value best from all other values; return it with
    the inverse of the covariance.

    A correlation near 1 makes the equations of many coalitions nearly singular. Its prediction then
    smooths out the values that it was fitted to, and the correlation is skipped. The lowest
    correlation is never skipped.

    Args:
        distances: d(S, B), float64 of shape (pairs, pairs), of one coalition of each pair.
        sign: -1 for the odd part, 1 for the even part.
        values: y of each pair, float64 of shape (pairs, width).
    """
    best: tuple[float, np.ndarray] = CORRELATIONS[0], distances
    smallest_error = math.inf
    for correlation in CORRELATIONS:
        covariance = _correlate(distances, correlation, players, sign)
        inverse = np.linalg.inv(covariance + NUGGET * np.eye(len(distances)))
        coefficients = inverse @ values
        misfit = np.abs(covariance @ coefficients - values).max()
        is_fitted = misfit <= MAX_MISFIT * np.abs(values).max()
        # Leave-one-out error of each value: its coefficient over the diagonal of the inverse.
        error = float(((coefficients / np.diag(inverse)[:, None]) ** 2).sum())
        is_allowed = is_fitted or correlation == CORRELATIONS[0]
        if is_allowed and error < smallest_error:
            best = correlation, inverse
            smallest_error = error
    return best


@functools.cache
def _average_correlation(players: int, correlation: float) -> np.ndarray:
    """Return, for each pair of sizes, the mean of r^d between a known coalition and all coalitions
    of one size.

    The number of members that two coalitions share follows a hypergeometric distribution.

    Returns:
        float64 of shape (players + 1, players + 1): the size of the averaged coalitions, then of
        the known coalition.
    """
    means = np.zeros((players + 1, players + 1))
    for size in range(players + 1):
        n_coalitions = math.comb(players, size)
        for known in range(players + 1):
            fewest_shared = max(0, size + known - players)
            for shared in range(fewest_shared, min(size, known) + 1):
                share = (
                    math.comb(known, shared)
                    * math.comb(players - known, size - shared)
                    / n_coalitions
                )
                # Players in exactly one of both coalitions.
                distance = size + known - 2 * shared
                means[size, known] += share * correlation**distance
    means.flags.writeable = False  # shared by all calls
    return means


def _draw_phi(odd: PartFit, change: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return Shapley values from their posterior, plus or minus a change of all: (2 `DRAWS`, players,
    width).
    """
    phi = odd.gains.sum(axis=1)
    factor = factorize(_compute_phi_covariance(odd))
    # Each pair's misses get random signs, so that outputs vary together as their misses do.
    shape = (DRAWS, len(phi), len(odd.misses))
    generator = np.random.default_rng(seed)
    signs = generator.choice([-1.0, 1.0], shape)
    errors = factor @ signs @ odd.misses / math.sqrt(len(odd.misses))
    errors += generator.choice([-1.0, 1.0], (DRAWS, 1, 1)) * change
    return np.concatenate([phi + errors, phi - errors])


def _compute_phi_covariance(odd: PartFit) -> np.ndarray:
    """Return the posterior covariance of Shapley values for a variance of 1: (players, players)."""
    explained = odd.explain(odd.covariances.sum(axis=1))  # (players, pairs)
    per_player = odd.per_player.sum() * np.eye(len(explained))
    covariance: np.ndarray = per_player + odd.shared.sum() - explained @ explained.T
    return covariance


def _estimate_bias(odd: PartFit, masks: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return what Shapley values may still change by as coalitions are added: (players, width).

    A smoother prediction changes the values of many players alike, which the posterior takes for
    unlikely. If the bias falls as the posterior standard deviation does, by a factor s since half of
    the chosen pairs, it is s / (1 - s) times the change since then; at most the change is taken.

    Args:
        masks: Coalitions of the fit, see `fit_subsets`.
        values: Their values.
    """
    fixed = count_fixed_subsets(masks.shape[1])
    half = fixed + (len(masks) - fixed) // 4 * 2
    earlier = _fit_part(masks[:half], values[:half], -1)
    variance, earlier_variance = (
        np.trace(_compute_phi_covariance(part)) * (part.misses**2).mean(axis=0)
        for part in (odd, earlier)
    )
    remaining = np.divide(
        np.maximum(variance, 0),
        earlier_variance,
        out=np.zeros_like(variance),
        where=earlier_variance > 0,
    )
    # s / (1 - s) is 1 for s = 1 / 2
    decrease = np.minimum(np.sqrt(remaining), 0.5)
    change = odd.gains.sum(axis=1) - earlier.gains.sum(axis=1)
    bias: np.ndarray = change * decrease / (1 - decrease)
    return bias


def factorize(covariance: np.ndarray) -> np.ndarray:
    """Return a matrix F with F F' = covariance, whose eigenvalues may be negative within rounding; NaN
    if the covariance is not finite.
    """
    if not np.isfinite(covariance).all():
        return np.full_like(covariance, np.nan)
    eigenvalues, vectors = np.linalg.eigh(covariance)
    factor: np.ndarray = vectors * np.sqrt(np.maximum(eigenvalues, 0))
    return factor


def begin_regression(
    players: int,
    evaluations: int,
    seed: int,
    text_players: int = 0,
    standard_error: float | None = None,
) -> Estimation:
    """Estimate Shapley values by a regression on coalitions.

    The first round evaluates the coalitions that every regression needs. Each other round evaluates
    eight pairs of coalitions, for every budget, so that a larger budget with the same seed begins with the
    rounds of a smaller one.

    Args:
        players: Number of players, text first, at least two.
        evaluations: Maximum number of coalitions, of which at most 4096 are used; an incomplete
            last round is skipped.
        seed: Seed of the coalitions.
        text_players: Number of text players, for `standard_error`.
        standard_error: Stop once the standard error of T-SHAP, a share, is at most this in two
            consecutive checks, after at least ten pairs beyond the first round; None takes all
            evaluations.
    Returns:
        An estimation whose parts are draws.
    Raises:
        UserError: The evaluations do not suffice for the coalitions that every regression needs.
    """
    required = count_fixed_subsets(players)
    if evaluations < required:
        raise UserError(
            f"attribution.evaluations: too small for regression with {players} players (got {evaluations}, expected at"
            f" least {required}); set at least {required}"
        )
    # Rounds are complete, so that the same coalitions are computed together for every budget.
    free_evaluations = max(0, min(evaluations, MAX_COALITIONS) - required)
    coalitions = draw_subsets(
        players, required + free_evaluations // ROUND * ROUND, (seed,)
    )
    values = np.asarray((yield coalitions[:required].copy()), dtype=np.float64)

    # A single check can be met by chance; two consecutive checks rarely are.
    n_checked = 0
    is_met = is_reached = False
    while True:
        is_last = len(values) == len(coalitions)
        next_check = max(required + 2 * MIN_PARTS, GROWTH * n_checked)
        is_due = standard_error is not None and len(values) >= next_check
        if is_last or is_due:
            n_checked = len(values)
            odd = _fit_part(coalitions[:n_checked], values, -1)
            phi = odd.gains.sum(axis=1)  # (players, outputs)
            bias = _estimate_bias(odd, coalitions[:n_checked], values)
            parts = _draw_phi(odd, bias)
            pairs = (n_checked - required) // 2
            if standard_error is not None and pairs >= MIN_PARTS:
                was_met = is_met
                is_met = (
                    compute_t_shap_error(parts, text_players, phi) <= standard_error
                )
                is_reached = was_met and is_met
        if is_last or is_reached:
            break
        round_coalitions = coalitions[len(values) : len(values) + ROUND].copy()
        values = np.concatenate([values, (yield round_coalitions)])
    return Estimate(
        phi=phi,
        base_value=values[0],
        value=values[1],
        requested=len(values),
        parts=parts,
        pairs=pairs,
        stopped_by=describe_stop(standard_error, is_reached),
    )
