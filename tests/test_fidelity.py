"""The rules of the two profiles."""

import dataclasses

import pytest

from waltz.core.errors import UserError
from waltz.fidelity import EQUATIONS, PROFILES, PUBLISHED, get_fidelity


def test_profiles_are_found_by_the_names_that_studies_use():
    assert list(PROFILES) == ["published", "equations"]
    assert get_fidelity("published") is PUBLISHED
    assert get_fidelity("equations") is EQUATIONS


def test_every_rule_differs_between_the_profiles():
    # a field with one value in both is no switch and belongs to the code that uses it
    published, equations = dataclasses.asdict(PUBLISHED), dataclasses.asdict(EQUATIONS)
    assert [name for name in published if published[name] == equations[name]] == []


def test_an_unknown_profile_is_refused():
    with pytest.raises(
        UserError,
        match=r"profile: unknown name \(got 'thesis', expected published or equations\)",
    ):
        get_fidelity("thesis")
