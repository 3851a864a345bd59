"""CV-Probes: contextual captions from annotations, written captions and their review, the four
conditions.
"""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waltz.benchmark.cv_probes import build_conditions, build_probe_captions
from waltz.core.errors import UserError
from waltz.core.schema import ProbeRecord
from waltz.foils.candidates import Refusal
from waltz.foils.cv_probes import (
    CONDITIONS,
    REPAIR_PROMPT,
    VERBS,
    FilledAbstract,
    ImageCaption,
    WrittenCaption,
    build_condition_items,
    build_contextual_captions,
    build_study_captions,
    fill_abstract,
    fill_roles,
    find_verb_span,
    list_forms,
    read_scene_captions,
    repair_caption,
    review_captions,
    select_images,
    select_verbs,
)
from waltz.foils.english.parsing import parse
from waltz.foils.english.simplification import simplify_caption
from waltz.foils.english.wordnet import read_swig_verbs
from waltz.scenes.oracle import decide_truth
from waltz.scenes.sampling import draw_scenes, remove_action
from waltz.scenes.writers import annotations as written
from waltz.sources.formats.swig import read_frames, read_situation_space
from waltz.sources.records import FrameRecord, RoleFiller

SWIG = read_swig_verbs()
SEED = 2026
BAPTIZING = "an AGENT baptizes a BAPTIZED in a LIQUID with a TOOL at a PLACE"


def frame(
    verb: str, abstract: str, image: str = "x_1.jpg", **glosses: str | None
) -> FrameRecord:
    return FrameRecord(
        source="imsitu",
        source_id=f"{image}#0",
        image=image,
        verb=verb,
        annotator=0,
        abstract=abstract,
        roles=[RoleFiller(role, gloss, gloss, None) for role, gloss in glosses.items()],
    )


def baptizing(**changes: str | None) -> FilledAbstract:
    glosses: dict[str, str | None] = {
        "agent": "priest",
        "baptized": "baby",
        "liquid": None,
        "tool": "hand",
    }
    result = fill_abstract(
        frame("baptizing", BAPTIZING, **(glosses | {"place": "church"} | changes))
    )
    assert isinstance(result, FilledAbstract)
    return result


def test_the_verbs_are_those_in_print(shared_data: Path) -> None:
    lines = (
        (shared_data.parent / "reference" / "cv-probes-1.csv")
        .read_text()
        .splitlines()[1:]
    )
    paper_verbs = [line.split(",")[5].replace("brows", "browse") for line in lines]
    assert [SWIG[verb].base for verb in VERBS] == paper_verbs


def test_an_abstract_is_filled_and_what_is_open_goes() -> None:
    assert baptizing() == FilledAbstract(
        "x_1.jpg#0",
        "an priest baptizes a baby in a with a hand at a church",
        "A priest baptizes a baby with a hand in a church.",
        "A priest baptizes a baby.",
    )
    assert (
        baptizing(place="outdoors", tool=None).caption
        == "A priest baptizes a baby outdoors."
    )
    assert (
        baptizing(agent="people", place="snow").caption
        == "The people baptize a baby with a hand in the snow."
    )


def test_a_frame_without_agent_gives_none() -> None:
    assert fill_abstract(frame("baptizing", BAPTIZING, agent=None)) == Refusal(
        "nobody fills the role before the verb"
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            'Here are the sentences:\n1. "A priest baptizes a baby in a church with his hands."\n2. More',
            "A priest baptizes a baby in a church with his hands.",
        ),
        (
            "A priest baptizes the baby with a hand, at church",
            "A priest baptizes the baby with a hand, at church.",
        ),
        # another tense, article or voice, other roles, no sentence
        ("The priest is baptizing the baby at church, with a hand", None),
        ("A priest baptized a baby with a hand in a church.", None),
        ("The priest baptizes a baby with a hand in a church.", None),
        ("A priest is baptized by a baby with a hand in a church.", None),
        ("A baby baptizes a priest with a hand in a church.", None),
        ("A priest baptizes a baby with a church in a hand.", None),
        ("With the hand church priest baptize baby a.", None),
        ("A priest baptizes a baby is with a hand in a church.", None),
        (
            "A priest holds a baby with a hand in a church.",
            None,
        ),
        ("A priest baptizes a baby in a church.", None),
        (
            "A woman baptizes a baby with a hand in a church.",
            None,
        ),
        ("", None),
    ],
)
def test_a_models_repair_must_keep_the_words(answer: str, expected: str | None) -> None:
    requests = []

    def generate(prompt: str) -> str:
        requests.append(prompt)
        return answer

    assert repair_caption(baptizing(), SWIG["baptizing"], generate) == expected
    assert requests == [
        f"{REPAIR_PROMPT}an priest baptizes a baby in a with a hand at a church"
    ]


def test_a_model_repairs_what_the_paper_gave_it_with_the_papers_prompt(
    shared_data: Path,
) -> None:
    paper = " ".join(
        (shared_data.parent / "papers" / "cv-probes.txt").read_text().split()
    )
    begging = frame(
        "begging",
        "the AGENT is begging the GIVER for ITEM in PLACE.",
        agent="woman",
        giver=None,
        item="money",
        place="street",
    )
    assert fill_roles(begging) == "the woman is begging the for money in street."
    assert fill_roles(begging).rstrip(".") in paper  # table 8
    assert " ".join(REPAIR_PROMPT.split()) in paper  # table 9


def test_every_annotation_of_a_chosen_image_gives_a_row() -> None:
    glosses = {"agent": "priest", "baptized": "baby"}
    frames = [
        frame("baptizing", BAPTIZING, "x_1.jpg", **glosses),
        replace(
            frame("baptizing", BAPTIZING, "x_1.jpg", agent=None), source_id="x_1.jpg#1"
        ),
        replace(
            frame("baptizing", BAPTIZING, "x_1.jpg"),
            source_id="x_1.jpg#2",
            rejected="no role is filled",
        ),
        frame("baptizing", BAPTIZING, "x_2.jpg", **glosses),
    ]
    images = {"baptizing": ["x_1.jpg"]}
    result = build_contextual_captions(frames, images)
    assert [(row.caption_id, row.caption, row.rejected) for row in result] == [
        ("contextual:x_1.jpg#0", "A priest baptizes a baby.", None),
        ("contextual:x_1.jpg#1", None, "nobody fills the role before the verb"),
        ("contextual:x_1.jpg#2", None, "the source's row: no role is filled"),
    ]
    assert result[0].writer == "rule"
    (first, *_) = build_contextual_captions(
        frames, images, lambda prompt: "A priest baptizes the baby.", "tiny"
    )
    assert (first.caption, first.writer) == (
        "A priest baptizes the baby.",
        "tiny",
    )
    assert first.simplified == result[0].simplified


def test_verbs_of_a_study_are_named_or_all() -> None:
    frames = [frame(verb, "") for verb in ("racing", "buying", "racing")]
    assert select_verbs(frames, "all") == ["buying", "racing"]
    assert select_verbs(frames) == list(VERBS)
    with pytest.raises(
        UserError, match=r"cv_probes\.verbs: the source has no image of 'voting'"
    ):
        select_verbs(frames, ["buying", "voting"])


def test_images_are_chosen_by_seed_and_not_by_order() -> None:
    frames = [
        frame(verb, "", f"{verb}_{n}.jpg")
        for verb in ("voting", "racing", "eating")
        for n in range(9)
    ]
    frames[0] = replace(frames[0], rejected="no role is filled")
    chosen = select_images(frames, 1, ["voting", "racing", "hunting"])
    assert chosen == select_images(frames[::-1], 1, ["voting", "racing", "hunting"])
    assert {verb: len(images) for verb, images in chosen.items()} == {
        "voting": 5,
        "racing": 5,
        "hunting": 0,
    }
    assert "voting_0.jpg" not in select_images(frames, 1, ["voting"], 9)["voting"]
    assert chosen != select_images(frames, 2, ["voting", "racing", "hunting"])


def test_the_review_drops_contextual_verbs() -> None:
    captions = {
        "A man talks to two women.": None,
        "a man talks to two  women": "written before for this image",
        "A woman Trains two children.": None,  # no contextual verb, although WordNet has it as a synonym
        "People are educated in a room.": "uses the contextual verb",
        "A man is buying a book.": "uses another contextual verb",
        "A man sits in a race car.": None,
        " \n": "empty",
    }
    rows = [WrittenCaption("x.jpg", "educating", "a", text, None) for text in captions]
    result = review_captions(rows, VERBS)
    assert [row.rejected for row in result] == list(captions.values())
    assert result[1].caption == "a man talks to two  women"


@pytest.mark.parametrize(
    ("caption", "short"),
    [
        (
            "A young woman in a red coat is holding up a big sign near the door.",
            "A woman is holding up a sign.",
        ),
        ("Two policemen search a man at night.", "Two policemen search a man."),
        ("A boy is in the deep snow.", "A boy is in the snow."),
        ("There is a boy with a ball in the snow.", "There is a boy."),
        ("A dog and a brown cow are on a street.", "A dog and a cow are on a street."),
        ("A car is next to a tree in the snow.", "A car is next to a tree."),
        (
            "A group of people stand around a large table.",
            "A group of people stand around a table.",
        ),
        (
            "The man is being held by two officers.",
            "The man is being held by two officers.",
        ),
    ],
)
def test_captions_cut_down_to_subject_verb_object(caption: str, short: str) -> None:
    (doc,) = parse([caption])
    assert simplify_caption(doc) == short


@pytest.mark.parametrize(
    ("caption", "reason"),
    [("a big crowd", "no main verb is found"), ("Look at it!", "no subject is found")],
)
def test_what_is_no_sentence_is_refused(caption: str, reason: str) -> None:
    (doc,) = parse([caption])
    assert simplify_caption(doc) == Refusal(reason)


def test_a_place_that_is_a_time_takes_at_without_article() -> None:
    assert (
        baptizing(place="night", tool=None).caption
        == "A priest baptizes a baby at night."
    )


def test_what_plain_captions_share_stands_once() -> None:
    plain = [replace(caption, plain_image="p") for caption in PLAIN]
    rows = build_condition_items(CONTEXT, [*plain, plain[0]], "original")
    assert [(row.condition, row.item_id[-1]) for row in rows] == [
        ("+img+cap", "0"),
        ("+img-cap", "0"),
        ("-img+cap", "0"),
        ("-img-cap", "0"),
        ("+img-cap", "1"),
        ("-img-cap", "1"),
    ]


CONTEXT = [ImageCaption("i", "voting", "A man votes.")]
PLAIN = [
    ImageCaption("i", "voting", "A man stands.", "p"),
    ImageCaption("i", "voting", "A man waits.", "q"),
]


def test_each_plain_caption_gives_three_conditions_and_the_contextual_one() -> None:
    rows = build_condition_items(CONTEXT, PLAIN, "original")
    assert [(row.condition, row.image, row.caption, row.match) for row in rows] == [
        ("+img+cap", "i", "A man votes.", True),
        ("+img-cap", "i", "A man stands.", True),
        ("-img+cap", "p", "A man votes.", False),
        ("-img-cap", "p", "A man stands.", True),
        ("+img-cap", "i", "A man waits.", True),
        ("-img+cap", "q", "A man votes.", False),
        ("-img-cap", "q", "A man waits.", True),
    ]
    assert len({row.item_id for row in rows}) == 7
    verbs = [slice_verb(row) for row in rows]
    assert verbs == ["votes", "stands", "votes", "stands", "waits", "votes", "waits"]


def slice_verb(item: ProbeRecord) -> str:
    assert item.verb_span is not None
    return item.caption[item.verb_span.start : item.verb_span.end]


def find_verb(caption: str, name: str) -> str | None:
    span = find_verb_span(next(parse([caption])), SWIG[name])
    return None if span is None else caption[span.start : span.end]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(VERBS),
    st.lists(st.sampled_from(["A", "man,", "  ", "crowd"]), max_size=4),
    st.data(),
)
def test_a_verbs_span_holds_one_of_its_forms(
    name: str, before: list[str], data: st.DataObject
) -> None:
    form = data.draw(st.sampled_from(sorted(list_forms(SWIG[name]))))
    assert find_verb(" ".join([*before, form]) + ".", name) == form


@pytest.mark.parametrize(
    ("caption", "name", "start"),
    [
        ("A coach coaches a team.", "coaching", 8),
        ("The guards guard a car.", "guarding", 11),
    ],
)
def test_the_span_is_the_verbs_and_not_the_same_nouns(
    caption: str, name: str, start: int
) -> None:
    span = find_verb_span(next(parse([caption])), SWIG[name])
    assert span is not None
    assert span.start == start


def test_a_caption_without_the_contextual_verb_has_its_own() -> None:
    assert find_verb("A woman holds a cup.", "begging") == "holds"
    # So in the paper's table 8.
    assert find_verb("A woman beggs for money.", "begging") == "beggs"
    assert find_verb("a big crowd", "begging") is None


def test_descriptions_must_be_complete(tmp_path: Path) -> None:
    path = tmp_path / "descriptions.json"
    path.write_text(
        json.dumps({"a.png": {"verb": "voting", "still": "b.png", "contextual": []}})
    )
    with pytest.raises(UserError, match=r"image 'a\.png': field 'plain' is missing"):
        read_scene_captions(path)


def test_captions_of_scenes_are_true_with_the_action_and_false_without(
    tmp_path: Path,
) -> None:
    graphs = draw_scenes(80, SEED)
    space, path = tmp_path / "space.json", tmp_path / "train.json"
    space.write_text(json.dumps(written.build_verb_space()))
    tally: Counter[str] = Counter()
    for split in written.SWIG_SPLITS:
        path.write_text(json.dumps(written.build_swig(graphs, SEED, split, False)))
        for row in read_frames(path, read_situation_space(space), "imsitu", split):
            result = fill_abstract(row)
            assert isinstance(result, FilledAbstract)
            graph = graphs[int(row.image.rsplit("_", 1)[1].removesuffix(".png")) - 1]
            for text in (result.caption, result.simplified):
                assert decide_truth(graph, text) == "true", text
                assert decide_truth(remove_action(graph), text) == "false", text
                tally[row.verb] += 1
    assert len(tally) > 15


def test_the_scenes_plain_descriptions_pass_the_review_and_stay_true_when_cut_down(
    tmp_path: Path,
) -> None:
    graphs = draw_scenes(80, SEED)
    path = tmp_path / "descriptions.json"
    path.write_text(json.dumps(written.build_descriptions(graphs, SEED)))
    rows = read_scene_captions(path)
    assert len(rows) > 80
    result = review_captions(rows, sorted({row.verb for row in rows}))
    assert {row.rejected for row in result} == {None}
    verdicts: Counter[str] = Counter()
    for row, doc in zip(result, parse(row.caption for row in result), strict=True):
        graph = graphs[int(row.image.rsplit("_", 1)[1].removesuffix(".png")) - 1]
        short = simplify_caption(doc)
        assert isinstance(short, str)
        verdicts[decide_truth(graph, short)] += 1
    assert verdicts["false"] == 0
    assert verdicts["true"] >= 0.99 * len(result)


BEGGING = "the AGENT is begging the GIVER for ITEM in PLACE."
TABLE_8 = [
    {"agent": "woman", "giver": None, "item": "money", "place": "street"},
    {"agent": "woman", "giver": None, "item": None, "place": "outdoors"},
    {"agent": "woman", "giver": None, "item": "money", "place": "street"},
]
"""The annotations of appendix A.1, as the paper fills them in."""
CORRECTED = {
    "the woman is begging the for money in street.": "A woman begs for money in the street.",
    "the woman is begging the for in outdoors.": "A woman begs for food outdoors.",
}
"""What the paper's ChatGPT made of them."""


def begging_frames() -> list[FrameRecord]:
    return [
        replace(
            frame("begging", BEGGING, "begging_17.jpg", **roles),
            source_id=f"begging_17.jpg#{number}",
        )
        for number, roles in enumerate(TABLE_8)
    ]


def test_table_8_goes_from_frames_to_items() -> None:
    verbs = ["begging"]
    by_rule, facts = build_study_captions(begging_frames(), SEED, verbs=verbs, images=5)
    assert [row.caption for row in by_rule] == [
        "A woman begs for money in a street.",
        "A woman begs outdoors.",
        "A woman begs for money in a street.",
    ]
    assert [row.simplified for row in by_rule] == [
        "A woman begs for money.",
        "A woman begs.",
        "A woman begs for money.",
    ]
    assert (facts.images, facts.refused, facts.unusable_images) == (1, {}, {})

    asked = []

    def correct(prompt: str) -> str:
        asked.append(prompt.removeprefix(REPAIR_PROMPT))
        return CORRECTED[asked[-1]]

    repaired, _ = build_study_captions(
        begging_frames(), SEED, correct, "chat-gpt", verbs=verbs, images=5
    )
    assert asked == [*CORRECTED, next(iter(CORRECTED))]
    # Food is in no annotation: the prompt forbids to add it.
    assert [(row.caption, row.writer) for row in repaired] == [
        ("A woman begs for money in the street.", "chat-gpt"),
        ("A woman begs outdoors.", "rule"),
        ("A woman begs for money in the street.", "chat-gpt"),
    ]
    scores = {
        "A woman begs for money in the street.": 0.9,
        "A woman begs outdoors.": 0.8,
    }
    written_rows = [
        WrittenCaption("begging_17.jpg", "begging", "a", text, f"{number}.jpg")
        for number, text in enumerate(
            (
                "A woman holds a cup on the street.",
                "A woman sits in the street with a glass in her hand.",
                "A woman holds out a cup on a street.",
            )
        )
    ]
    captions, checker = build_probe_captions(repaired, written_rows, scores, None, None)
    assert checker is None
    items = build_conditions(captions)
    assert Counter((item.form, item.condition) for item in items) == {
        (form, condition): 1 if condition == "+img+cap" else 3
        for form in ("original", "simplified")
        for condition in CONDITIONS
    }
    contextual = {item.form: item for item in items if item.condition == "+img+cap"}
    assert contextual["original"].caption == "A woman begs for money in the street."
    assert contextual["simplified"].caption == "A woman begs for money."
    assert slice_verb(contextual["original"]) == "begs"


@pytest.mark.parametrize(
    ("abstract", "caption"),
    [
        (
            "the AGENT is begging the GIVER for ITEM in PLACE.",
            "A woman begs a man for money in a street.",
        ),
        (
            "AGENT begging GIVER for ITEM at PLACE",
            "A woman begs a man for money on a street.",
        ),
        (
            "an AGENT has been begging a GIVER at a PLACE",
            "A woman begs a man on a street.",
        ),
        ("the AGENT has begged the GIVER", "A woman begs a man."),
        ("the AGENT will be begging the GIVER", "A woman begs a man."),
        (
            "the GIVER is begged by the AGENT for ITEM in PLACE",
            "A woman begs a man for money in a street.",
        ),
        (
            "the GIVER is being begged for ITEM by an AGENT",
            "A woman begs a man for money.",
        ),
        (
            "the GIVER gets begged for ITEM at PLACE",
            "A man is begged for money on a street.",
        ),
    ],
)
def test_auxiliaries_and_passives_of_an_abstract(abstract: str, caption: str) -> None:
    roles = {"agent": "woman", "giver": "man", "item": "money", "place": "street"}
    filled = fill_abstract(frame("begging", abstract, **roles))
    assert isinstance(filled, FilledAbstract)
    assert filled.caption == caption
    assert repair_caption(filled, SWIG["begging"], lambda _: caption) == caption


@pytest.mark.parametrize(
    "abstract",
    [
        "the AGENT was actively begging the GIVER",
        "the AGENT's still begging GIVER",
        "AGENT often begs GIVER",
    ],
)
def test_adverbs_before_the_verb_are_no_verb(abstract: str) -> None:
    filled = fill_abstract(frame("begging", abstract, agent="woman", giver="man"))
    assert isinstance(filled, FilledAbstract)
    assert filled.caption == "A woman begs a man."


def test_a_passive_whose_agent_nobody_fills_stays_one() -> None:
    abstract = "the GIVER has been begged by the AGENT in PLACE"
    filled = fill_abstract(
        frame("begging", abstract, agent=None, giver="people", place="night")
    )
    assert isinstance(filled, FilledAbstract)
    assert filled.caption == "The people are begged at night."


def test_images_are_chosen_among_those_that_give_a_caption() -> None:
    frames = [
        frame(
            "begging",
            BEGGING,
            f"begging_{number}.jpg",
            agent="woman" if number % 2 else None,
            item="money",
        )
        for number in range(10)
    ]
    rows, facts = build_study_captions(frames, SEED, verbs=["begging"], images=5)
    assert len(rows) == 5
    assert all(row.caption for row in rows)
    assert (facts.images, facts.fewer_images, facts.unusable_images) == (
        5,
        {},
        {"begging": 5},
    )
    _, facts = build_study_captions(frames, SEED, verbs=["begging"], images=7)
    assert (facts.fewer_images, facts.unusable_images) == (
        {"begging": 5},
        {"begging": 5},
    )
