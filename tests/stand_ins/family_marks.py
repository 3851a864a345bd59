"""Tests that go over many families of models: a few families represent them in plain `pytest`."""

from collections.abc import Iterable
from typing import Any

import pytest


def mark_families(names: Iterable[str], *plain: str) -> list[Any]:
    """Return names of families as parameters, all but the plain ones with the marker `families`.

    Args:
        names: All families that a test goes over.
        plain: Families that plain `pytest` goes over, one for each mechanism that the test protects.
    """
    all_names = list(names)
    unknown = set(plain) - set(all_names)
    assert not unknown, f"{sorted(unknown)}: not among {all_names}"
    return [
        pytest.param(name, marks=() if name in plain else pytest.mark.families)
        for name in all_names
    ]
