"""Open questions in a decoder's own words: what is asked, and how right the answers are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from scripted_decoders import scripted
from waltz.core.intervals import Resampling
from waltz.evaluation.label_choice import reasoned
from waltz.evaluation.metrics.summary import metric_rows
from waltz.evaluation.metrics.vqa_accuracy import agreement
from waltz.evaluation.open_answers import answer_rows, put
from waltz.evaluation.prompting.generation_cache import Examinee
from waltz.evaluation.prompting.prompts import equations, published
from waltz.evaluation.vqa_items import contained, normal
from waltz.models.decoders.decoder import Sampling
from waltz.sources.formats import vqa

HOW = Resampling(200, 0.95, 0)
ITEMS = [
    {"item_id": "d:0", "image": "m0", "question": "What is it?", "answer": "Dog", "answers": ["Dog"] * 8 + ["cat"] * 2},
    {"item_id": "d:1", "image": "m1", "question": "How many?", "answer": "2", "answers": ["2"] * 10},
    {"item_id": "d:2", "image": "m2", "question": "Which room?", "answer": "bedroom", "answers": []},
]
SAID = {"What is it?": "A cat.", "How many?": "Two", "Which room?": "Bedroom"}


def examinee(decoder):
    return Examinee(decoder, lambda name: Image.new("RGB", (2, 2)))


def decoder_of(said=SAID):
    return scripted(
        lambda text: {}, says=lambda prompt, seed: next(said[question] for question in said if question in prompt)
    )


def test_questions_keep_the_ids_of_their_items():
    asked = put(ITEMS, "d")
    assert [(one.item_id, one.gold, one.labels) for one in asked] == [
        ("d:0", ("Dog", "cat"), ()),
        ("d:1", ("2",), ()),
        ("d:2", ("bedroom",), ()),
    ]


def test_answers_are_right_by_either_profile():
    decoder = decoder_of()
    rows = answer_rows(examinee(decoder), ITEMS, "d", equations(decoder.render_chat), sampling=None, seed=0)
    rows += answer_rows(examinee(decoder), ITEMS, "d", published("llava-vicuna"), sampling=Sampling(), seed=0)
    assert [row["prediction"] for row in rows] == list(SAID.values()) * 2
    assert [row["correct"] for row in rows] == [False, True, True, True, False, True]
    found = metric_rows({("m", "d"): rows}, ["equations", "published"], HOW, asked={"d": ITEMS})
    values = {(row["profile"], row["setting"], row["metric"]): row["value"] for row in found}
    # "A cat.": two of ten annotators; leaving one out, the others are 2 for eight of them and 1 for two
    assert values == {
        ("equations", "answering", "accuracy"): pytest.approx(100 * ((8 * 2 / 3 + 2 * 1 / 3) / 10 + 1 + 1) / 3),
        ("published", "answering", "accuracy"): pytest.approx(100 * 2 / 3),
    }


def test_an_answer_after_a_chain_of_thought_and_one_that_cannot_be_asked():
    decoder = decoder_of(
        {"think it is a dog": "dog", "What is it?": " I think it is a dog", "How": " no", "Which": " no"}
    )
    voice = equations(decoder.render_chat)
    thoughts = reasoned(examinee(decoder), put(ITEMS, "d"), voice, most=50, sampling=None, seed=0)
    rows = answer_rows(examinee(decoder), ITEMS, "d", voice, sampling=None, seed=0, reasonings=thoughts)
    assert {row["setting"] for row in rows} == {"answering-after-cot"}
    assert (rows[0]["prediction"], rows[0]["reasoning"]) == ("dog", " I think it is a dog")
    small = decoder_of()
    small.window = 30
    (row,) = answer_rows(examinee(small), ITEMS[:1], "d", equations(small.render_chat), sampling=None, seed=0)
    assert (row["prediction"], row["correct"]) == (None, None)
    assert "1 to 30 are read" in row["error"]


def test_the_released_code_looks_for_a_gold_answer_in_the_answer():
    assert contained("It is a DOG, I think", ITEMS[0])  # both in lower case, any annotator's
    assert contained("cats", ITEMS[0])
    assert not contained("two", ITEMS[1])
    assert contained("In the Bedroom", ITEMS[2])
    assert not contained("in bed", ITEMS[2])
    assert not contained("an iPhone", {"answer": "iPhone", "answers": []})  # GQA's gold answer is not lower-cased


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The Dog.", "dog"),
        ("two", "2"),
        ("none", "0"),
        ("don't", "dont"),
        ("don’t know", "Don't  know"),
        ("black & white", "black white"),
        ("t-shirt", "t shirt"),
        ("an apple, a pear", "apple pear"),
    ],
)
def test_answers_that_are_the_same_in_their_normal_form(one, other):
    assert normal(one) == normal(other)


@pytest.mark.parametrize(("one", "other"), [("1.5", "15"), ("3:30", "330"), ("a", ""), ("a", "the"), ("10", "1 0")])
def test_answers_that_are_not(one, other):
    assert normal(one) != normal(other)


@given(st.text())
def test_the_normal_form_is_its_own(text):
    assert normal(normal(text)) == normal(text)


def test_what_all_annotators_say_is_right_on_real_questions(shared_data):
    files = shared_data / "vqa_v2" / "questions.json", shared_data / "vqa_v2" / "annotations.json"
    rows = [row for row in vqa.read_questions(*files, "vqa") if row["rejected"] is None]
    items = [{**row, "item_id": f"vqa:{row['source_id']}"} for row in rows]
    assert items
    for item in items:
        assert contained(item["answer"], item)
        assert agreement(item["answer"].upper() + ".", item["answers"]) == pytest.approx(
            agreement(item["answer"], item["answers"])
        )
