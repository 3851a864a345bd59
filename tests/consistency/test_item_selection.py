"""Questions of stage consistency and the order of their captions."""

import random
from typing import Any

import pytest

from stand_ins.records import build_items
from waltz.consistency.item_selection import (
    get_setting,
    select_questions,
    select_seeds,
    select_shared_pair,
)
from waltz.core.errors import UserError
from waltz.core.records import to_row
from waltz.core.sampling import sample
from waltz.evaluation.prompting.questions import assign_balanced_orders
from waltz.evaluation.vqa import select_vqa_items
from waltz.fidelity import EQUATIONS, PUBLISHED, get_fidelity
from waltz.sources.published_samples import select_published_ids

Row = dict[str, Any]
PAIRS = {"form": "pairs"}


def pair_rows(n: int, invalid: tuple[int, ...] = ()) -> list[Row]:
    items = build_items(
        {
            "item_id": f"existence:{i}",
            "image": f"{i}.jpg",
            "caption": f"There are {i}.",
            "foil": f"There are no {i}.",
            "valid": None if i == 0 else i not in invalid,
        }
        for i in range(n)
    )
    return list(map(to_row, items))


def open_rows(
    n: int,
    annotators: bool,
    rejected: tuple[int, ...] = (),
    withheld: tuple[int, ...] = (),
) -> list[Row]:
    return [
        {
            "source": "raw",
            "source_id": str(i),
            "image": f"{i}.jpg",
            "question": f"What is {i}?",
            "answer": None if i in withheld else "dog",
            "answers": ["dog", "cat"] if annotators else [],
            "rejected": "no image" if i in rejected else None,
        }
        for i in range(n)
    ]


def comve_rows(n: int) -> list[Row]:
    return [
        {
            "source": "s",
            "source_id": str(i),
            "task": "comve",
            "gold": i % 2,
            "rejected": None,
            "text": None,
        }
        | {"choices": [f"First {i}.", f"Second {i}."]}
        for i in range(n)
    ]


def test_published_takes_the_first_valid_items_and_draws_their_orders_anew() -> None:
    rows = pair_rows(8, invalid=(1, 4))
    questions = select_questions(rows, "existence", PAIRS, PUBLISHED, 4, 9).questions
    assert [one.item_id for one in questions] == [
        f"existence:{i}" for i in (0, 2, 3, 5)
    ]
    draws = random.Random(42)
    firsts = [draws.choice([0, 1]) == 0 for _ in range(4)]
    assert [one.order == "caption-first" for one in questions] == firsts
    assert set(firsts) == {True, False}


def test_equations_takes_a_seeded_sample_whose_orders_are_balanced_and_those_of_all_valid_items() -> (
    None
):
    rows = pair_rows(41, invalid=(1,))
    ids = [row["item_id"] for row in rows if row["valid"] is not False]
    orders = assign_balanced_orders(ids, 9)
    for n in (4, 10, 40, 99, None):
        questions = select_questions(
            rows, "existence", PAIRS, EQUATIONS, n, 9
        ).questions
        firsts = [one.order == "caption-first" for one in questions]
        assert [one.item_id for one in questions] == sample(ids, min(n or 40, 40), 9)
        assert firsts == [orders[one.item_id] for one in questions]
        assert sum(firsts) * 2 == len(questions)
    assert (
        select_questions(rows, "existence", PAIRS, EQUATIONS, 4, 10).questions
        != questions[:4]
    )


@pytest.mark.parametrize("profile", ["equations", "published"])
@pytest.mark.parametrize(
    ("annotators", "choice"), [(True, "vqa-decoders"), (False, "gqa-decoders")]
)
def test_tests_ask_the_questions_whose_accuracy_is_in_the_same_table(
    profile: str, annotators: bool, choice: str
) -> None:
    rows = open_rows(400, annotators, rejected=(3,))
    for row in rows:
        row["image"] = (
            f"{int(row['source_id']) % 200}.jpg"  # the later of two drawn questions on an image is taken
        )
    entry = {"form": "open", "size": 100, "choice": choice}
    answered = [item.item_id for item in select_vqa_items("d", rows, 100, 9, choice)[0]]
    questions = [
        one.item_id
        for one in select_questions(
            rows, "d", entry, get_fidelity(profile), 100, 9
        ).questions
    ]
    assert questions == answered
    few = [
        one.item_id
        for one in select_questions(
            rows, "d", entry, get_fidelity(profile), 7, 9
        ).questions
    ]
    assert len(few) == 7
    assert set(few) <= set(answered)


@pytest.mark.parametrize(
    ("annotators", "choice"), [(True, "vqa-decoders"), (False, "gqa-decoders")]
)
def test_open_questions_of_published_begin_the_published_draw(
    annotators: bool, choice: str
) -> None:
    rows = open_rows(400, annotators)
    drawn = select_published_ids(choice, rows)
    assert len(drawn) == 300
    entry = {"form": "open", "size": None, "choice": choice}
    questions = select_questions(rows, "d", entry, PUBLISHED, 7, 9).questions
    assert [one.item_id for one in questions] == [f"d:{place}" for place in drawn[:7]]
    assert (questions[0].labels, questions[0].wrong, get_setting(questions[0])) == (
        (),
        "impossible to give",
        "open",
    )
    assert len(select_questions(rows, "d", entry, PUBLISHED, None, 9).questions) == 300


def test_selected_items_that_cannot_be_rendered_are_reported() -> None:
    entry = {"form": "open", "size": 6, "choice": "gqa-decoders"}
    chosen = select_questions(
        open_rows(6, False, (2,), (4,)), "d", entry, PUBLISHED, None, 9
    )
    assert chosen.skipped == {"d:2": "no image", "d:4": "the answer is withheld"}
    assert sorted(one.item_id for one in chosen.questions) == [
        "d:0",
        "d:1",
        "d:3",
        "d:5",
    ]
    assert (
        len(
            select_questions(
                open_rows(6, False, (2,), (4,)),
                "d",
                {"form": "open", "size": None},
                EQUATIONS,
                None,
                9,
            ).questions
        )
        == 4
    )
    with pytest.raises(UserError, match=r"no usable questions: d \(got 0 of 2 rows\)"):
        select_questions(
            open_rows(2, True, (0, 1)),
            "d",
            {"form": "open", "size": None},
            EQUATIONS,
            None,
            9,
        )


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_the_size_of_a_data_set_bounds_its_sample(profile: str) -> None:
    entry = {"form": "choice", "size": 5}
    five = select_questions(
        comve_rows(30), "comve", entry, get_fidelity(profile), 20, 9
    ).questions
    assert len(five) == 5
    three = select_questions(
        comve_rows(30), "comve", entry, get_fidelity(profile), 3, 9
    ).questions
    assert {one.item_id for one in three} < {one.item_id for one in five}
    assert {get_setting(one) for one in five} == {"choice"}


def test_the_pair_of_comve_is_that_of_the_row_after_the_last_one_tested() -> None:
    rows = comve_rows(150)
    order = select_published_ids("comve", rows, 150)
    entry = {"form": "choice", "size": None}
    tested = [
        one.item_id
        for one in select_questions(rows, "comve", entry, PUBLISHED, 3, 9).questions
    ]
    assert tested == [f"s:{place}" for place in order[:3]]
    assert select_shared_pair(rows, entry, 3) == (
        f"First {order[3]}.",
        f"Second {order[3]}.",
    )
    assert select_shared_pair(rows, entry, None) == (
        f"First {order[100]}.",
        f"Second {order[100]}.",
    )
    assert select_shared_pair(rows[:4], entry, None)[0] in {
        f"First {place}." for place in select_published_ids("comve", rows[:4])[3:]
    }


def test_only_sampled_runs_on_the_data_sets_of_the_papers_deviations_are_repeated() -> (
    None
):
    seeds, repeated = [42, 43, 44], ["comve", "existence", "vqa-decoders"]
    assert select_seeds(seeds, "comve", repeated, is_sampled=True) == seeds
    assert select_seeds(seeds, "e-snli", repeated, is_sampled=True) == [42]
    assert select_seeds(seeds, "e-snli", None, is_sampled=True) == seeds
    # Runs of a model that does not sample have the same texts.
    assert select_seeds(seeds, "comve", repeated, is_sampled=False) == [42]
    assert select_seeds(seeds, "comve", None, is_sampled=False) == [42]
