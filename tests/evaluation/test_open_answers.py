"""Open questions to a decoder: the questions, and the accuracy of the answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from stand_ins.models.scripted_decoders import scripted
from stand_ins.records import build_vqa_items
from waltz.core.intervals import Resampling
from waltz.core.records import to_row
from waltz.evaluation.decoder_rows import (
    GenerationSettings,
    answer_questions,
    generate_chains_of_thought,
    is_right_answer,
)
from waltz.evaluation.metrics.summary import build_metric_records
from waltz.evaluation.prompting.decoder_outputs import DecoderSession
from waltz.evaluation.prompting.prompts import (
    build_equations_template,
    build_published_template,
)
from waltz.evaluation.prompting.questions import build_open_questions
from waltz.evaluation.vqa import (
    compute_annotator_accuracy,
    contains_gold_answer,
    gives_answer,
    normalize_answer,
)
from waltz.fidelity import EQUATIONS, PUBLISHED
from waltz.models.decoders.decoder import Sampling
from waltz.sources.formats import questions

HOW = Resampling(200, 0.95, 0)
ITEMS = build_vqa_items(
    [
        {
            "item_id": "d:0",
            "image": "m0",
            "question": "What is it?",
            "answer": "Dog",
            "answers": ["Dog"] * 8 + ["cat"] * 2,
        },
        {
            "item_id": "d:1",
            "image": "m1",
            "question": "How many?",
            "answer": "2",
            "answers": ["2"] * 10,
        },
        {
            "item_id": "d:2",
            "image": "m2",
            "question": "Which room?",
            "answer": "bedroom",
            "answers": [],
        },
    ]
)
ANSWERS = {"What is it?": "A cat.", "How many?": "Two", "Which room?": "Bedroom"}


def session(decoder):
    return DecoderSession(decoder, lambda name: Image.new("RGB", (2, 2)))


def decoder_of(answers=ANSWERS):
    return scripted(
        lambda text: {},
        says=lambda prompt, seed: next(
            answers[question] for question in answers if question in prompt
        ),
    )


def test_questions_keep_the_ids_of_their_items():
    selected_questions = build_open_questions(ITEMS, "d")
    assert [(one.item_id, one.gold, one.labels) for one in selected_questions] == [
        ("d:0", ("Dog", "cat"), ()),
        ("d:1", ("2",), ()),
        ("d:2", ("bedroom",), ()),
    ]


def test_answers_are_right_by_either_profile():
    decoder = decoder_of()
    rows = answer_questions(
        session(decoder),
        ITEMS,
        "d",
        build_equations_template(decoder.render_chat),
        GenerationSettings(0),
    )
    rows += answer_questions(
        session(decoder),
        ITEMS,
        "d",
        build_published_template("llava-vicuna"),
        GenerationSettings(0, Sampling()),
    )
    assert [row.prediction for row in rows] == list(ANSWERS.values()) * 2
    assert [row.correct for row in rows] == [False, True, True, True, False, True]
    metrics = build_metric_records(
        {("m", "d"): rows}, ["equations", "published"], HOW, questions={"d": ITEMS}
    )
    values = {
        (row.profile, row.setting, row.metric): row.measure.value for row in metrics
    }
    # "A cat.": two of ten annotators; leaving one out, the others are 2 for eight of them and 1 for
    # two
    assert values == {
        ("equations", "answering", "accuracy"): pytest.approx(
            100 * ((8 * 2 / 3 + 2 * 1 / 3) / 10 + 1 + 1) / 3
        ),
        ("published", "answering", "accuracy"): pytest.approx(100 * 2 / 3),
    }


def test_an_answer_after_a_chain_of_thought_and_a_skipped_question():
    decoder = decoder_of(
        {
            "think it is a dog": "dog",
            "What is it?": " I think it is a dog",
            "How": " no",
            "Which": " no",
        }
    )
    template = build_equations_template(decoder.render_chat)
    thoughts = generate_chains_of_thought(
        session(decoder),
        build_open_questions(ITEMS, "d"),
        template,
        GenerationSettings(0, cot_tokens=50),
    )
    rows = answer_questions(
        session(decoder), ITEMS, "d", template, GenerationSettings(0), thoughts
    )
    assert {row.setting for row in rows} == {"answering-after-cot"}
    assert (rows[0].prediction, rows[0].reasoning) == (
        "dog",
        " I think it is a dog",
    )
    small = decoder_of()
    small.window = 30
    (row,) = answer_questions(
        session(small),
        ITEMS[:1],
        "d",
        build_equations_template(small.render_chat),
        GenerationSettings(0),
    )
    assert (row.prediction, row.correct) == (None, None)
    assert "1 to 30 are read" in row.error


def test_the_released_code_looks_for_a_gold_answer_in_the_answer():
    # Both in lower case, any annotator's.
    assert contains_gold_answer(
        "It is a DOG, I think", ITEMS[0].answer, ITEMS[0].answers
    )
    assert contains_gold_answer("cats", ITEMS[0].answer, ITEMS[0].answers)
    assert not contains_gold_answer("two", ITEMS[1].answer, ITEMS[1].answers)
    assert contains_gold_answer("In the Bedroom", ITEMS[2].answer, ITEMS[2].answers)
    assert not contains_gold_answer("in bed", ITEMS[2].answer, ITEMS[2].answers)
    assert not contains_gold_answer(
        "an iPhone", "iPhone", []
    )  # GQA's gold answer is not lower-cased


@pytest.mark.parametrize(
    ("number", "answer", "published", "equations"),
    [
        (0, "It is a DOG, I think", True, True),
        # In `equations` the most frequent answer alone is right.
        (
            0,
            "cat",
            True,
            False,
        ),
        (0, "the dog", True, True),
        (1, "two", False, True),
        (2, "In the Bedroom", True, True),
        (2, "Bedroom.", True, True),
    ],
)
def test_an_answer_to_a_question_is_judged_like_the_answer_to_its_item(
    number, answer, published, equations
):
    question = build_open_questions(ITEMS, "d")[number]
    assert is_right_answer(answer, question, PUBLISHED) is published
    assert is_right_answer(answer, question, EQUATIONS) is equations


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
    assert normalize_answer(one) == normalize_answer(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("1.5", "15"), ("3:30", "330"), ("a", ""), ("a", "the"), ("10", "1 0")],
)
def test_answers_that_are_not(one, other):
    assert normalize_answer(one) != normalize_answer(other)


@pytest.mark.parametrize(
    ("generated", "answer"),
    [
        ("The horse is on the sidewalk", "sidewalk"),
        ("The horse is on the sidewalk.", "on sidewalk"),
        ("There are two dogs", "2"),
        ("2. There are 2 dogs", "two"),
        ("2", "2"),
        ("2.", "two"),
        ("Yes, there is no car", "yes"),
        ("No, there is no car or truck.", "no"),
        ("Yes, the man or woman is riding.", "yes"),
        ("No, it is on the sidewalk", "sidewalk"),
        ("There is no horse", "no"),
        ("no horse", "No horse."),
        ("It is not red, it is blue", "blue"),
        ("not red but blue", "blue"),
        ("a t-shirt", "t shirt"),
        ("It's black-and-white", "black and white"),
        ("2 or 3", "2 or 3"),
        ("the bus stop at 10:30", "10:30"),
        ("", "?"),
    ],
)
def test_a_sentence_gives_an_answer(generated, answer):
    assert gives_answer(generated, answer)
    # The answer alone is given by its own text.
    assert gives_answer(answer, answer)


@pytest.mark.parametrize(
    ("generated", "answer"),
    [
        ("The horse is standing on the side", "sidewalk"),
        ("on the sidewalks", "sidewalk"),
        ("the sidewalk", "on sidewalk"),
        ("2-way to accommodate both", "2"),
        ("a two-way street", "2"),
        ("5. There is a horse", "5"),
        ("0.285", "0"),
        ("10:30", "10"),
        ("7th Street", "7"),
        ("I do not know", "no"),
        ("nothing", "no"),
        ("Yes, there is no car", "no"),
        ("No-parking sign", "no"),
        ("No, yes is wrong", "yes"),
        ("yes or no", "yes"),
        ("yes or no", "no"),
        ("red or blue", "red"),
        ("red, blue or green", "red"),
        ("It is not red but blue", "red"),
        ("It isn't a red one", "red"),
        ("There is no horse on the sidewalk", "sidewalk"),
        ("", "sidewalk"),
        ("sidewalk", ""),
    ],
)
def test_a_sentence_does_not_give_an_answer(generated, answer):
    assert not gives_answer(generated, answer)


def test_generated_text_agrees_with_each_annotator_whose_answer_it_gives():
    sentence, answers = "The horse is on the sidewalk", ["sidewalk"] * 10
    assert compute_annotator_accuracy(sentence, answers) == 0
    assert compute_annotator_accuracy(sentence, answers, is_generated=True) == 1
    # Two of ten annotators: eight sets of nine hold both, two hold one of them.
    answers = ["sidewalk", "on sidewalk", *["street"] * 8]
    assert compute_annotator_accuracy(
        sentence, answers, is_generated=True
    ) == pytest.approx((8 * 2 / 3 + 2 * 1 / 3) / 10)


@given(st.text())
def test_the_normal_form_is_its_own(text):
    assert normalize_answer(normalize_answer(text)) == normalize_answer(text)


def test_what_all_annotators_say_is_right_on_real_questions(shared_data):
    files = (
        shared_data / "vqa_v2" / "questions.json",
        shared_data / "vqa_v2" / "annotations.json",
    )
    rows = [
        row
        for row in map(to_row, questions.read_vqa(*files, "vqa"))
        if row["rejected"] is None
    ]
    assert rows
    for item in rows:
        assert contains_gold_answer(item["answer"], item["answer"], item["answers"])
        assert compute_annotator_accuracy(
            item["answer"].upper() + ".", item["answers"]
        ) == pytest.approx(compute_annotator_accuracy(item["answer"], item["answers"]))
