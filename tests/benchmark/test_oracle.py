"""Shares of the scenes' oracle for scenes whose truth is obvious."""

import pytest

from stand_ins.records import build_candidates
from waltz.benchmark.oracle import (
    build_candidate_groups,
    cast_votes,
    compute_oracle_shares,
)
from waltz.benchmark.votes import ItemVotes
from waltz.core.intervals import Resampling
from waltz.scenes.graph import Action, Graph, Object, SpriteCell
from waltz.scenes.oracle import decide_truth
from waltz.scenes.writers.files import find_scene

NO_CONTRADICTION = "no contradiction"


def cells(count, x):
    return tuple(SpriteCell(x, 20 * number, 18) for number in range(count))


DOGS = Graph(
    "dogs", "grass", (Object("dog", cells(2, 0)), Object("cat", cells(1, 100)))
)
RIDER = Graph(
    "rider",
    "street",
    (Object("man", cells(1, 0)), Object("horse", cells(1, 60))),
    (),
    Action("riding", 0, 1),
)
GRAPHS = [DOGS, RIDER]


def row(number, image, caption, foil, *, grammaticality=None, nli=None, rejected=None):
    entailment, neutral, contradiction = nli or (None, None, None)
    columns = {
        "item_id": str(number),
        "image": image,
        "caption": caption,
        "foil": foil,
        "grammaticality": grammaticality,
        "nli_entailment": entailment,
        "nli_neutral": neutral,
        "nli_contradiction": contradiction,
        "kept": rejected is None,
        "rejected": rejected,
    }
    (record,) = build_candidates([columns])
    return record


NO, YES = (0.6, 0.3, 0.1), (0.1, 0.2, 0.7)
ONE, TWO = "000000000001.png", "v7w_2.png"
ROWS = [
    row(
        0,
        ONE,
        "There are two dogs.",
        "There are three dogs.",
        grammaticality=0.9,
        nli=YES,
    ),
    row(
        1,
        ONE,
        "There are three dogs.",
        "There is a dog.",
        grammaticality=0.9,
        nli=NO,
        rejected=NO_CONTRADICTION,
    ),
    row(
        2,
        ONE,
        "There is a cat.",
        "There is cats a.",
        grammaticality=0.1,
        nli=YES,
        rejected="grammaticality below 0.5",
    ),
    row(
        3,
        TWO,
        "There is a man.",
        "There is a woman.",
        grammaticality=0.9,
        nli=YES,
        rejected="balancing: not chosen",
    ),
    row(4, TWO, "There is a horse.", "There is a man.", rejected="the same words"),
]


@pytest.fixture(scope="module")
def shares():
    rows = compute_oracle_shares(
        "x",
        ROWS,
        lambda image: find_scene(image, GRAPHS),
        build_candidate_groups(0.5),
        Resampling(50, 0.9, 1),
    )
    assert {entry.instrument for entry in rows} == {"x"}
    return {(entry.candidates, entry.metric): entry for entry in rows}


def test_the_oracle_decides_the_texts_of_the_example():
    captions = [
        decide_truth(find_scene(row.image, GRAPHS), row.caption) for row in ROWS
    ]
    assert captions == ["true", "false", "true", "true", "true"]
    foils = [decide_truth(find_scene(row.image, GRAPHS), row.foil) for row in ROWS]
    assert foils == ["false", "true", "unknown", "false", "true"]


@pytest.mark.parametrize(
    ("group", "members", "captions", "foils", "decided", "in_grammar"),
    [
        ("attested", 4, (75, 4), (200 / 3, 3), 75, 75),
        ("grammatical", 3, (200 / 3, 3), (200 / 3, 3), 100, 100),
        ("contradicting", 3, (100, 3), (100, 2), 200 / 3, 200 / 3),
        ("filtered", 2, (100, 2), (100, 2), 100, 100),
        ("items", 1, (100, 1), (100, 1), 100, 100),
    ],
)
def test_shares_before_and_after_each_filter(
    shares, group, members, captions, foils, decided, in_grammar
):
    def share(metric):
        return shares[group, metric].measure.value, shares[group, metric].measure.n

    assert share("captions_true") == pytest.approx(captions)
    assert share("foils_false") == pytest.approx(foils)
    assert share("captions_decided") == pytest.approx((100, members))
    assert share("foils_decided") == pytest.approx((decided, members))
    assert share("foils_in_grammar") == pytest.approx((in_grammar, members))
    for metric in ("captions_true", "foils_false", "foils_in_grammar"):
        entry = shares[group, metric]
        if entry.measure.n == 1:
            assert (entry.measure.ci_low, entry.measure.ci_high) == (None, None)
            continue
        assert 0 <= entry.measure.ci_low <= entry.measure.value + 1e-9
        assert entry.measure.value - 1e-9 <= entry.measure.ci_high <= 100


def test_a_group_without_members_has_a_reason():
    rows = compute_oracle_shares(
        "x",
        ROWS[4:],
        lambda image: find_scene(image, GRAPHS),
        build_candidate_groups(None),
        Resampling(5, 0.9, 1),
    )
    assert {
        (entry.measure.value, entry.measure.n, entry.measure.reason) for entry in rows
    } == {(None, 0, "there is no such candidate")}


def test_without_a_threshold_every_scored_candidate_is_grammatical():
    is_grammatical = build_candidate_groups(None)["grammatical"]
    assert [is_grammatical(row) for row in ROWS] == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("image", "number"),
    [
        ("000000000001.png", 1),
        ("COCO_val2014_000000000002.png", 2),
        ("VisualDialog_val2018_000000000002.png", 2),
        ("v7w_1.png", 1),
        ("n2.png", 2),
        ("riding_2.png", 2),
    ],
)
def test_image_names_of_every_data_set_lead_to_their_scene(image, number):
    assert find_scene(image, GRAPHS) is GRAPHS[number - 1]


def test_a_still_shows_the_scene_without_its_action():
    still = find_scene("riding_2_still.png", GRAPHS)
    assert still.action is None
    assert [(entry.kind, entry.count) for entry in still.objects] == [
        ("man", 1),
        ("horse", 1),
    ]
    text = "A man rides a horse."
    assert (
        decide_truth(find_scene("riding_2.png", GRAPHS), text),
        decide_truth(still, text),
    ) == ("true", "false")


@pytest.mark.parametrize(
    "image", ["000000000003.png", "000000000000.png", "cat.png", "v7w_1"]
)
def test_other_names_are_refused(image):
    with pytest.raises(ValueError, match="image without a scene"):
        find_scene(image, GRAPHS)


def test_a_vote_of_the_oracle_counts_as_three():
    right, wrong = "There are two dogs.", "There are three dogs."
    candidates = [
        row("a", ONE, right, wrong),
        row("b", ONE, wrong, right),
        row("c", ONE, right, right),
        row("d", ONE, right, "A man admires a bicycle."),
    ]
    assert cast_votes(candidates, lambda image: DOGS, 2) == {
        "a": ItemVotes(caption=3, foil=0, other=0, valid=True),
        "b": ItemVotes(caption=0, foil=3, other=0, valid=False),
        "c": ItemVotes(caption=0, foil=0, other=3, valid=False),
        "d": ItemVotes(caption=0, foil=0, other=3, valid=False),
    }
