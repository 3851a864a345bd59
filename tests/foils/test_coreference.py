"""Coreference: dialogues of one round, with the contrary answer."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltz.core.records import to_row
from waltz.core.text_diff import slice_span
from waltz.foils.candidates import Candidate, Refusal
from waltz.foils.coreference import build_coreference_foil
from waltz.sources.formats.questions import read_visdial


def test_a_round_is_written_as_the_release_writes_it() -> None:
    results = build_coreference_foil(
        "The elephant is on grass.",
        "is it a baby elephant",
        "no i believe it is full grown",
        1,
    )
    assert isinstance(results, Candidate)
    assert results.caption == "the elephant is on grass. is it a baby elephant? no."
    assert results.foil == "the elephant is on grass. is it a baby elephant? yes."
    assert (results.direction, results.caption_phrases, results.foil_phrases) == (
        "no2yes",
        ("no",),
        ("yes",),
    )
    assert slice_span(results.caption, results.caption_span) == "no"


@pytest.mark.parametrize(
    ("question", "answer", "turn", "reason"),
    [
        ("is it old", "yes", 2, "a later round"),
        ("can you see the sky", "yes", 1, "the question has no pronoun"),
        ("is it old", "maybe, i know nothing", 1, "the answer says neither yes nor no"),
        ("is it old", "yes and no", 1, "the answer says both yes and no"),
    ],
)
def test_other_rounds_are_refused(
    question: str, answer: str, turn: int, reason: str
) -> None:
    assert build_coreference_foil("a dog", question, answer, turn) == Refusal(reason)


def test_pronouns_inside_contractions_count_and_inside_words_do_not() -> None:
    assert isinstance(
        build_coreference_foil("a cat", "can you tell if it's old", "yes", 1), Candidate
    )
    assert build_coreference_foil(
        "a cat", "is the kitten a bit shy", "yes", 1
    ) == Refusal("the question has no pronoun")


@given(
    caption=st.text("abc ?'", min_size=1, max_size=20),
    rest=st.text("abc '", max_size=20),
    word=st.sampled_from(["yes", "no"]),
)
def test_only_the_answer_differs_and_the_contrary_of_the_contrary_is_the_caption(
    caption: str, rest: str, word: str
) -> None:
    results = build_coreference_foil(caption, f"is it {rest}", word, 1)
    assert isinstance(results, Candidate)
    other = slice_span(results.foil, results.foil_span)
    assert {slice_span(results.caption, results.caption_span), other} == {"yes", "no"}
    again = build_coreference_foil(caption, f"is it {rest}", other, 1)
    assert isinstance(again, Candidate)
    assert again.foil == results.caption


def test_the_released_items_of_the_dialogues_at_hand_come_from_their_first_rounds(
    shared_data: Path,
) -> None:
    path = shared_data / "visdial" / "visdial_1.0_val_visdialconv.json"
    if not path.is_file():
        pytest.skip(f"{path.name} is not here")
    released = {
        int(re.findall(r"\d+", item["image_file"])[-1]): item
        for item in json.loads(
            (shared_data / "valse" / "coreference-hard.json").read_text()
        ).values()
    }
    results = {}
    for row in map(to_row, read_visdial(path, "visdial")):
        candidate = build_coreference_foil(
            row["caption"], row["question"], row["answer"], row["round"]
        )
        if isinstance(candidate, Candidate):
            results[int(row["source_id"].split("#")[0])] = (
                candidate.caption,
                candidate.foil,
            )
    common = released.keys() & results.keys()
    assert len(common) == 13
    assert {image: results[image] for image in common} == {
        image: (released[image]["caption"], released[image]["foil"]) for image in common
    }
    assert len(results) == 17  # the release leaves out some of what its rule gives
