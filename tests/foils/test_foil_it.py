"""FOIL-it: pairs as their annotations give them."""

import json
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from waltz.core.text_diff import slice_span
from waltz.foils.candidates import Candidate, Refusal
from waltz.foils.foil_it import build_noun_foil


def test_spans_are_where_the_word_was_replaced() -> None:
    found = build_noun_foil("A giant bowl of food.", "A giant bottle of food.", "bowl", "bottle")
    assert isinstance(found, Candidate)
    assert (found.caption, found.foil) == ("a giant bowl of food.", "a giant bottle of food.")
    assert slice_span(found.caption, found.caption_span) == "bowl"
    assert slice_span(found.foil, found.foil_span) == "bottle"
    assert (found.caption_phrases, found.foil_phrases) == (("bowl",), ("bottle",))


def test_a_word_replaced_twice_and_an_article_that_follows_it() -> None:
    twice = build_noun_foil("broccoli with broccolis", "carrot with carrots", "broccoli", "carrot")
    assert isinstance(twice, Candidate)
    assert slice_span(twice.foil, twice.foil_span) == "carrot with carrots"
    article = build_noun_foil("A dog sits.", "An elephant sits.", "dog", "elephant")
    assert isinstance(article, Candidate)
    assert slice_span(article.caption, article.caption_span) == "a dog"


def test_pairs_that_differ_elsewhere_are_refused() -> None:
    assert build_noun_foil("a dog", "a dog", "dog", "cat") == Refusal("caption and foil are alike")
    assert build_noun_foil("a dog", "the cat", "dog", "cat") == Refusal("caption and foil differ in more than the word")
    assert build_noun_foil("a dog", "a cow", "dog", "cat") == Refusal("caption and foil differ in more than the word")


WORDS = st.sampled_from(["dog", "cat", "traffic light", "bus"])


@given(
    before=st.sampled_from(["a ", "a red ", ""]), target=WORDS, foil=WORDS, after=st.sampled_from(["", ".", " sits."])
)
def test_the_spans_hold_the_two_words(before: str, target: str, foil: str, after: str) -> None:
    found = build_noun_foil(f"{before}{target}{after}", f"{before}{foil}{after}", target, foil)
    if target == foil:
        assert isinstance(found, Refusal)
        return
    assert isinstance(found, Candidate)
    assert slice_span(found.caption, found.caption_span) == target
    assert slice_span(found.foil, found.foil_span) == foil


def test_the_released_pairs_are_pairs(shared_data: Path) -> None:
    items = json.loads((shared_data / "valse" / "foil-it.json").read_text())
    found = [
        build_noun_foil(one["caption"], one["foil"], one["classes"], one["classes_foil"]) for one in items.values()
    ]
    assert Counter(type(one).__name__ for one in found) == {"Candidate": len(items)}
    assert all(
        isinstance(one, Candidate) and (one.caption, one.foil) == (item["caption"], item["foil"])
        for one, item in zip(found, items.values(), strict=True)
    )
