"""Samples of the published runs."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from waltz.core.errors import UserError
from waltz.core.records import to_row
from waltz.sources.formats import questions, text_tasks
from waltz.sources.published_samples import (
    PUBLISHED_SAMPLES,
    draw_caption_first,
    draw_foils_for_decoders,
    draw_items_and_foils_for_encoders,
    select_published_ids,
)


def rows(n: int, images: int | None = None) -> list[dict[str, Any]]:
    return [
        {"source_id": str(i), "image": f"{i % (images or n)}.jpg"} for i in range(n)
    ]


def test_shuffles_keep_every_row_and_grow_by_inclusion() -> None:
    for name in ("comve", "esnli", "bbh"):
        everything = select_published_ids(name, rows(300), 300)
        assert sorted(everything, key=int) == [str(i) for i in range(300)]
        assert select_published_ids(name, rows(300)) == everything[:100]
        assert select_published_ids(name, rows(7)) == select_published_ids(
            name, rows(7), 7
        )


def test_pandas_shuffle_is_the_legacy_permutation_of_numpy() -> None:
    order = np.random.RandomState(42).permutation(50)
    assert select_published_ids("comve", rows(50), 50) == [
        str(index) for index in order
    ]


def test_python_shuffle_is_that_of_the_seeded_generator() -> None:
    order = list(range(50))
    random.seed(42)
    random.shuffle(order)
    assert select_published_ids("bbh", rows(50), 50) == [str(index) for index in order]


def test_numpy_draw_is_that_of_the_global_generator() -> None:
    np.random.seed(0)
    indices = np.random.choice(4000, 1500, replace=False)
    assert select_published_ids("nlvr2-encoders", rows(4000)) == [
        str(index) for index in indices
    ]


def test_a_later_question_on_an_image_replaces_the_earlier_one() -> None:
    indices = [
        int(item) for item in select_published_ids("nlvr2-encoders", rows(10), 10)
    ]
    expected = list(dict.fromkeys(index % 2 for index in indices))
    last = {
        parity: [index for index in indices if index % 2 == parity][-1]
        for parity in expected
    }
    assert select_published_ids("vqa-decoders", rows(10, images=2), 10) == [
        str(last[parity]) for parity in expected
    ]


def test_decoders_draw_gqa_from_ids_in_text_order() -> None:
    random.seed(42)
    expected = random.sample(sorted(str(i) for i in range(400)), 300)
    assert select_published_ids("gqa-decoders", rows(400)) == expected
    assert select_published_ids("gqa-decoders", rows(400)[::-1]) == expected
    assert not PUBLISHED_SAMPLES["gqa-encoders"].reproducible


def test_a_smaller_sample_is_the_first_of_the_published_draw() -> None:
    many = rows(4000, images=2000)
    for name in ("vqa-decoders", "gqa-decoders", "vqa-encoders"):
        assert (
            select_published_ids(name, many, 100)
            == select_published_ids(name, many)[:100]
        )
    assert len(select_published_ids("vqa-decoders", rows(40), 30)) == 30


def test_foils_of_encoders_are_the_texts_of_random_items_of_the_sample() -> None:
    random.seed(1520)
    assert draw_items_and_foils_for_encoders(50, None) == (
        list(range(50)),
        [random.sample(range(50), 1)[0] for _ in range(50)],
    )


def test_a_smaller_sample_of_encoders_is_drawn_by_the_same_generator_before_the_foils() -> (
    None
):
    random.seed(1520)
    chosen = random.sample(range(50), 7)
    foils = [random.sample(range(7), 1)[0] for _ in range(7)]
    assert draw_items_and_foils_for_encoders(50, 7) == (
        chosen,
        [chosen[place] for place in foils],
    )


def test_foils_of_decoders_alternate_with_the_orders_of_the_options() -> None:
    ids = [str(i) for i in (7, 30, 200, 5, 11)]
    random.seed(42)
    expected = []
    for _ in range(4):
        foil = random.sample(sorted(ids), 1)[0]
        expected.append((foil, random.choice([0, 1]) == 0))
    assert draw_foils_for_decoders(ids, 4) == expected


def test_impossible_draws_are_refused() -> None:
    with pytest.raises(UserError, match="got 3, expected at least 1500"):
        select_published_ids("vqa-encoders", rows(3))
    with pytest.raises(UserError, match="got 3, expected at least 4"):
        select_published_ids("gqa-decoders", rows(3), 4)
    with pytest.raises(UserError, match="got 'vcr', expected comve, esnli"):
        select_published_ids("vcr", rows(3))


def test_the_order_of_caption_and_foil_is_that_of_random_choice() -> None:
    random.seed(42)
    assert draw_caption_first(20) == [random.choice([0, 1]) == 0 for _ in range(20)]


def test_comve_begins_like_an_output_of_the_released_script(shared_data: Path) -> None:
    folder = shared_data / "comve"
    files = folder / "subtaskA_test_data.csv", folder / "subtaskA_gold_answers.csv"
    pairs = list(map(to_row, text_tasks.read_comve(*files, "comve", "test")))
    by_id = {row["source_id"]: row for row in pairs}
    first, second = (by_id[item] for item in select_published_ids("comve", pairs)[:2])
    assert first["choices"][0] == "She put the papers into the filing cabinet."
    assert second["choices"][1] == "The lion used the litter box"
    assert (first["gold"], second["gold"]) == (1, 1)


def test_esnli_begins_like_an_output_of_the_released_script(shared_data: Path) -> None:
    pairs = list(
        map(
            to_row,
            text_tasks.read_esnli(
                shared_data / "esnli" / "esnli_test_rebuilt.csv", "esnli", "test"
            ),
        )
    )
    by_id = {row["source_id"]: row for row in pairs}
    item_ids = select_published_ids("esnli", pairs)
    assert [
        (by_id[item_ids[index]]["hypothesis"], by_id[item_ids[index]]["gold"])
        for index in (0, 1, 4)
    ] == [
        ("A person standing", 0),
        ("a man sits on a couch", 2),
        ("The performers are playing bagpipes .", 1),
    ]


def test_the_real_files_are_large_enough(shared_data: Path) -> None:
    path = shared_data / "bbh_val_data" / "causal_judgment" / "val_data.json"
    assert (
        len(
            set(
                select_published_ids(
                    "bbh",
                    list(
                        map(
                            to_row,
                            text_tasks.read_bbh_data(
                                path, "causal_judgment", "bbh", None
                            ),
                        )
                    ),
                )
            )
        )
        == 100
    )
    lines = map(
        to_row,
        questions.read_gqa_lines(
            shared_data / "gqa" / "llava_gqa_testdev_balanced.jsonl", "gqa", "testdev"
        ),
    )
    assert len(set(select_published_ids("gqa-decoders", list(lines)))) == 300
