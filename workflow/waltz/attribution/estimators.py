"""The estimators of Shapley values by name."""

from collections.abc import Callable
from functools import partial

from waltz.attribution.estimate import Estimation
from waltz.attribution.exact import exact
from waltz.attribution.permutations import permutation, published_evaluations
from waltz.attribution.sampling import SHAPIQ, sampling
from waltz.attribution.settings import Settings
from waltz.core.errors import UserError

Maker = Callable[[int, int, Settings], Estimation]
"""From the number of players and of text players among them to an estimation that is not begun."""


def _permutation(players: int, text_players: int, settings: Settings) -> Estimation:
    evaluations = published_evaluations(players) if settings.evaluations is None else settings.evaluations
    return permutation(players, evaluations, settings.seed, text_players, settings.standard_error)


def _exact(players: int, text_players: int, settings: Settings) -> Estimation:
    return exact(players)


def _sampling(name: str, players: int, text_players: int, settings: Settings) -> Estimation:
    if settings.standard_error is not None:
        raise UserError(
            f"attribution.standard_error: {name} tells no standard error to stop at; leave it out or take permutation"
        )
    evaluations = published_evaluations(players) if settings.evaluations is None else settings.evaluations
    return sampling(name, players, evaluations, settings.seed)


BY_MASKS: dict[str, Maker] = {
    "permutation": _permutation,
    "exact": _exact,
    **{name: partial(_sampling, name) for name in SHAPIQ},
}
"""Estimators of any game, which ask for the values of coalitions."""


FACTORISED = ("exact-factorised", "factorised-permutation")
"""Estimators of games of late fusion, which ask for vectors: see `attribution.factorised`."""

NAMES = ("auto", *BY_MASKS, *FACTORISED)
"""Every name that a study or a command can give."""


def estimation(name: str, players: int, text_players: int, settings: Settings) -> Estimation:
    """Begin an estimator; without a number of evaluations it may ask for 10 * (2 * players + 1).

    Args:
        name: A name in `BY_MASKS`.
        players: Number of players, text first.
        text_players: Number of text players.
        settings: Evaluations, seed and the wanted standard error; `exact` uses none of them.
    Raises:
        UserError: There is no such estimator, it cannot do what the settings ask, or not for as many players.
    """
    if name not in BY_MASKS:
        raise UserError(f"attribution.estimator: there is no {name!r}; take one of {', '.join(NAMES)}")
    return BY_MASKS[name](players, text_players, settings)
