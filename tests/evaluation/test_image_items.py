"""Questions about an image: which text stands first, what is right, and who said so."""

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltz.core.errors import UserError
from waltz.core.sampling import sample
from waltz.evaluation.prompting.image_questions import (
    PUBLISHED_VALID_ITEMS,
    assign_balanced_orders,
    build_open_questions,
    build_pairwise_questions,
    build_single_questions,
    count_earlier_draws,
    draw_published_orders,
)
from waltz.evaluation.prompting.questions import Question
from waltz.sources.formats import pairs, questions

ITEM = {
    "item_id": "x:1",
    "instrument": "existence",
    "image": "i.jpg",
    "caption": "There are animals.",
    "foil": "There are no animals.",
}


def test_the_right_label_goes_where_the_caption_goes() -> None:
    first, second = (build_pairwise_questions([ITEM], "existence", {"x:1": place})[0] for place in (True, False))
    assert first.fields == {"first": "There are animals.", "second": "There are no animals."}
    assert second.fields == {"first": "There are no animals.", "second": "There are animals."}
    assert [(one.gold, one.wrong, one.order) for one in (first, second)] == [
        (("A",), "B", "caption-first"),
        (("B",), "A", "foil-first"),
    ]
    assert (first.form, first.labels, first.image) == ("pairwise", ("A", "B"), "i.jpg")


def test_a_caption_is_correct_and_every_other_text_is_not() -> None:
    mismatched = {**ITEM, "item_id": "x:2", "instrument": "alignment"}
    probe = {"item_id": "x:3", "condition": "match", "image": "p.jpg", "caption": "A man sits."}
    asked = build_single_questions([ITEM, mismatched, probe], "d")
    assert [(one.item_id, one.role, one.gold, one.wrong) for one in asked] == [
        ("x:1", "caption", ("A",), "B"),
        ("x:1", "foil", ("B",), "A"),
        ("x:2", "caption", ("A",), "B"),
        ("x:2", "mismatched", ("B",), "A"),
        ("x:3", "caption", ("A",), "B"),
    ]
    assert asked[1].fields == {"caption": "There are no animals."}


@given(st.sets(st.text("abc", max_size=4), min_size=1, max_size=40), st.integers(0, 5), st.data())
def test_orders_are_balanced_in_the_whole_and_in_each_sample(ids: set[str], seed: int, data: st.DataObject) -> None:
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
    assert draw_published_orders(["a", "b"]) == dict(zip("ab", stream, strict=False))
    assert draw_published_orders(["a", "b"], earlier_draws=7) == dict(zip("ab", stream[7:], strict=False))
    assert (count_earlier_draws("foil-it"), count_earlier_draws("existence"), count_earlier_draws("plurality")) == (
        0,
        943,
        1448,
    )
    with pytest.raises(UserError, match="mscoco: no published order"):
        count_earlier_draws("mscoco")


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
        items = [item for item in pairs.read_release(shared_data / "valse" / f"{file}.json", piece, 2) if item["valid"]]
        assert len(items) == PUBLISHED_VALID_ITEMS[piece]
        orders = draw_published_orders([item["item_id"] for item in items], count_earlier_draws(piece))
        asked = build_pairwise_questions(items, piece, orders)
        assert 0.4 < sum(one.order == "caption-first" for one in asked) / len(asked) < 0.6


def row(**more: Any) -> dict[str, Any]:
    common = {"source": "vqa", "source_id": "9", "image": "i.jpg", "question": " What is it? ", "rejected": None}
    return {**common, "answer": "cat", "answers": [], **more}


def test_whatever_an_annotator_said_is_right_the_commonest_first() -> None:
    (one,) = build_open_questions([row(answers=["dog", "cat", "cow", "cat", "cow", "cat"])], "vqa")
    assert one.gold == ("cat", "cow", "dog")
    assert one == Question(
        "vqa:9", "vqa", "open", "i.jpg", {"question": "What is it?"}, (), one.gold, "impossible to give"
    )
    (alone,) = build_open_questions([row()], "gqa")
    assert alone.gold == ("cat",)
    with pytest.raises(UserError, match="vqa: vqa:9 cannot be asked: it has no answer"):
        build_open_questions([row(answer=None)], "vqa")
    with pytest.raises(UserError, match="cannot be asked: no image"):
        build_open_questions([row(rejected="no image")], "vqa")


def test_real_questions_have_an_answer(shared_data: Path) -> None:
    rows = list(questions.read_gqa(shared_data / "gqa" / "fixture_questions_a.json", "gqa", None))
    asked = build_open_questions(rows, "gqa")
    assert [(one.fields["question"], one.gold) for one in asked] == [(r["question"], (r["answer"],)) for r in rows]
    files = shared_data / "vqa_v2" / "questions.json", shared_data / "vqa_v2" / "annotations.json"
    rows = [row for row in questions.read_vqa(*files, "vqa") if row["rejected"] is None]
    asked = build_open_questions(rows, "vqa")
    assert asked
    for one, each in zip(asked, rows, strict=True):
        assert set(one.gold) == set(each["answers"])
        assert one.gold[0] == each["answer"]
