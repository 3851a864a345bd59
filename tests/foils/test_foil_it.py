"""FOIL-it: pairs as their annotations give them."""

import json
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from waltz.core.text_diff import slice_span
from waltz.foils.candidates import Candidate, MakerOptions, Refusal
from waltz.foils.english.coco_nouns import NO_NOUN, NOT_SALIENT, read_categories
from waltz.foils.foil_it import (
    BESIDE_OTHERS,
    NOT_ASSERTED,
    build_candidates,
    build_noun_foil,
)
from waltz.sources.records import CaptionRecord


def test_spans_are_where_the_word_was_replaced() -> None:
    results = build_noun_foil(
        "A giant bowl of food.", "A giant bottle of food.", "bowl", "bottle"
    )
    assert isinstance(results, Candidate)
    assert (results.caption, results.foil) == (
        "a giant bowl of food.",
        "a giant bottle of food.",
    )
    assert slice_span(results.caption, results.caption_span) == "bowl"
    assert slice_span(results.foil, results.foil_span) == "bottle"
    assert (results.caption_phrases, results.foil_phrases) == (("bowl",), ("bottle",))


def test_a_word_replaced_twice_and_an_article_that_follows_it() -> None:
    twice = build_noun_foil(
        "broccoli with broccolis", "carrot with carrots", "broccoli", "carrot"
    )
    assert isinstance(twice, Candidate)
    assert slice_span(twice.foil, twice.foil_span) == "carrot with carrots"
    article = build_noun_foil("A dog sits.", "An elephant sits.", "dog", "elephant")
    assert isinstance(article, Candidate)
    assert slice_span(article.caption, article.caption_span) == "a dog"


def test_pairs_that_differ_elsewhere_are_refused() -> None:
    assert build_noun_foil("a dog", "a dog", "dog", "cat") == Refusal(
        "caption and foil are alike"
    )
    assert build_noun_foil("a dog", "the cat", "dog", "cat") == Refusal(
        "caption and foil differ in more than the word"
    )
    assert build_noun_foil("a dog", "a cow", "dog", "cat") == Refusal(
        "caption and foil differ in more than the word"
    )


WORDS = st.sampled_from(["dog", "cat", "traffic light", "bus"])


@given(
    before=st.sampled_from(["a ", "a red ", ""]),
    target=WORDS,
    foil=WORDS,
    after=st.sampled_from(["", ".", " sits."]),
)
def test_the_spans_hold_the_two_words(
    before: str, target: str, foil: str, after: str
) -> None:
    results = build_noun_foil(
        f"{before}{target}{after}", f"{before}{foil}{after}", target, foil
    )
    if target == foil:
        assert isinstance(results, Refusal)
        return
    assert isinstance(results, Candidate)
    assert slice_span(results.caption, results.caption_span) == target
    assert slice_span(results.foil, results.foil_span) == foil


def test_the_released_pairs_are_pairs(shared_data: Path) -> None:
    items = json.loads((shared_data / "valse" / "foil-it.json").read_text())
    results = [
        build_noun_foil(
            candidate["caption"],
            candidate["foil"],
            candidate["classes"],
            candidate["classes_foil"],
        )
        for candidate in items.values()
    ]
    assert Counter(type(candidate).__name__ for candidate in results) == {
        "Candidate": len(items)
    }
    assert all(
        isinstance(candidate, Candidate)
        and (candidate.caption, candidate.foil) == (item["caption"], item["foil"])
        for candidate, item in zip(results, items.values(), strict=True)
    )


def build_of(*captions: str) -> list[Candidate | Refusal]:
    """Return the outcomes of COCO captions of one image."""
    rows = [
        CaptionRecord(source="coco", source_id="1", image="1.jpg", caption=caption)
        for caption in captions
    ]
    return [outcome for _, outcome in build_candidates(rows, MakerOptions(), "foil-it")]


def test_nouns_of_captions_are_replaced_by_others_of_their_kind_that_no_caption_mentions() -> (
    None
):
    results = build_of("A dog sits on a couch.", "Two dogs and a sheep near a cat.")
    candidates = [result for result in results if isinstance(result, Candidate)]
    first = {
        candidate.foil
        for candidate in candidates
        if candidate.caption.startswith("A dog")
    }
    # of the animals: not dog itself, and not sheep and cat, which the other caption mentions; the
    # couch is in one alone
    others = (
        "A bird",
        "A horse",
        "A cow",
        "An elephant",
        "A bear",
        "A zebra",
        "A giraffe",
    )
    assert first == {f"{noun} sits on a couch." for noun in others}
    second = {
        candidate.foil
        for candidate in candidates
        if candidate.caption.startswith("Two")
    }
    assert "Two elephants and a sheep near a cat." in second
    assert results.count(Refusal(NOT_SALIENT)) == 3  # couch, sheep and cat
    assert {candidate.caption_phrases for candidate in candidates} == {("dog",)}


def test_all_mentions_of_a_noun_are_replaced_and_parts_of_compounds_are_not() -> None:
    foils = {
        result.foil
        for result in build_of("A bus behind buses.", "A bus.")
        if isinstance(result, Candidate)
    }
    assert "An airplane behind airplanes." in foils
    assert build_of("A bus stop.", "A bus stop.") == [Refusal(NO_NOUN)] * 2


def test_a_category_is_exchanged_within_its_supercategory() -> None:
    categories = read_categories()
    assert set(categories["bus"]) == {
        "bicycle",
        "car",
        "motorcycle",
        "airplane",
        "bus",
        "train",
        "truck",
        "boat",
    }
    assert "person" not in categories
    assert all(len(set(kind)) == len(kind) > 1 for kind in categories.values())


def test_things_below_a_bound_are_not_exchanged() -> None:
    # As many cats and no dogs would make both texts true.
    (refusal,) = build_of("A box with no more than two cats")
    assert refusal == Refusal(NOT_ASSERTED)


def test_a_thing_beside_others_needs_a_second_caption() -> None:
    for caption in (
        "A cup and a pizza are on a table.",
        "A boy walks with a dog.",
        "A cat, a dog and a sheep play.",
        "A man holds a spoon.",
        "There is a dog.",
        "A man stands next to a dog.",
    ):
        refused = [
            outcome
            for outcome in build_of(caption)
            if outcome == Refusal(BESIDE_OTHERS)
        ]
        assert refused
    caption = "A boy walks with a dog."
    assert not any(isinstance(outcome, Candidate) for outcome in build_of(caption))
    assert any(isinstance(outcome, Candidate) for outcome in build_of(caption, caption))
