"""Hints at the name that was meant."""

import pytest

from waltz.core.errors import build_name_error, find_closest, suggest_or_list


@pytest.mark.parametrize(
    ("name", "names", "closest"),
    [
        ("valid_vote", ["valid_votes", "oracle"], "valid_votes"),
        ("scnes", ["scenes", "valse"], "scenes"),
        ("thesis-4.22", ["thesis-4.2", "thesis-C.3"], "thesis-4.2"),
        ("table_C.25", ["table_C_2", "table_C_25"], "table_C_25"),
        ("table_9_9", ["table_C_3", "table_4_2"], ""),
        (
            "clip-vit-base-patch23",
            ["clip-vit-base-patch32", "clip-vit-large-patch14"],
            "clip-vit-base-patch32",
        ),
        ("scenes", ["scenes"], ""),
        ("nope", ["measures", "photos", "recorded"], ""),
    ],
)
def test_a_suggestion_is_like_the_name_beyond_the_words_that_both_begin_with(
    name, names, closest
):
    assert find_closest(name, names) == closest


def test_long_lists_are_cut_and_give_way_to_a_suggestion():
    names = ["accuracy", *(f"metric{number:02}" for number in range(30))]
    error = build_name_error("--x", "metric", "acuracy", names)
    assert str(error) == "--x: unknown metric (got 'acuracy'); did you mean 'accuracy'?"
    assert "metric10 or 19 more); choose" in str(
        build_name_error("--x", "metric", "qqq", names)
    )
    assert suggest_or_list("qqq", names).endswith("metric10 and 19 more")
    assert suggest_or_list("b", []) == "; there are none"
