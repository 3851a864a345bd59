"""Questions for decoders about images and about text alone."""

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stand_ins.records import build_items, build_probes
from waltz.core.errors import UserError
from waltz.core.records import to_row
from waltz.core.sampling import sample
from waltz.evaluation.prompting.prompt_files import read_prompt_file
from waltz.evaluation.prompting.prompts import (
    build_published_template,
    render_prompt,
    render_question,
)
from waltz.evaluation.prompting.questions import (
    Question,
    assign_balanced_orders,
    build_open_questions,
    build_pairwise_questions,
    build_single_questions,
    count_earlier_draws,
    draw_published_orders,
    draw_wrong_label,
    select_text_questions,
)
from waltz.evaluation.vqa import VqaItem
from waltz.fidelity import EQUATIONS, PUBLISHED, get_fidelity
from waltz.sources.formats import pairs, questions, text_tasks
from waltz.valse_release import PUBLISHED_VALID_ITEMS

(ITEM,) = build_items(
    [
        {
            "item_id": "x:1",
            "instrument": "existence",
            "image": "i.jpg",
            "caption": "There are animals.",
            "foil": "There are no animals.",
        }
    ]
)


def test_the_right_label_goes_where_the_caption_goes() -> None:
    first, second = (
        build_pairwise_questions([ITEM], "existence", {"x:1": place})[0]
        for place in (True, False)
    )
    assert first.fields == {
        "first": "There are animals.",
        "second": "There are no animals.",
    }
    assert second.fields == {
        "first": "There are no animals.",
        "second": "There are animals.",
    }
    assert [(one.gold, one.wrong, one.order) for one in (first, second)] == [
        (("A",), "B", "caption-first"),
        (("B",), "A", "foil-first"),
    ]
    assert (first.form, first.labels, first.image) == ("pairwise", ("A", "B"), "i.jpg")


def test_a_caption_is_correct_and_every_other_text_is_not() -> None:
    mismatched = replace(ITEM, item_id="x:2", instrument="alignment")
    (probe,) = build_probes(
        [
            {
                "item_id": "x:3",
                "condition": "+img+cap",
                "image": "p.jpg",
                "caption": "A man sits.",
                "match": True,
                "group": "p.jpg",
            }
        ]
    )
    selected_questions = build_single_questions([ITEM, mismatched, probe], "d")
    assert [
        (one.item_id, one.role, one.gold, one.wrong) for one in selected_questions
    ] == [
        ("x:1", "caption", ("A",), "B"),
        ("x:1", "foil", ("B",), "A"),
        ("x:2", "caption", ("A",), "B"),
        ("x:2", "mismatched", ("B",), "A"),
        ("x:3", "caption", ("A",), "B"),
    ]
    assert selected_questions[1].fields == {"caption": "There are no animals."}


@given(
    st.sets(st.text("abc", max_size=4), min_size=1, max_size=40),
    st.integers(0, 5),
    st.data(),
)
def test_orders_are_balanced_over_all_items_and_in_each_sample(
    ids: set[str], seed: int, data: st.DataObject
) -> None:
    listed = sorted(ids)
    orders = assign_balanced_orders(listed, seed)
    assert orders == assign_balanced_orders(listed[::-1], seed)
    part = sample(listed, data.draw(st.integers(1, len(listed))), seed)
    for some in (listed, part):
        assert abs(sum(orders[one] for one in some) * 2 - len(some)) <= 1


def test_another_seed_gives_other_orders() -> None:
    ids = [str(i) for i in range(40)]
    assert assign_balanced_orders(ids, 0) != assign_balanced_orders(ids, 1)


def test_published_orders_are_one_stream_through_the_pieces() -> None:
    random.seed(42)
    stream = [random.choice([0, 1]) == 0 for _ in range(20)]
    items = [replace(ITEM, item_id=item_id) for item_id in "ab"]
    assert draw_published_orders(items) == dict(zip("ab", stream, strict=False))
    assert draw_published_orders(items, earlier_draws=7) == dict(
        zip("ab", stream[7:], strict=False)
    )
    assert (
        count_earlier_draws("foil-it"),
        count_earlier_draws("existence"),
        count_earlier_draws("plurality"),
    ) == (
        0,
        943,
        1448,
    )
    assert count_earlier_draws("mscoco") == 0  # none of theirs


FILES = {
    "foil-it": "foil-it",
    "existence": "existence",
    "plurality": "plurals",
    "counting-balanced": "counting-hard",
    "counting-small": "counting-small-quant",
    "counting-adversarial": "counting-adversarial",
    "relations": "relations",
    "action-replacement": "action-replacement",
    "actant-swap": "actant-swap",
    "coreference-standard": "coreference-standard",
    "coreference-clean": "coreference-hard",
}


def test_as_many_released_items_are_valid_as_the_stream_says(shared_data: Path) -> None:
    assert list(PUBLISHED_VALID_ITEMS) == list(FILES)
    for piece, file in FILES.items():
        path = shared_data / "valse" / f"{file}.json"
        items = [item for item in pairs.read_release(path, piece, 2) if item.valid]
        assert len(items) == PUBLISHED_VALID_ITEMS[piece]
        orders = draw_published_orders(items, count_earlier_draws(piece))
        selected_questions = build_pairwise_questions(items, piece, orders)
        assert (
            0.4
            < sum(one.order == "caption-first" for one in selected_questions)
            / len(selected_questions)
            < 0.6
        )


def vqa_item(*answers: str) -> VqaItem:
    return VqaItem("vqa:9", "i.jpg", " What is it? ", "cat", answers)


def convert(row: dict[str, Any]) -> VqaItem:
    return VqaItem(
        row["source_id"], row["image"], row["question"], row["answer"], row["answers"]
    )


def test_every_answer_of_an_annotator_is_right_and_the_commonest_is_first() -> None:
    (one,) = build_open_questions(
        [vqa_item("dog", "cat", "cow", "cat", "cow", "cat")], "vqa"
    )
    assert one.gold == ("cat", "cow", "dog")
    assert one == Question(
        "vqa:9",
        "vqa",
        "open",
        "i.jpg",
        {"question": "What is it?"},
        (),
        one.gold,
        "impossible to give",
    )
    (alone,) = build_open_questions([vqa_item()], "gqa")
    assert alone.gold == ("cat",)


def test_real_questions_have_an_answer(shared_data: Path) -> None:
    rows = list(
        map(
            to_row,
            questions.read_gqa(
                shared_data / "gqa" / "fixture_questions_a.json", "gqa", None
            ),
        )
    )
    selected_questions = build_open_questions(list(map(convert, rows)), "gqa")
    assert [(one.fields["question"], one.gold) for one in selected_questions] == [
        (r["question"], (r["answer"],)) for r in rows
    ]
    files = (
        shared_data / "vqa_v2" / "questions.json",
        shared_data / "vqa_v2" / "annotations.json",
    )
    rows = [
        row
        for row in map(to_row, questions.read_vqa(*files, "vqa"))
        if row["rejected"] is None
    ]
    selected_questions = build_open_questions(list(map(convert, rows)), "vqa")
    assert selected_questions
    for one, each in zip(selected_questions, rows, strict=True):
        assert set(one.gold) == set(each["answers"])
        assert one.gold[0] == each["answer"]


Row = dict[str, Any]


def text_row(key: str, task: str, gold: int, **more: Any) -> Row:
    common = {
        "source": "s",
        "source_id": key,
        "task": task,
        "gold": gold,
        "rejected": None,
        "text": None,
    }
    return {**common, "choices": ["entailment", "contradiction", "neutral"], **more}


def esnli_rows(n: int) -> list[Row]:
    return [
        text_row(
            str(i),
            "esnli",
            i % 3,
            premise=f"Premise {i}.",
            hypothesis=f"Hypothesis {i}.",
        )
        for i in range(n)
    ]


def bbh_rows(n: int) -> list[Row]:
    text = "Q: Who?\n\nAnswer choices:\n(A) he\n(B) she\n(C) unclear"
    return [
        text_row(
            str(i),
            "disambiguation_qa",
            i % 3,
            text=text,
            choices=["he", "she", "unclear"],
        )
        for i in range(n)
    ]


def test_a_question_holds_its_fields_labels_and_answers() -> None:
    (one,) = select_text_questions(
        esnli_rows(1), "e-snli", EQUATIONS, None, 0
    ).questions
    assert (one.item_id, one.dataset, one.form, one.image) == (
        "s:0",
        "e-snli",
        "esnli",
        None,
    )
    assert one.fields == {"premise": "Premise 0.", "hypothesis": "Hypothesis 0."}
    assert (one.labels, one.gold, one.role, one.order) == (
        ("A", "B", "C"),
        ("A",),
        None,
        None,
    )
    assert one.wrong in ("B", "C")


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_comve_asks_for_the_nonsense_so_gold_is_taken_as_it_is(profile: str) -> None:
    rows = [text_row("7", "comve", 1, choices=["Fish swim.", "Fish walk."])]
    (one,) = select_text_questions(
        rows, "comve", get_fidelity(profile), None, 0
    ).questions
    assert (one.labels, one.gold, one.wrong) == (("A", "B"), ("B",), "A")
    words, _ = render_question(one, read_prompt_file(get_fidelity(profile)))
    assert words.startswith(
        'Which statement of the two is against common sense? Sentence (A): "Fish swim."'
    )


def test_choices_without_letters_are_given_letters() -> None:
    dashed = text_row(
        "0",
        "causal_judgement",
        1,
        text="Did it?\nOptions:\n- Yes\n- No",
        choices=["Yes", "No"],
    )
    (one,) = select_text_questions([dashed], "causal", EQUATIONS, None, 0).questions
    assert one.fields == {
        "text": "Did it?\nOptions:\n(A) Yes\n(B) No",
        "question": "Did it?",
        "options": "(A) Yes\n(B) No",
    }
    assert one.gold == ("B",)
    assert (
        render_question(one, read_prompt_file(EQUATIONS))[0]
        == "Did it?\n\nAnswer choices:\n(A) Yes\n(B) No"
    )
    (question,) = select_text_questions(bbh_rows(1), "d", EQUATIONS, None, 0).questions
    assert question.fields["text"] == bbh_rows(1)[0]["text"]


def test_equations_choose_each_item_by_its_own_hash() -> None:
    rows = esnli_rows(60)
    all_questions = {
        one.item_id: one
        for one in select_text_questions(rows, "e", EQUATIONS, None, 3).questions
    }
    some = select_text_questions(rows[::-1], "e", EQUATIONS, 20, 3).questions
    fewer = select_text_questions(rows, "e", EQUATIONS, 7, 3).questions
    assert all(all_questions[one.item_id] == one for one in [*some, *fewer])
    assert {one.item_id for one in fewer} < {one.item_id for one in some}
    assert select_text_questions(rows, "e", EQUATIONS, 99, 3).questions == tuple(
        all_questions.values()
    )
    drawn = {(one.gold[0], one.wrong) for one in all_questions.values()}
    assert drawn == {
        (gold, wrong) for gold in "ABC" for wrong in "ABC" if gold != wrong
    }


def test_published_draws_go_on_with_the_generator_that_shuffled() -> None:
    rows = bbh_rows(30)
    chosen = select_text_questions(rows, "d", PUBLISHED, 12, 0).questions
    random.seed(42)
    order = list(rows)
    random.shuffle(order)
    expected = []
    for each in order[:12]:
        gold = "ABC"[each["gold"]]
        expected.append(
            (
                f"s:{each['source_id']}",
                gold,
                random.choice([x for x in "ABC" if x != gold]),
            )
        )
    assert [(one.item_id, one.gold[0], one.wrong) for one in chosen] == expected


def test_published_draws_for_esnli_begin_with_the_seed() -> None:
    chosen = select_text_questions(esnli_rows(30), "e", PUBLISHED, 12, 0).questions
    random.seed(42)
    for one in chosen:
        assert one.wrong == random.choice(
            [label for label in "ABC" if label != one.gold[0]]
        )


def test_questions_that_cannot_be_built_are_named() -> None:
    rows = bbh_rows(3)
    rows[1] |= {"rejected": "no answer", "gold": None}
    rows[2] |= {"choices": ["he", "she", "they", "unclear"], "gold": 3}
    chosen = select_text_questions(rows, "d", PUBLISHED, None, 0)
    assert [one.item_id for one in chosen.questions] == ["s:0"]
    assert chosen.skipped == {
        "s:1": "no answer",
        "s:2": "its answer is none of A, B, C",
    }
    four = select_text_questions(rows, "d", EQUATIONS, None, 0)
    assert [one.labels for one in four.questions] == [
        ("A", "B", "C"),
        ("A", "B", "C", "D"),
    ]
    with pytest.raises(UserError, match="d: none of 1 rows can be asked"):
        select_text_questions([rows[1]], "d", PUBLISHED, None, 0)
    with pytest.raises(UserError, match="one task, got 2: disambiguation_qa, esnli"):
        select_text_questions([*rows, *esnli_rows(1)], "d", EQUATIONS, None, 0)
    with pytest.raises(ValueError, match="except the gold one 'A'"):
        draw_wrong_label("s:0", ("A",), "A", 0)


@pytest.fixture(scope="module")
def real(shared_data: Path) -> Mapping[str, list[Row]]:
    folder = shared_data / "comve"
    files = folder / "subtaskA_test_data.csv", folder / "subtaskA_gold_answers.csv"
    rows = {
        "comve": list(map(to_row, text_tasks.read_comve(*files, "comve", "test"))),
        "esnli": list(
            map(
                to_row,
                text_tasks.read_esnli(
                    shared_data / "esnli" / "esnli_test_rebuilt.csv", "esnli", "test"
                ),
            )
        ),
    }
    for task in (
        "causal_judgment",
        "disambiguation_qa",
        "logical_deduction_five_objects",
    ):
        rows[task] = list(
            map(
                to_row,
                text_tasks.read_bbh_data(
                    shared_data / "bbh_val_data" / task / "val_data.json",
                    task,
                    "bbh",
                    None,
                ),
            )
        )
    return rows


def test_the_real_files_give_a_hundred_published_questions_each(
    real: Mapping[str, list[Row]],
) -> None:
    for task, rows in real.items():
        chosen = select_text_questions(rows, task, PUBLISHED, None, 0)
        assert len(chosen.questions) + len(chosen.skipped) == 100
        assert len(chosen.skipped) <= (task == "disambiguation_qa")
        for one in chosen.questions:
            assert one.wrong != one.gold[0]
            assert {one.wrong, one.gold[0]} <= set(one.labels)
        assert len({one.gold for one in chosen.questions}) == len(
            chosen.questions[0].labels
        )


def test_the_first_real_comve_prompt(real: Mapping[str, list[Row]]) -> None:
    first = select_text_questions(real["comve"], "comve", PUBLISHED, 1, 0).questions[0]
    prompt = render_prompt("answer", first, build_published_template("gpt2")).text
    assert prompt.startswith(
        "Which statement of the two is against common sense? Sentence (A): "
        '"She put the papers into the filing cabinet." , Sentence (B): "'
    )
    assert prompt.endswith('" . The best answer is: Sentence (')
    assert first.gold == ("B",)


def test_real_items_in_the_benchmark_s_own_layout_have_letters(
    shared_data: Path,
) -> None:
    prompt_file = read_prompt_file(EQUATIONS)
    for task in (
        "causal_judgement",
        "disambiguation_qa",
        "logical_deduction_five_objects",
    ):
        rows = list(
            map(
                to_row,
                text_tasks.read_bbh_examples(
                    shared_data / "bbh" / f"{task}.json", task, "bbh", None
                ),
            )
        )
        for one in select_text_questions(rows, task, EQUATIONS, 40, 0).questions:
            lettered = [f"\n({label}) " for label in one.labels]
            words, _ = render_question(one, prompt_file)
            assert all(words.count(letter) == 1 for letter in lettered)
            assert "Options:" not in words
