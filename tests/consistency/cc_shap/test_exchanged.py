"""CC-SHAP of answers with the explanations of other items."""

import pytest

from waltz.consistency.cc_shap.exchanged import Excess, compute_excesses
from waltz.core.schema import CcShapRecord


def build(item, answer, explanation, **columns):
    names = {"profile": "equations", "setting": "choice", "kind": "post-hoc", "seed": 0}
    ratios = {"value": 0.0, "ratios_answer": answer, "ratios_explanation": explanation}
    return CcShapRecord(**{"item_id": item, **names, **ratios, **columns})


def test_an_excess_worked_by_hand():
    records = [
        build("a", [1.0, 0.0], [3.0, 4.0]),  # own 3/5
        build("b", [0.0, 1.0], [0.0, 2.0]),  # own 1
        build("c", [1.0, 0.0], [1.0, 0.0]),  # own 1
        build("d", [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]),  # three players
    ]
    excesses = compute_excesses(records)
    # Centered, vectors of two players agree (1) or disagree (-1): a -1 of -1 and 1; b 1 of -1 and -1.
    # a with the explanations of b and c: 0 and 1; b with those of a and c: 4/5 and 0.
    assert excesses[0] == Excess(
        pytest.approx(0.6 - 0.5), 0.5, centered=pytest.approx(-1)
    )
    assert excesses[1] == Excess(pytest.approx(1 - 0.4), 1.0, centered=pytest.approx(1))
    assert excesses[3] is None


def test_items_of_one_image_and_other_runs_lend_no_explanation():
    answer = [1.0, 0.0]
    records = [
        build("a", answer, answer, image="x"),
        build("b", answer, answer, image="x"),
        build("c", answer, answer, kind="cot"),
        build("d", answer, answer, seed=1),
        build("e", answer, answer, profile="published"),
        build("f", answer, answer, value=None),
        build("g", answer, [0.0, 0.0]),
    ]
    assert compute_excesses(records) == [None] * 7
    # An equal explanation of another item identifies nothing.
    records.append(build("h", answer, answer, image="y"))
    assert compute_excesses(records)[0] == Excess(0.0, 0.5, centered=0.0)


def test_content_is_what_lies_between_the_common_beginning_and_end():
    # Players: "Is", two words, "?" and a patch.
    a, b, c = ("Is", "a", "b", "?"), ("Is", "c", "?", "?"), ("Is", "d", "d", "?")
    records = [
        build("a", [9.0, 1, 0, 9, 0], [9.0, 1, 0, 9, 0], shared_tokens=a),
        build("b", [9.0, 0, 1, 9, 0], [9.0, 3, 4, 9, 0], shared_tokens=b),
        build("c", [9.0, 0, 0, 9, 1], [9.0, 0, 0, 9, 1], shared_tokens=c),
        build("d", [9.0, 1], [9.0, 1], shared_tokens=("Is", "?")),
    ]
    excesses = compute_excesses(records)
    # a: own 1, with b 3/5, with c 0; b: own 4/5, with a and c 0; c: own 1, with a and b 0.
    assert [excess and excess.content for excess in excesses] == [
        pytest.approx(1 - 0.3),
        pytest.approx(0.8),
        pytest.approx(1.0),
        None,
    ]
    # Prompts of the same text have no content but patches.
    same = [build(name, [1.0, 2], [1.0, 2], shared_tokens=("Is", "?")) for name in "xy"]
    assert compute_excesses(same)[0].content is None


def test_exchanging_more_items_than_a_block_changes_nothing():
    records = [build(str(n), [1.0, n / 300], [n / 300, 1.0]) for n in range(300)]
    found = compute_excesses(records)[299]
    others = [(m / 300 + 299 / 300) for m in range(299)]
    norms = [(1 + (m / 300) ** 2) ** 0.5 for m in range(299)]
    own_norm = (1 + (299 / 300) ** 2) ** 0.5
    mean = sum(o / n for o, n in zip(others, norms, strict=True)) / own_norm / 299
    assert found.difference == pytest.approx(2 * 299 / 300 / own_norm**2 - mean)
