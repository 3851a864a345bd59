"""Compute in Kleene's logic of three values: True, False, and None for unknown."""

from collections.abc import Iterable

TruthValue = bool | None
"""True, false, or None for unknown."""


def conjoin(values: Iterable[TruthValue]) -> TruthValue:
    """Return False if one value is false, else None if one is unknown, else True."""
    result: TruthValue = True
    for value in values:
        if value is False:
            return False
        if value is None:
            result = None
    return result


def disjoin(values: Iterable[TruthValue]) -> TruthValue:
    """Return True if one value is true, else None if one is unknown, else False."""
    return negate(conjoin(map(negate, values)))


def negate(value: TruthValue) -> TruthValue:
    """Return the opposite; the opposite of unknown is unknown."""
    if value is None:
        return None
    return not value


def require_agreement(values: Iterable[TruthValue]) -> TruthValue:
    """Return the value that all values share, or None if they differ or there are no values."""
    distinct = set(values)
    if len(distinct) == 1:
        return distinct.pop()
    return None
