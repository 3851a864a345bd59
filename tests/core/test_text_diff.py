import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltz.core.text_diff import WORD, find_changed_spans, slice_span


@pytest.mark.parametrize(
    ("caption", "foil", "changed"),
    [
        ("There are four zebras.", "There are six zebras.", ("four", "six")),
        (
            "A man exercises his torso.",
            "A torso exercises for a man.",
            ("man exercises his torso", "torso exercises for a man"),
        ),
        ("There are no people.", "There are people.", ("no", "")),
        ("on a sports field", "on sports fields", ("a sports field", "sports fields")),
        ("It's red", "Its red", ("It's", "Its")),
        ("same", "same", ("", "")),
        ("a a", "a", ("a", "")),
    ],
)
def test_the_span_between_common_first_and_last_words(caption, foil, changed):
    caption_span, foil_span = find_changed_spans(caption, foil)
    assert (slice_span(caption, caption_span), slice_span(foil, foil_span)) == changed


PART = st.text("ab '’-.\u3000é", max_size=12)


@given(PART, PART, PART, PART)
def test_spans_are_those_of_words_compared_one_by_one(first, second, before, after):
    caption, foil = before + first + after, before + second + after
    words, others = list(WORD.finditer(caption)), list(WORD.finditer(foil))
    fewer = min(len(words), len(others))
    begin = next(
        (i for i in range(fewer) if words[i].group() != others[i].group()), fewer
    )
    left = fewer - begin
    end = next(
        (i for i in range(left) if words[-1 - i].group() != others[-1 - i].group()),
        left,
    )
    for text, span, its in zip(
        (caption, foil), find_changed_spans(caption, foil), (words, others), strict=True
    ):
        changed = its[begin : len(its) - end]
        position = its[begin - 1].end() if begin else 0
        assert (span["start"], span["end"]) == (
            (changed[0].start(), changed[-1].end()) if changed else (position, position)
        ), text


@given(st.text(max_size=40), st.text(max_size=40))
def test_spans_lie_inside_their_texts(caption, foil):
    for text, span in zip(
        (caption, foil), find_changed_spans(caption, foil), strict=True
    ):
        assert 0 <= span["start"] <= span["end"] <= len(text)
