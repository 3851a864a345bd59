"""The estimators of Shapley values by name."""

from collections.abc import Callable
from functools import partial

from waltz.attribution.settings import AttributionSettings
from waltz.attribution.shapley.estimate import Estimation
from waltz.attribution.shapley.exact import begin_exact
from waltz.attribution.shapley.permutations import begin_permutations, count_published_evaluations
from waltz.attribution.shapley.shapiq_estimators import MIN_EVALUATIONS, begin_shapiq
from waltz.core.errors import UserError

EstimationBuilder = Callable[[int, int, AttributionSettings], Estimation]
"""From the numbers of players and of text players to an estimation."""


def _begin_permutations(players: int, text_players: int, settings: AttributionSettings) -> Estimation:
    evaluations = count_published_evaluations(players) if settings.evaluations is None else settings.evaluations
    return begin_permutations(players, evaluations, settings.seed, text_players, settings.standard_error)


def _begin_exact(players: int, text_players: int, settings: AttributionSettings) -> Estimation:
    return begin_exact(players)


def _begin_shapiq(name: str, players: int, text_players: int, settings: AttributionSettings) -> Estimation:
    if settings.standard_error is not None:
        raise UserError(
            f"attribution.standard_error: {name} has no standard error to stop at; leave it out or take permutation"
        )
    evaluations = count_published_evaluations(players) if settings.evaluations is None else settings.evaluations
    return begin_shapiq(name, players, evaluations, settings.seed)


COALITION_ESTIMATORS: dict[str, EstimationBuilder] = {
    "permutation": _begin_permutations,
    "exact": _begin_exact,
    **{name: partial(_begin_shapiq, name) for name in MIN_EVALUATIONS},
}
"""Estimators of any game, which need the values of coalitions."""


FACTORISED_ESTIMATORS = ("exact-factorised", "factorised-permutation")
"""Estimators of games of late fusion, which need vectors of each side: see `shapley.factorised`."""

ESTIMATORS = ("auto", *COALITION_ESTIMATORS, *FACTORISED_ESTIMATORS)
"""Every name that a study or a command can give."""


def begin_estimation(name: str, players: int, text_players: int, settings: AttributionSettings) -> Estimation:
    """Return an estimation by name; without a number of evaluations its budget is 10 * (2 * players + 1).

    Args:
        name: A name in `COALITION_ESTIMATORS`.
        players: Number of players, text first.
        text_players: Number of text players.
        settings: Evaluations, seed and target standard error; `exact` uses none of them.
    Raises:
        UserError: There is no such estimator, or it does not fit the settings or the number of players.
    """
    if name not in COALITION_ESTIMATORS:
        raise UserError(f"attribution.estimator: unknown name (got {name!r}); take one of {', '.join(ESTIMATORS)}")
    return COALITION_ESTIMATORS[name](players, text_players, settings)
