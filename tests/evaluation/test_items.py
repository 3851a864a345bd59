"""Items with the text of another image as foil."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stand_ins.records import build_items
from waltz.consistency.item_selection import select_questions
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.records import to_row
from waltz.core.sampling import sample
from waltz.core.schema import BENCHMARK
from waltz.evaluation.items import (
    build_mismatched_items,
    get_text,
    select_items,
)
from waltz.evaluation.prompting.questions import assign_orders
from waltz.fidelity import PUBLISHED
from waltz.sources.published_samples import (
    draw_foils_for_decoders,
    draw_items_and_foils_for_encoders,
    select_published_ids,
)


def captions(*texts, rejected=()):
    """Rows of captions, two an image."""
    return [
        {
            "source": "coco",
            "source_id": str(place),
            "split": "val",
            "image": f"m{place // 2}",
            "caption": text,
        }
        | {"rejected": "too long" if place in rejected else None}
        for place, text in enumerate(texts)
    ]


def question(place, image, text, answer, rejected=None):
    return {"source": "vqa", "source_id": str(place), "split": None, "image": image} | {
        "question": text,
        "answer": answer,
        "rejected": rejected,
    }


def test_a_question_becomes_question_answer_and_full_stop():
    assert get_text(question(0, "m", "Is it red?", "no")) == "Is it red? no."
    assert get_text(question(0, "m", "Is it red?", None)) is None
    assert get_text(captions("A cat.")[0]) == "A cat."


def test_items_have_the_text_of_another_image_and_the_benchmark_layout():
    rows = captions("A cat.", "One cat.", "A dog.", "One dog.", "A cow.", "One cow.")
    items, unusable = build_mismatched_items("mscoco", rows, None, seed=1)
    assert parquet.build_table(list(map(to_row, items)), BENCHMARK).num_rows == 3
    assert not unusable
    for item in items:
        assert item.item_id == f"mscoco:{item.source_id}"
        assert item.caption.split()[1] != item.foil.split()[1]
        assert (item.instrument, item.piece) == ("alignment", "mscoco")
    assert len({item.image for item in items}) == 3


def test_a_text_that_the_image_has_itself_is_never_its_foil():
    rows = [
        question(0, "m0", "Is it red?", "no"),
        question(1, "m0", "How many?", "2"),
        question(2, "m1", "is it  RED?", "no"),
        question(3, "m1", "How many?", "2"),
        question(4, "m1", "What?", "a cow"),
    ]
    for seed in range(20):
        items, unusable = build_mismatched_items("pairs", rows, None, seed)
        assert {item.image: item.foil for item in items} == {
            "m0": "What? a cow."
        }  # all other texts describe m0 too
        # All texts describe m1.
        assert unusable == Counter({"no other image has another text": 1})


TEXTS = st.lists(st.sampled_from("abcdef"), min_size=4, max_size=14)


@given(TEXTS, st.integers(0, 9))
def test_foils_do_not_depend_on_the_number_of_items(texts, seed):
    rows = captions(*texts)
    try:
        everything, _ = build_mismatched_items("d", rows, None, seed)
    except UserError:
        return
    try:
        few, _ = build_mismatched_items("d", rows, 1, seed)
    except UserError:
        few = []
    assert all(item in everything for item in few)
    own = {
        image: {row["caption"] for row in rows if row["image"] == image}
        for image in {row["image"] for row in rows}
    }
    assert all(item.foil not in own[item.image] for item in everything)


def test_what_cannot_be_used_is_counted_by_reason():
    rows = [*captions("A cat.", "One cat.", "A dog.", "One dog.", rejected=(1,))]
    items, unusable = build_mismatched_items("d", rows, None, 0)
    assert unusable == Counter({"too long": 1})
    assert {item.source_id for item in items} <= {"0", "2", "3"}
    withheld = [
        question(0, "m0", "a?", "b"),
        question(1, "m1", "c?", None),
        question(2, "m2", "d?", "e"),
    ]
    assert build_mismatched_items("d", withheld, None, 0)[1] == Counter(
        {"the answer is withheld": 1}
    )


def test_too_many_items_and_a_source_of_one_text_are_refused():
    with pytest.raises(
        UserError, match=r"alignment.d.size: 3 items asked for, 2 images have a text"
    ):
        build_mismatched_items("d", captions("a", "b", "c", "d"), 3, 0)
    with pytest.raises(UserError, match="none of 4 rows gives an item"):
        build_mismatched_items("d", captions("a", "a", "A", "a"), None, 0)


def test_a_published_choice_takes_its_rows_and_leaves_the_unusable_out():
    rows = [
        question(
            place, f"m{place}", f"q{place}?", "yes", "empty" if place == 3 else None
        )
        for place in range(12)
    ]
    items, unusable = build_mismatched_items("vqa", rows, 12, 0, choice="vqa-encoders")
    expected = [
        source_id
        for source_id in select_published_ids("vqa-encoders", rows, 12)
        if source_id != "3"
    ]
    assert [item.source_id for item in items] == expected
    assert unusable == Counter({"empty": 1})
    assert [item.foil for item in items] == [
        f"q{expected[place]}? yes."
        for place in draw_items_and_foils_for_encoders(11, None)[1]
    ]


def released(n):
    """Items of the release in file order, every third of them invalid."""
    return [
        {
            "item_id": str(900 - 7 * place),
            "source": "foil-it",
            "source_id": str(900 - 7 * place),
            "split": "test",
        }
        | {
            "image": f"m{place}",
            "caption": f"Caption {place}.",
            "foil": f"Foil {place}.",
            "valid": place % 3 != 0,
        }
        | {"rejected": None}
        for place in range(n)
    ]


def test_published_mscoco_of_encoders_is_every_released_caption_of_foil_it_with_another_ones():
    """Invalid items, too; a caption may stand against itself (MM-SHAP's scripts)."""
    rows = released(40)
    items, _ = build_mismatched_items("mscoco", rows, 40, 0, choice="mscoco-encoders")
    assert parquet.build_table(list(map(to_row, items)), BENCHMARK).num_rows == 40
    assert [item.caption for item in items] == [row["caption"] for row in rows]
    assert [item.foil for item in items] == [
        f"Caption {place}." for place in draw_items_and_foils_for_encoders(40, None)[1]
    ]
    assert {item.valid for item in items} == {None}
    chosen, foils = draw_items_and_foils_for_encoders(40, 5)
    few, _ = build_mismatched_items("mscoco", rows, 5, 0, choice="mscoco-encoders")
    assert [(item.caption, item.foil) for item in few] == [
        (f"Caption {place}.", f"Caption {foil}.")
        for place, foil in zip(chosen, foils, strict=True)
    ]


def test_published_mscoco_of_decoders_is_the_first_captions_with_foils_and_orders_of_one_stream():
    rows = released(40)
    items, _ = build_mismatched_items("mscoco", rows, 6, 0, choice="mscoco-decoders")
    item_rows = list(map(to_row, items))
    parquet.build_table(item_rows, BENCHMARK)
    by_id = {row["item_id"]: row["caption"] for row in rows}
    drawn = draw_foils_for_decoders(list(by_id), 6)
    assert [item.caption for item in items] == [row["caption"] for row in rows[:6]]
    assert [item.foil for item in items] == [by_id[foil] for foil, _ in drawn]
    orders = list(assign_orders(items, "mscoco", PUBLISHED, 0).values())
    assert orders == [caption_first for _, caption_first in drawn]
    questions = select_questions(
        item_rows, "mscoco", {"form": "pairs"}, PUBLISHED, 4, 0
    ).questions
    assert [one.order == "caption-first" for one in questions] == orders[:4]


def test_a_released_file_of_fewer_items_is_refused():
    with pytest.raises(
        UserError,
        match=r"alignment.d.size: 9 items asked for, 4 can be drawn; ask for fewer",
    ):
        build_mismatched_items("d", released(4), 9, 0, choice="mscoco-decoders")


def test_seeds_draw_other_foils():
    rows = captions(*(f"text {place}" for place in range(60)))
    drawn = [
        [item.foil for item in build_mismatched_items("d", rows, 20, seed)[0]]
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) > 12


def test_a_data_set_without_items_names_balancing():
    with pytest.raises(UserError, match="filters or frequency balancing"):
        select_items([], "valid", None, 1)


def test_items_of_one_group_are_drawn_together():
    texts = {"image": "i", "caption": "a dog", "foil": "a cat"}
    ids = [f"d:{number}" for number in range(20)]
    items = build_items(
        {**texts, "item_id": item_id, "group": f"g{number // 2}"}
        for number, item_id in enumerate(ids)
    )
    for n, expected in ((1, 2), (2, 2), (7, 6), (20, 20), (99, 20), (None, 20)):
        groups = Counter(item.group for item in select_items(items, "all", n, 4))
        assert set(groups.values()) == {2}
        assert groups.total() == expected
    ungrouped = build_items({**texts, "item_id": item_id} for item_id in ids)
    drawn = [item.item_id for item in select_items(ungrouped, "all", 7, 4)]
    assert drawn == sample(ids, 7, 4)
