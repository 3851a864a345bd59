"""The estimators of Shapley values by name: permutations, all coalitions, a regression, and
estimators of shapiq.
"""

import warnings
from collections.abc import Callable, Iterator
from math import factorial
from typing import TYPE_CHECKING

import numpy as np

from waltz.attribution.published import (
    count_permutation_coalitions,
    count_published_evaluations,
)
from waltz.attribution.shapley.estimate import (
    MIN_PARTS,
    AttributionSettings,
    Estimate,
    Estimation,
    describe_stop,
    spread_players,
)
from waltz.attribution.shapley.regression import (
    MAX_COALITIONS,
    begin_regression,
    count_fixed_subsets,
)
from waltz.attribution.t_shap import compute_t_shap_error
from waltz.core.errors import UserError

if TYPE_CHECKING:
    from shapiq import InteractionValues

MAX_EXACT_PLAYERS = 12
"""Largest number of players for which all coalitions are evaluated: 2**12 = 4,096 coalitions."""
CoalitionValue = Callable[[np.ndarray], np.ndarray]
"""Function that takes coalitions, bool of shape (k, players) or (players,), and returns values of
shape (k,).
"""
MIN_SHAPIQ_EVALUATIONS: dict[str, Callable[[int], int]] = {
    "KernelSHAP": lambda players: 4 * players,
    "UnbiasedKernelSHAP": lambda players: 4 * players,
    "SVARM": lambda players: 4 * players,
    "PermutationSamplingSV": lambda players: 4 * players,
    "StratifiedSamplingSV": lambda players: max(
        4 * players, 2 * players * (players - 1) + 2
    ),
    "OwenSamplingSV": lambda players: 20 * players + 2,
}
"""Minimum number of evaluations, for a number of players, of each class of shapiq 1.4.1 that
estimates Shapley values.

The last two classes skip strata that they have not drawn, which moves T-SHAP by up to 0.2. Their
minimum therefore draws each stratum, or each of ten points, of each player once.
"""
COALITION_ESTIMATORS = ("permutation", "exact", "regression", *MIN_SHAPIQ_EVALUATIONS)
"""Names of the estimators for any game, which need the values of coalitions."""
FACTORISED_ESTIMATORS = ("exact-factorised", "factorised-regression")
"""Names of the estimators for late fusion, which need the vectors of each modality: see
`shapley.late_fusion`.
"""
ESTIMATORS = ("auto", *COALITION_ESTIMATORS, *FACTORISED_ESTIMATORS)
"""All names of estimators that a study or a command can give."""


def begin_estimation(
    name: str,
    players: int,
    text_players: int,
    settings: AttributionSettings,
    always_visible: np.ndarray | None = None,
) -> Estimation:
    """Return an estimation by the name of its estimator.

    Without a number of evaluations the budget is 10 * (2 * players + 1), as in the released
    scripts.

    Args:
        name: A name in `COALITION_ESTIMATORS`.
        players: Number of players, text first.
        text_players: Number of text players.
        settings: Evaluations, seed and target standard error; `exact` uses none of them.
        always_visible: Whether no coalition masks a player, bool of shape (players,). A regression
            skips these players. None if every player can be masked.
    Raises:
        UserError: There is no such estimator, or it does not fit the settings or the number of
            players.
    """
    if name not in COALITION_ESTIMATORS:
        raise UserError(
            f"attribution.estimator: unknown name (got {name!r}); take one of {', '.join(ESTIMATORS)}"
        )
    if name == "exact":
        return begin_exact(players)
    evaluations = settings.evaluations
    if evaluations is None:
        evaluations = count_published_evaluations(players)
    if name == "permutation":
        return begin_permutations(
            players, evaluations, settings.seed, text_players, settings.standard_error
        )
    if name == "regression":
        free = (
            np.ones(players, dtype=bool) if always_visible is None else ~always_visible
        )
        return spread_players(
            _begin_free_regression(free, text_players, evaluations, settings), free
        )
    if settings.standard_error is not None:
        raise UserError(
            f"attribution.standard_error: {name} has no standard error to stop at; leave it out or take regression"
        )
    return begin_shapiq(name, players, evaluations, settings.seed)


def _begin_free_regression(
    free: np.ndarray, text_players: int, evaluations: int, settings: AttributionSettings
) -> Estimation:
    """Return a regression on the maskable players, or an exact estimation if the budget allows all
    their coalitions.

    Args:
        free: Whether coalitions mask a player, bool of shape (players,).
        text_players: Number of text players, maskable or not.
        evaluations: Maximum number of coalitions.
    """
    # Exact values have no standard error that could reach a target, so that a target asks for a
    # regression.
    count = int(free.sum())
    free_text_players = int(free[:text_players].sum())
    can_be_exact = count <= MAX_EXACT_PLAYERS and 2**count <= evaluations
    if count < 2 or (can_be_exact and settings.standard_error is None):
        return begin_exact(count)
    return begin_regression(
        count, evaluations, settings.seed, free_text_players, settings.standard_error
    )


def choose_sampler(free: int, players: int, evaluations: int) -> str:
    """Return the estimator that `auto` takes if exact values need too many coalitions: `regression`
    or `permutation`.

    It is a permutation if there are more evaluations than a regression can use, or if the
    evaluations suffice for a permutation but not for a regression. If they suffice for neither, the
    regression reports how many it needs.

    Args:
        free: Number of players that coalitions mask.
        players: Number of all players, each of which a permutation masks.
        evaluations: Maximum number of coalitions.
    """
    suffices_for_permutation_alone = (
        count_permutation_coalitions(players) <= evaluations < count_fixed_subsets(free)
    )
    if suffices_for_permutation_alone or evaluations > MAX_COALITIONS:
        return "permutation"
    return "regression"


def begin_permutations(
    players: int,
    evaluations: int,
    seed: int,
    text_players: int = 0,
    standard_error: float | None = None,
) -> Estimation:
    """Estimate Shapley values by permutation sampling; a round evaluates one permutation.

    A permutation adds the players one by one to the empty coalition and then removes them in the
    same order. This takes 2 * players + 1 coalitions and gives two differences for each player,
    whose mean is exact if no three players interact. A larger budget with the same seed begins with
    the rounds of a smaller one. A separate generator draws the same permutations as shap after
    `numpy.random.seed(seed)`.

    Args:
        players: Number of players, text first.
        evaluations: Maximum number of coalitions; floor(evaluations / (2 * players + 1))
            permutations are drawn.
        seed: Seed of the permutations, 0 to 2**32 - 1.
        text_players: Number of text players, for `standard_error`.
        standard_error: Stop once the standard error of T-SHAP, a share, is at most this, after at
            least ten permutations; None draws them all.
    Returns:
        An estimation with one part for each permutation.
    Raises:
        UserError: The evaluations do not suffice for one permutation, or the seed is out of range.
    Source:
        `shap.PermutationExplainer`, with whose values the tests compare; MM-SHAP's released scripts
        use it with ten permutations.
    """
    required = count_permutation_coalitions(players)
    if evaluations < required:
        raise UserError(
            f"attribution.evaluations: too small for one permutation of {players} players (got {evaluations}, expected"
            f" at least {required}); set at least {required}"
        )
    check_numpy_seed(seed)
    # Without players the only coalition is empty.
    if players == 0:
        values = np.asarray((yield np.zeros((1, 0), dtype=bool)), dtype=np.float64)
        return Estimate(
            np.zeros((0, values.shape[1])),
            values[0],
            values[0],
            requested=1,
            exact=True,
        )
    requested = 0
    is_reached = False
    parts: list[np.ndarray] = []  # of shape (players, outputs) each
    # Evaluations that do not suffice for another full permutation stay unused, as in shap.
    for order in _draw_orders(players, evaluations // required, seed):
        # (2 * players + 1, outputs)
        values = np.asarray((yield _build_walk(order)), dtype=np.float64)
        requested += len(values)
        # The walk begins with the empty coalition and has all players in its middle.
        if not parts:
            base_value, value = values[0], values[players]
        parts.append(_compute_part(order, values))
        # Few permutations can agree by chance, so that the error is trusted only from MIN_PARTS on.
        if standard_error is not None and len(parts) >= MIN_PARTS:
            is_reached = (
                compute_t_shap_error(np.stack(parts), text_players) <= standard_error
            )
        if is_reached:
            break
    return Estimate(
        phi=np.mean(parts, axis=0),
        base_value=base_value,
        value=value,
        requested=requested,
        parts=np.stack(parts),
        stopped_by=describe_stop(standard_error, is_reached),
    )


def check_numpy_seed(seed: int) -> None:
    """Refuse a number that cannot seed numpy's global generator."""
    if not 0 <= seed < 2**32:
        raise UserError(
            f"seed: {seed} is not a seed of numpy's global generator; take 0 to {2**32 - 1}"
        )


def _draw_orders(players: int, permutations: int, seed: int) -> Iterator[np.ndarray]:
    """Yield random orders of the players; each is shuffled from the order before, as numpy's global
    generator does.
    """
    generator = np.random.RandomState(seed)
    order = np.arange(players)
    for _ in range(permutations):
        generator.shuffle(order)
        yield order.copy()


def _build_walk(order: np.ndarray) -> np.ndarray:
    """Return the coalitions from the empty one to all players and back: bool of shape (2 * players
    + 1, players).
    """
    # rank[i]: when player i joins
    rank = order.argsort()
    # (players + 1, players): members after each step
    has_joined = rank < np.arange(len(order) + 1)[:, None]
    # On the way back the players leave in the same order.
    return np.concatenate([has_joined, ~has_joined[1:]])


def _compute_part(order: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the Shapley values that one permutation gives: for each player, the mean of its two
    differences.

    Args:
        order: The permutation, int64 of shape (players,).
        values: Values of its coalitions, float64 of shape (2 * players + 1, outputs).
    """
    players = len(order)
    # (2 * players, outputs): first the players join, then they leave
    steps = np.diff(values, axis=0)
    # A player's joining is a gain; its leaving has the opposite sign.
    part = np.empty((players, values.shape[1]))
    part[order] = (steps[:players] - steps[players:]) / 2
    return part


def begin_exact(players: int) -> Estimation:
    """Compute Shapley values by their definition, in one round of all 2**players coalitions.

    phi_i = sum over coalitions S without i of s! (n - s - 1)! / n! * (v(S and i) - v(S)), with s
    players in S.

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
    # Bit i of a coalition's number says whether player i takes part.
    numbers = np.arange(2**players)
    masks = (numbers[:, None] >> np.arange(players) & 1).astype(bool)
    values = np.asarray((yield masks.copy()), dtype=np.float64)  # (2**players, outputs)
    sizes = masks.sum(axis=1)
    # w(s) = s! (n - s - 1)! / n!
    weights = np.array(
        [
            factorial(s) * factorial(players - s - 1) / factorial(players)
            for s in range(players)
        ]
    )
    phi = np.empty((players, values.shape[1]))
    for player in range(players):
        without = numbers[~masks[:, player]]
        # v(S and i) - v(S) for all coalitions S without player i: (2**(players - 1), outputs).
        gains = values[without | 1 << player] - values[without]
        phi[player] = weights[sizes[without]] @ gains
    return Estimate(phi, values[0], values[-1], requested=len(masks), exact=True)


def begin_shapiq(name: str, players: int, evaluations: int, seed: int) -> Estimation:
    """Estimate Shapley values by an approximator of shapiq, in one round.

    The coalitions depend on the seed alone, so that a first run records them and a second run takes
    their values. The estimate has no independent parts and therefore no standard error. The values
    of SVARM, StratifiedSamplingSV and OwenSamplingSV need not sum to v(all) - v(none); the residual
    states the difference. KernelSHAP draws coalitions with their complements.

    Args:
        name: A name in `MIN_SHAPIQ_EVALUATIONS`.
        players: Number of players; below two the values are exact.
        evaluations: Maximum number of coalitions.
    Raises:
        UserError: The evaluations are too few, or the drawn coalitions do not determine
            KernelSHAP's regression.
    """
    if players < 2:
        return (yield from begin_exact(players))
    required = MIN_SHAPIQ_EVALUATIONS[name](players)
    if evaluations < required:
        raise UserError(
            f"attribution.evaluations: too small for {name} and {players} players (got {evaluations}, expected at least"
            f" {required}); set at least {required}"
        )
    # The empty coalition and the coalition of all players are always evaluated. OwenSamplingSV may
    # request only one of them, so that one evaluation is reserved for the other.
    budget = evaluations - (name == "OwenSamplingSV")
    nobody = np.zeros((1, players), dtype=bool)
    # First run: record which coalitions the approximator requests.
    recorder = CoalitionRecorder()
    _approximate(name, players, budget, seed, recorder)
    masks = recorder.coalitions
    for end in (nobody, ~nobody):
        if not _is_row(masks, end).any():
            masks = np.concatenate([masks, end])
    # The regression of KernelSHAP needs as many linearly independent coalitions as there are
    # players.
    if name == "KernelSHAP" and np.linalg.matrix_rank(masks) < players:
        raise UserError(
            f"attribution.evaluations: too small for {name}: {evaluations} coalitions with seed {seed} do not determine"
            f" {players} players; set more"
        )
    values = np.asarray((yield masks.copy()), dtype=np.float64)
    phi = np.empty((players, values.shape[1]))
    # Second run, once for each output since shapiq explains one: the same seed requests the same
    # coalitions again.
    is_estimated = False
    for output, column in enumerate(values.T):
        approximation = _approximate(
            name, players, budget, seed, _replay(masks, column)
        )
        phi[:, output] = [approximation[(player,)] for player in range(players)]
        is_estimated = is_estimated or bool(approximation.estimated)
    return Estimate(
        phi=phi,
        base_value=values[_is_row(masks, nobody).argmax()],
        value=values[_is_row(masks, ~nobody).argmax()],
        requested=len(masks),
        exact=not is_estimated,
    )


class CoalitionRecorder:
    """Record the coalitions that an approximator of shapiq requests, and return 0 as the value of
    each.
    """

    def __init__(self) -> None:
        """Begin without coalitions."""
        self._recorded: list[np.ndarray] = []

    @property
    def coalitions(self) -> np.ndarray:
        """Return the requested coalitions in order, bool of shape (k, players)."""
        return np.concatenate(self._recorded)

    def __call__(self, masks: np.ndarray) -> np.ndarray:
        """Return zeros, one for each coalition."""
        self._recorded.append(np.array(masks, dtype=bool, ndmin=2))
        return np.zeros(len(self._recorded[-1]))


def _is_row(masks: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Return whether each coalition equals one coalition: bool of shape (k,)."""
    equal: np.ndarray = (masks == row).all(axis=1)
    return equal


def _approximate(
    name: str, players: int, budget: int, seed: int, value: CoalitionValue
) -> "InteractionValues":
    # The import takes a second, and few studies name an estimator of shapiq.
    import shapiq

    paired = {"pairing_trick": True} if name == "KernelSHAP" else {}
    approximator = getattr(shapiq, name)(n=players, random_state=seed, **paired)
    with warnings.catch_warnings():
        # A budget above 2**players is allowed, so that shapiq's warning about it is noise.
        warnings.filterwarnings("ignore", message="Not all budget is required")
        values: InteractionValues = approximator.approximate(budget, value)
    return values


def _replay(masks: np.ndarray, values: np.ndarray) -> CoalitionValue:
    """Return a value function that returns known values for the same coalitions, requested in the
    same order.

    Args:
        masks: The coalitions in order, bool of shape (k, players).
        values: The value of each, float64 of shape (k,).
    """
    position = 0

    def value(coalitions: np.ndarray) -> np.ndarray:
        nonlocal position
        requested = np.atleast_2d(coalitions)
        rows = slice(position, position + len(requested))
        if not np.array_equal(masks[rows], requested):
            raise RuntimeError(
                "shapiq requested other coalitions than with the same seed before"
            )
        position = rows.stop
        return values[rows]

    return value
