"""Shapley values from permutations, each walked forward and back, as `shap` draws and averages them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import shap
from shap.utils import _masked_model

from waltz.attribution import t_shap
from waltz.attribution.estimate import Estimate, Estimation
from waltz.core.errors import UserError

PUBLISHED = 10
"""Permutations of one explanation in the fork of `shap` that MM-SHAP was released with, whatever the budget."""
AT_FIRST = 32
"""Permutations that are drawn before any is asked."""
FEWEST = 5
"""Permutations before a standard error is trusted to stop the sampling."""

Value = Callable[[np.ndarray], np.ndarray]
"""From coalitions, bool of shape (k, players), to values, float64 of shape (k, outputs)."""


def published_evaluations(players: int) -> int:
    """Coalitions that the released MM-SHAP scripts ask for: ten permutations of 2 * players + 1."""
    return PUBLISHED * (2 * players + 1)


def permutation(
    players: int, evaluations: int, seed: int, text_players: int = 0, standard_error: float | None = None
) -> Estimation:
    """Shapley values by permutation sampling; a round asks for one permutation.

    A permutation adds the players one by one to nobody and takes them away in the same order: 2 * players + 1
    coalitions, and two differences a player, whose mean is exact where no three players interact. A larger budget
    with the same seed begins with the rounds of a smaller one. What is drawn is what `shap` draws after
    `numpy.random.seed(seed)`; numpy's global generator is left as it was found.

    Args:
        players: Number of players, text first.
        evaluations: Most coalitions; floor(evaluations / (2 * players + 1)) permutations are drawn.
        seed: Seed of the permutations, 0 to 2**32 - 1.
        text_players: Number of text players, for `standard_error`.
        standard_error: Stop once the standard error of T-SHAP, a share, is at most this, after at least five
            permutations; None draws them all.
    Returns:
        An estimation whose parts are the permutations.
    Raises:
        UserError: The evaluations do not do for one permutation, or the seed is out of range.
    Source:
        `shap.PermutationExplainer`; MM-SHAP's released scripts use it with ten permutations.
    """
    least = 2 * players + 1
    if evaluations < least:
        raise UserError(
            f"attribution.evaluations: {evaluations} do not do for one permutation of {players} players; "
            f"ask for at least {least}"
        )
    if not 0 <= seed < 2**32:
        raise UserError(f"attribution.seed: {seed} is no seed of numpy's global generator; take 0 to {2**32 - 1}")
    if players == 0:
        return _nobody()
    return _estimation(players, evaluations // least, seed, text_players, standard_error)


def _estimation(
    players: int, permutations: int, seed: int, text_players: int, standard_error: float | None
) -> Estimation:
    values: list[np.ndarray] = []
    parts: list[np.ndarray] = []
    reached = False
    for masks in _rounds(players, permutations, seed):
        found = np.asarray((yield masks.copy()), dtype=np.float64)
        values.append(found)
        parts.append(_part(masks, found))
        if standard_error is not None and len(parts) >= FEWEST:
            reached = t_shap.jackknife(np.stack(parts), text_players) <= standard_error
            if reached:
                break
    known = iter(values)
    phi = _explain(players, len(values), seed, lambda masks: next(known)).values
    return Estimate(
        phi=np.asarray(phi, dtype=np.float64).reshape(players, -1),
        base_value=values[0][0],
        value=values[0][players],
        asked=sum(map(len, values)),
        parts=np.stack(parts),
        stopped_by=None if standard_error is None else "standard error" if reached else "evaluations",
    )


def _rounds(players: int, permutations: int, seed: int) -> Iterator[np.ndarray]:
    """The coalitions of each permutation, drawn again from the first one where more are needed: sampling may stop."""
    drawn = 0
    while drawn < permutations:
        rounds: list[np.ndarray] = []
        _explain(players, min(permutations, max(AT_FIRST, 2 * drawn)), seed, partial(_record, rounds))
        yield from rounds[drawn:]
        drawn = len(rounds)


def _record(rounds: list[np.ndarray], masks: np.ndarray) -> np.ndarray:
    """A value function that notes what it is asked."""
    rounds.append(masks)
    return np.zeros((len(masks), 1))


def _nobody() -> Estimation:
    """The estimation of a game without players, which `shap` refuses."""
    found = np.asarray((yield np.zeros((1, 0), dtype=bool)), dtype=np.float64)
    return Estimate(np.zeros((0, found.shape[1])), found[0], found[0], asked=1, exact=True)


def _part(masks: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The Shapley values by one permutation: the mean of its two differences of each player."""
    players = masks.shape[1]
    order = (masks[1 : players + 1] ^ masks[:players]).argmax(axis=1)
    steps = np.diff(values, axis=0)
    part = np.empty((players, values.shape[1]))
    part[order] = (steps[:players] - steps[players:]) / 2
    return part


class _Masker:
    """What `shap` asks to turn the players that change into the coalitions of one permutation, in one call."""

    supports_delta_masking = True

    def __call__(self, changes: np.ndarray, row: np.ndarray) -> tuple[tuple[np.ndarray], np.ndarray]:
        """Coalitions after each change, and that each is one row; the first change is that of nobody."""
        flips = np.zeros((len(changes), row.size), dtype=np.int64)
        flips[np.arange(1, len(changes)), changes[1:]] = 1
        return (flips.cumsum(axis=0) % 2 == 1,), np.ones((len(changes), 1), dtype=bool)


def _explain(players: int, permutations: int, seed: int, value: Value) -> Any:
    """Run `shap`, which seeds numpy's global generator and draws from it, and put the generator back.

    It draws whatever the values are, so that a first run tells the coalitions and a second one takes their values.
    """
    state = np.random.get_state()
    try:
        with _interpreted():
            explainer = shap.PermutationExplainer(value, _Masker(), link=_identity, linearize_link=False, seed=seed)
            round_size = 2 * players + 1
            return explainer(
                np.zeros((1, players)), max_evals=permutations * round_size, batch_size=round_size, silent=True
            )
    finally:
        np.random.set_state(state)


def _identity(value: Any) -> Any:
    return value


@contextmanager
def _interpreted() -> Iterator[None]:
    """Let `shap` copy values in Python: numba takes seconds in each process to compile what takes milliseconds."""
    compiled = _masked_model._build_fixed_multi_output
    _masked_model._build_fixed_multi_output = getattr(compiled, "py_func", compiled)
    try:
        yield
    finally:
        _masked_model._build_fixed_multi_output = compiled
