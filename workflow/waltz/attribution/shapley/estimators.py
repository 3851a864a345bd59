"""The estimators of Shapley values by name."""

from collections.abc import Callable
from functools import partial

from waltz.attribution.settings import Settings
from waltz.attribution.shapley.estimate import Estimation
from waltz.attribution.shapley.exact import begin_exact
from waltz.attribution.shapley.permutations import begin_permutations, count_published_evaluations
from waltz.attribution.shapley.shapiq_estimators import MIN_EVALUATIONS, begin_shapiq
from waltz.core.errors import UserError

EstimationBuilder = Callable[[int, int, Settings], Estimation]
"""From the number of players and of text players among them to an estimation that is not begun."""


def _permutation(players: int, text_players: int, settings: Settings) -> Estimation:
    evaluations = count_published_evaluations(players) if settings.evaluations is None else settings.evaluations
    return begin_permutations(players, evaluations, settings.seed, text_players, settings.standard_error)


def _exact(players: int, text_players: int, settings: Settings) -> Estimation:
    return begin_exact(players)


def _sampling(name: str, players: int, text_players: int, settings: Settings) -> Estimation:
    if settings.standard_error is not None:
        raise UserError(
            f"attribution.standard_error: {name} tells no standard error to stop at; leave it out or take permutation"
        )
    evaluations = count_published_evaluations(players) if settings.evaluations is None else settings.evaluations
    return begin_shapiq(name, players, evaluations, settings.seed)


COALITION_ESTIMATORS: dict[str, EstimationBuilder] = {
    "permutation": _permutation,
    "exact": _exact,
    **{name: partial(_sampling, name) for name in MIN_EVALUATIONS},
}
"""Estimators of any game, which ask for the values of coalitions."""


FACTORISED_ESTIMATORS = ("exact-factorised", "factorised-permutation")
"""Estimators of games of late fusion, which ask for vectors: see `attribution.factorised`."""

ESTIMATORS = ("auto", *COALITION_ESTIMATORS, *FACTORISED_ESTIMATORS)
"""Every name that a study or a command can give."""


def begin_estimation(name: str, players: int, text_players: int, settings: Settings) -> Estimation:
    """Begin an estimator; without a number of evaluations it may ask for 10 * (2 * players + 1).

    Args:
        name: A name in `BY_MASKS`.
        players: Number of players, text first.
        text_players: Number of text players.
        settings: Evaluations, seed and the wanted standard error; `exact` uses none of them.
    Raises:
        UserError: There is no such estimator, it cannot do what the settings ask, or not for as many players.
    """
    if name not in COALITION_ESTIMATORS:
        raise UserError(f"attribution.estimator: there is no {name!r}; take one of {', '.join(ESTIMATORS)}")
    return COALITION_ESTIMATORS[name](players, text_players, settings)
