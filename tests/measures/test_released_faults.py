"""Released faults one by one: which rules a switch changes, and differences worked by hand."""

import pytest

from waltz.core.intervals import Resampling
from waltz.fidelity import EQUATIONS, PUBLISHED, get_fidelity
from waltz.measures.released_faults import SWITCHES, compare_values, switch_on


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_changes_its_fields_alone_and_ends_with_the_block(name):
    with switch_on(SWITCHES[name]):
        switched = get_fidelity("equations")
    changed = {field for field in vars(EQUATIONS) if getattr(switched, field) != getattr(EQUATIONS, field)}
    assert changed == set(SWITCHES[name])
    assert all(getattr(switched, field) == getattr(PUBLISHED, field) for field in changed)
    assert get_fidelity("equations") is EQUATIONS


def test_a_switch_ends_when_the_block_fails():
    with pytest.raises(ZeroDivisionError), switch_on(["first_step_only"]):
        raise ZeroDivisionError
    assert get_fidelity("equations") is EQUATIONS


def test_differences_are_of_items_that_have_both_values():
    plain = {("d", "1", "cot"): {"cc_shap": 0.5}, ("d", "2", "cot"): {"cc_shap": 0.1}}
    switched = {
        ("d", "1", "cot"): {"cc_shap": 0.2},
        ("d", "2", "cot"): {"cc_shap": 0.3},
        ("d", "3", "cot"): {"cc_shap": 1.0},
    }
    rows = {row["quantity"]: row for row in compare_values("m", "x", plain, switched, Resampling(100, 0.95, 1))}
    assert (rows["cc_shap"]["value"], rows["cc_shap"]["n"]) == (0.5, 3)
    assert (rows["cc_shap_difference"]["value"], rows["cc_shap_difference"]["n"]) == (pytest.approx(-0.05), 2)
    assert rows["cc_shap_absolute_difference"]["value"] == pytest.approx(0.25)
    assert rows["t_shap_answer"]["reason"] == "no item has a value"
