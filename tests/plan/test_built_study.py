"""The study that `waltz build` writes."""

from waltz.plan.built_study import build_caption_study, leave_out


def test_instruments_are_left_out_with_their_answers():
    source = {"format": "captions", "files": {"captions": {"path": "c.csv"}}}
    study = build_caption_study(
        "build-c",
        source,
        ["plurality", "counting-balanced"],
        size=10,
        js=0.3,
        seed=0,
        annotations={"counting-balanced": "answers/counting-balanced.csv"},
    )
    left = leave_out(study, ["counting-balanced"])
    assert list(left["instruments"]) == ["plurality"]
    assert left["groups"] == {"pairs": ["plurality"]}
    assert left["benchmark"] == {"valid_votes": 1}
    assert leave_out(study, []) == study
