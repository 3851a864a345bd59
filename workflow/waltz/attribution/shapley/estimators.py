"""The estimators of Shapley values by name: permutations, all coalitions, a regression, and those of shapiq."""

import warnings
from collections.abc import Callable, Iterator
from math import factorial
from typing import TYPE_CHECKING

import numpy as np

from waltz.attribution.shapley.estimate import MIN_PARTS, AttributionSettings, Estimate, Estimation, spread_players
from waltz.attribution.shapley.regression import MAX_COALITIONS, begin_regression, count_fixed_subsets
from waltz.attribution.t_shap import compute_t_shap_error
from waltz.core.errors import UserError
from waltz.fidelity import get_fidelity

if TYPE_CHECKING:
    from shapiq import InteractionValues

PUBLISHED_PERMUTATIONS = 10
"""Permutations of one explanation in the fork of `shap` that MM-SHAP was released with, whatever the budget."""
MAX_EXACT_PLAYERS = 12
"""4,096 coalitions."""
CoalitionValue = Callable[[np.ndarray], np.ndarray]
"""From coalitions, bool of shape (k, players) or (players,), to values of shape (k,)."""
MIN_SHAPIQ_EVALUATIONS: dict[str, Callable[[int], int]] = {
    "KernelSHAP": lambda players: 4 * players,
    "UnbiasedKernelSHAP": lambda players: 4 * players,
    "SVARM": lambda players: 4 * players,
    "PermutationSamplingSV": lambda players: 4 * players,
    "StratifiedSamplingSV": lambda players: max(4 * players, 2 * players * (players - 1) + 2),
    "OwenSamplingSV": lambda players: 20 * players + 2,
}
"""Classes of shapiq 1.4.1 that estimate the index SV for any value function, with the fewest evaluations that are
accepted for a number of players. The last two skip strata that they have not drawn, which moves T-SHAP by up to 0.2:
they need each stratum, or each of ten points, of each player once."""
COALITION_ESTIMATORS = ("permutation", "exact", "regression", *MIN_SHAPIQ_EVALUATIONS)
"""Estimators of any game, which need the values of coalitions."""
FACTORISED_ESTIMATORS = ("exact-factorised", "factorised-regression")
"""Estimators of games of late fusion, which need vectors of each side: see `shapley.late_fusion`."""
ESTIMATORS = ("auto", *COALITION_ESTIMATORS, *FACTORISED_ESTIMATORS)
"""Every name that a study or a command can give."""


def begin_estimation(
    name: str,
    players: int,
    text_players: int,
    settings: AttributionSettings,
    always_visible: np.ndarray | None = None,
) -> Estimation:
    """Return an estimation by name; without a number of evaluations its budget is 10 * (2 * players + 1).

    Args:
        name: A name in `COALITION_ESTIMATORS`.
        players: Number of players, text first.
        settings: Evaluations, seed and target standard error; `exact` uses none of them.
        always_visible: Players that no coalition masks, bool of shape (players,), which a regression leaves out; None
            if there are none.
    Raises:
        UserError: There is no such estimator, or it does not fit the settings or the number of players.
    """
    if name not in COALITION_ESTIMATORS:
        raise UserError(f"attribution.estimator: unknown name (got {name!r}); take one of {', '.join(ESTIMATORS)}")
    if name == "exact":
        return begin_exact(players)
    evaluations = count_published_evaluations(players) if settings.evaluations is None else settings.evaluations
    if name == "permutation":
        return begin_permutations(players, evaluations, settings.seed, text_players, settings.standard_error)
    if name == "regression":
        free = np.ones(players, dtype=bool) if always_visible is None else ~always_visible
        count, words = int(free.sum()), int(free[:text_players].sum())
        if count < 2 or (count <= MAX_EXACT_PLAYERS and 2**count <= evaluations and settings.standard_error is None):
            return spread_players(begin_exact(count), free)
        return spread_players(begin_regression(count, evaluations, settings.seed, words, settings.standard_error), free)
    if settings.standard_error is not None:
        raise UserError(
            f"attribution.standard_error: {name} has no standard error to stop at; leave it out or take regression"
        )
    return begin_shapiq(name, players, evaluations, settings.seed)


def choose_sampler(free: int, players: int, evaluations: int) -> str:
    """Return what `auto` takes where exact values need too many coalitions: a regression, if it can use them all.

    Permutations are taken too where the evaluations suffice for one and not for a regression; where they suffice for
    neither, the regression says what it needs.

    Args:
        free: Players that coalitions mask.
        players: All players, of which a permutation masks each.
    """
    few = 2 * players + 1 <= evaluations < count_fixed_subsets(free)
    return "permutation" if few or evaluations > MAX_COALITIONS else "regression"


def check_profile_estimator(estimator: str, profile: str) -> None:
    """Refuse an estimator that a profile of fixed estimators does not have."""
    allowed = get_fidelity(profile).estimators
    if estimator not in allowed:
        raise UserError(
            f"attribution.estimator: does not fit the profile {profile} (got {estimator!r}, expected"
            f" {' or '.join(allowed)}); take another profile"
        )


def count_published_evaluations(players: int) -> int:
    """Return the evaluations of the released MM-SHAP scripts: ten permutations of 2 * players + 1 coalitions."""
    return PUBLISHED_PERMUTATIONS * (2 * players + 1)


def begin_permutations(
    players: int, evaluations: int, seed: int, text_players: int = 0, standard_error: float | None = None
) -> Estimation:
    """Estimate Shapley values by permutation sampling; a round evaluates one permutation.

    A permutation adds the players one by one to the empty coalition and removes them in the same order: 2 * players + 1
    coalitions, and two differences for each player, whose mean is exact where no three players interact. A larger
    budget with the same seed begins with the rounds of a smaller one. The permutations are those that shap draws after
    `numpy.random.seed(seed)`, from a generator of its own.

    Args:
        players: Number of players, text first.
        evaluations: Most coalitions; floor(evaluations / (2 * players + 1)) permutations are drawn.
        seed: Seed of the permutations, 0 to 2**32 - 1.
        text_players: Number of text players, for `standard_error`.
        standard_error: Stop once the standard error of T-SHAP, a share, is at most this, after at least ten
            permutations; None draws them all.
    Returns:
        An estimation whose parts are the permutations.
    Raises:
        UserError: The evaluations do not suffice for one permutation, or the seed is out of range.
    Source:
        `shap.PermutationExplainer`, against which tests hold the values; MM-SHAP's released scripts use it with ten
        permutations.
    """
    least = 2 * players + 1
    if evaluations < least:
        raise UserError(
            f"attribution.evaluations: too small for one permutation of {players} players (got {evaluations}, expected"
            f" at least {least}); set at least {least}"
        )
    check_numpy_seed(seed)
    if players == 0:
        values = np.asarray((yield np.zeros((1, 0), dtype=bool)), dtype=np.float64)
        return Estimate(np.zeros((0, values.shape[1])), values[0], values[0], requested=1, exact=True)
    requested, reached = 0, False
    parts: list[np.ndarray] = []
    for order in _draw_orders(players, evaluations // least, seed):
        values = np.asarray((yield _build_walk(order)), dtype=np.float64)
        requested += len(values)
        if not parts:
            base_value, value = values[0], values[players]
        parts.append(_compute_part(order, values))
        if standard_error is not None and len(parts) >= MIN_PARTS:
            reached = compute_t_shap_error(np.stack(parts), text_players) <= standard_error
            if reached:
                break
    return Estimate(
        phi=np.mean(parts, axis=0),
        base_value=base_value,
        value=value,
        requested=requested,
        parts=np.stack(parts),
        stopped_by=None if standard_error is None else "standard error" if reached else "evaluations",
    )


def check_numpy_seed(seed: int) -> None:
    """Refuse what is no seed of numpy's global generator."""
    if not 0 <= seed < 2**32:
        raise UserError(f"seed: {seed} is no seed of numpy's global generator; take 0 to {2**32 - 1}")


def _draw_orders(players: int, permutations: int, seed: int) -> Iterator[np.ndarray]:
    """Yield orders of the players, each shuffled from the one before, as by numpy's global generator with this seed."""
    generator = np.random.RandomState(seed)
    order = np.arange(players)
    for _ in range(permutations):
        generator.shuffle(order)
        yield order.copy()


def _build_walk(order: np.ndarray) -> np.ndarray:
    """Return the coalitions from the empty one to all players and back: bool of shape (2 * players + 1, players)."""
    rank = order.argsort()
    joined = rank < np.arange(len(order) + 1)[:, None]
    return np.concatenate([joined, ~joined[1:]])


def _compute_part(order: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the Shapley values by one permutation: the mean of its two differences of each player."""
    players = len(order)
    steps = np.diff(values, axis=0)
    part = np.empty((players, values.shape[1]))
    part[order] = (steps[:players] - steps[players:]) / 2
    return part


def begin_exact(players: int) -> Estimation:
    """Compute Shapley values by their definition, in one round of all 2**players coalitions.

    phi_i = sum over coalitions S without i of s! (n - s - 1)! / n! * (v(S and i) - v(S)), with s players in S.

    Raises:
        UserError: There are more than 12 players.
    Source:
        Shapley (1953).
    """
    if players > MAX_EXACT_PLAYERS:
        raise UserError(
            f"attribution.estimator: exact needs 2**{players} coalitions (got {players} players, expected at most"
            f" {MAX_EXACT_PLAYERS}); take permutation, or exact-factorised for encoders of late fusion"
        )
    numbers = np.arange(2**players)
    masks = (numbers[:, None] >> np.arange(players) & 1).astype(bool)
    values = np.asarray((yield masks.copy()), dtype=np.float64)
    sizes = masks.sum(axis=1)
    weights = np.array([factorial(s) * factorial(players - s - 1) / factorial(players) for s in range(players)])
    phi = np.empty((players, values.shape[1]))
    for player in range(players):
        without = numbers[~masks[:, player]]
        phi[player] = weights[sizes[without]] @ (values[without | 1 << player] - values[without])
    return Estimate(phi, values[0], values[-1], requested=len(masks), exact=True)


def begin_shapiq(name: str, players: int, evaluations: int, seed: int) -> Estimation:
    """Estimate Shapley values by an approximator of shapiq, in one round.

    Its coalitions depend on the seed alone, so that a first run records them and a second takes their values. There
    are no independent parts, hence no standard error; the values of SVARM, StratifiedSamplingSV and OwenSamplingSV
    need not sum to v(all) - v(none); the residual says by how much. KernelSHAP draws coalitions with their complements.

    Args:
        name: A name in `MIN_SHAPIQ_EVALUATIONS`.
        players: Number of players; below two the values are exact.
    Raises:
        UserError: The evaluations are too few, or those that were drawn do not determine KernelSHAP's regression.
    """
    if players < 2:
        return (yield from begin_exact(players))
    least = MIN_SHAPIQ_EVALUATIONS[name](players)
    if evaluations < least:
        raise UserError(
            f"attribution.evaluations: too small for {name} and {players} players (got {evaluations}, expected at least"
            f" {least}); set at least {least}"
        )
    # both ends are evaluated always, and OwenSamplingSV may request one of them only
    budget = evaluations - (name == "OwenSamplingSV")
    ends = np.array([[False] * players, [True] * players])
    recorded: list[np.ndarray] = []

    def record(masks: np.ndarray) -> np.ndarray:
        recorded.append(np.array(masks, dtype=bool, ndmin=2))
        return np.zeros(len(recorded[-1]))

    _approximate(name, players, budget, seed, record)
    masks = np.concatenate(recorded)
    missing = ends[[not (masks == end).all(axis=1).any() for end in ends]]
    masks = np.concatenate([masks, missing])
    if name == "KernelSHAP" and np.linalg.matrix_rank(masks) < players:
        raise UserError(
            f"attribution.evaluations: too small for {name}: {evaluations} coalitions with seed {seed} do not determine"
            f" {players} players; set more"
        )
    values = np.asarray((yield masks.copy()), dtype=np.float64)
    outputs = [_approximate(name, players, budget, seed, _replay(masks, column)) for column in values.T]
    return Estimate(
        phi=np.array([[output[(player,)] for output in outputs] for player in range(players)]),
        base_value=values[(masks == ends[0]).all(axis=1).argmax()],
        value=values[(masks == ends[1]).all(axis=1).argmax()],
        requested=len(masks),
        exact=not any(output.estimated for output in outputs),
    )


def _approximate(name: str, players: int, budget: int, seed: int, value: CoalitionValue) -> "InteractionValues":
    import shapiq  # takes a second, and few studies name one of its estimators

    paired = {"pairing_trick": True} if name == "KernelSHAP" else {}
    approximator = getattr(shapiq, name)(n=players, random_state=seed, **paired)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Not all budget is required")  # more than 2**players are allowed
        values: InteractionValues = approximator.approximate(budget, value)
    return values


def _replay(masks: np.ndarray, values: np.ndarray) -> CoalitionValue:
    """Return a value function that gives the values of the same coalitions, requested in the same order."""
    position = 0

    def value(coalitions: np.ndarray) -> np.ndarray:
        nonlocal position
        rows = slice(position, position + len(np.atleast_2d(coalitions)))
        if not np.array_equal(masks[rows], np.atleast_2d(coalitions)):
            raise RuntimeError("shapiq requested other coalitions than with the same seed before")
        position = rows.stop
        return values[rows]

    return value
