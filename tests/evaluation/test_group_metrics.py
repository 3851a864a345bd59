"""Text, image and group score of groups of two images and two captions."""

import itertools

import pytest

from stand_ins.records import build_evaluation
from waltz.core.errors import UserError
from waltz.core.intervals import Resampling
from waltz.evaluation.metrics.group_metrics import compute_group_metrics
from waltz.evaluation.metrics.summary import build_metric_records
from waltz.evaluation.settings import GROUP_METRICS
from waltz.fidelity import get_fidelity

HOW = Resampling(200, 0.95, 0)


def score_group(name, c0_i0, c1_i0, c1_i1, c0_i1, profile="equations"):
    """Rows of both items of a group, by the score of each caption with each image."""
    scores = {
        (f"{name}-1", "caption"): c0_i0,
        (f"{name}-1", "foil"): c1_i0,
        (f"{name}-2", "caption"): c1_i1,
        (f"{name}-2", "foil"): c0_i1,
    }
    return build_evaluation(
        {
            "item_id": item_id,
            "image": f"{item_id}.png",
            "role": role,
            "profile": profile,
            "setting": "alignment",
            "score": score,
        }
        for (item_id, role), score in scores.items()
    )


def compute(*scores):
    records = []
    groups = {}
    for place, of_group in enumerate(scores):
        records += score_group(f"g{place}", *of_group)
        groups |= {f"g{place}-1": f"g{place}", f"g{place}-2": f"g{place}"}
    return compute_group_metrics(records, groups, get_fidelity("equations"), "d", HOW)


@pytest.mark.parametrize(
    ("scores", "text", "image"),
    [
        ((2, 1, 2, 1), 100, 100),
        # The first image prefers each caption: its own caption wins twice with each text.
        ((4, 3, 2, 1), 100, 0),
        # The first caption scores higher everywhere.
        ((4, 2, 3, 3.5), 0, 100),
        ((1, 2, 1, 2), 0, 0),
        # A tie is wrong: of the texts of an image, of the images of a text.
        ((2, 2, 3, 1), 0, 100),
        ((3, 1, 2, 2), 0, 100),
        ((2, 1, 3, 2), 100, 0),
    ],
)
def test_scores_of_one_group(scores, text, image):
    measures = compute(scores)
    assert {name: measure.value for name, measure in measures.items()} == {
        "text_score": text,
        "image_score": image,
        "group_score": min(text, image),
    }


def test_scores_are_shares_of_groups():
    measures = compute((2, 1, 2, 1), (4, 3, 2, 1), (1, 2, 1, 2), (1, 2, 1, 2))
    assert [measures[name].value for name in GROUP_METRICS] == [50, 25, 25]
    assert measures["text_score"].n == 4


def test_random_scores_are_at_chance():
    # All 24 orders of four scores, each equally likely.
    measures = compute(*itertools.permutations((1, 2, 3, 4)))
    chances = [measures[name].value for name in GROUP_METRICS]
    assert chances == pytest.approx([25, 25, 100 / 6])


def test_groups_without_four_scores_are_left_out():
    both = {"g-1": "g", "g-2": "g"}
    fidelity = get_fidelity("equations")
    half = score_group("g", 2, 1, 2, 1)[:2]
    missing = score_group("g", 2, 1, 2, None)
    for records in (half, missing):
        measures = compute_group_metrics(records, both, fidelity, "d", HOW)
        assert measures["text_score"].value is None
        assert measures["text_score"].reason == (
            "none of 1 groups has scores of both images"
        )
    broken = score_group("g", 2, 1, 2, float("nan"))
    with pytest.raises(UserError, match="not a number"):
        compute_group_metrics(broken, both, fidelity, "d", HOW)


def test_data_sets_with_groups_have_the_scores_beside_acc_r():
    runs = {
        ("m", "d"): score_group("g", 4, 3, 2, 1),
        ("m", "e"): score_group("h", *range(4)),
    }
    records = build_metric_records(
        runs,
        ["equations"],
        HOW,
        averaged=["d", "e"],
        groups={"d": {"g-1": "g", "g-2": "g"}, "e": {}},
    )
    values = {
        (record.dataset, record.metric): record.measure.value for record in records
    }
    assert values["d", "acc_r"] == 100
    assert [values["d", name] for name in GROUP_METRICS] == [100, 0, 0]
    assert not {("e", "text_score"), ("average", "text_score")} & set(values)
    assert ("average", "acc_r") in values
