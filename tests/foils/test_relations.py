"""Captions whose prepositions are exchanged."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waltz.core.text_diff import Span, slice_span
from waltz.foils.candidates import MakerOptions, Proposal, Refusal, replace_span
from waltz.foils.english.parsing import parse_captions
from waltz.foils.relations import (
    NO_PLACE,
    NOT_BEST,
    PrepositionSlot,
    build_attested_foils,
    build_candidates,
    build_relation_foils,
    count_attested,
    find_slots,
)
from waltz.sources.records import CaptionRecord

BOAT = "A boat pushes off from the shore."


def slots_of(caption: str) -> list[PrepositionSlot]:
    return list(find_slots(next(parse_captions([caption]))))


def test_slots_are_runs_of_prepositions_and_their_parts():
    assert [slot.text for slot in slots_of(BOAT)] == ["off", "off from", "from"]
    assert slots_of(BOAT)[1].span == Span(start=14, end=22)


@pytest.mark.parametrize(
    ("caption", "texts"),
    [
        ("A horse stands outside.", ["outside"]),
        ("A man walks to a train to eat.", ["to"]),
        ("Two dogs sleep.", []),
        ("", []),
        ("On the table, a cat sits up.", ["on", "up"]),
    ],
)
def test_slots(caption, texts):
    assert [slot.text for slot in slots_of(caption)] == texts


def test_attested_sequences_are_counted_and_ordered():
    results = [
        slot
        for caption in (BOAT, "A cat jumps off a table.")
        for slot in slots_of(caption)
    ]
    assert list(count_attested(results).items()) == [
        ("off", 2),
        ("from", 1),
        ("off from", 1),
    ]


def test_the_best_attested_proposal_of_each_length_is_used_and_the_others_say_why():
    slot = slots_of(BOAT)[0]
    phrases = ["off", "In", "out of", "amid", "on", " up  on "]
    proposals = [
        Proposal(phrase, tuple(phrase.split()), -float(rank), rank)
        for rank, phrase in enumerate(phrases)
    ]
    results = list(
        build_relation_foils(
            BOAT, slot, proposals, {"in", "off", "on", "out of", "up on"}
        )
    )
    assert [(candidate.foil, candidate.rejected) for candidate in results] == [
        ("A boat pushes off from the shore.", "the same words"),
        ("A boat pushes in from the shore.", None),
        ("A boat pushes out of from the shore.", None),
        ("A boat pushes amid from the shore.", "not attested in the captions"),
        (
            "A boat pushes on from the shore.",
            "a better proposal of as many tokens is used",
        ),
        (
            "A boat pushes up on from the shore.",
            "a better proposal of as many tokens is used",
        ),
    ]
    assert [candidate.proposal_rank for candidate in results] == [0, 1, 2, 3, 4, 5]
    assert [candidate.proposal_score for candidate in results] == [
        0,
        -1,
        -2,
        -3,
        -4,
        -5,
    ]
    used = results[1]
    assert (used.caption_phrases, used.foil_phrases, used.direction) == (
        ("off",),
        ("in",),
        "off>in",
    )


def test_released_foils_exchange_whole_runs_of_prepositions_and_parts_of_them(
    shared_data,
):
    items = json.loads((shared_data / "valse" / "relations.json").read_text()).values()
    kinds = Counter()
    for item, doc in zip(
        items, parse_captions(item["caption"] for item in items), strict=True
    ):
        slots = list(find_slots(doc))
        words = [slot.span for slot in slots if slot.text == item["classes"].lower()]
        is_part = [any(_contains(slot.span, span) for slot in slots) for span in words]
        kinds["none" if not words else "part" if all(is_part) else "whole"] += 1
    assert kinds == {"whole": 543, "part": 71}


def _contains(outer: Span, inner: Span) -> bool:
    return (
        outer != inner
        and outer["start"] <= inner["start"]
        and inner["end"] <= outer["end"]
    )


def test_a_preposition_at_the_start_keeps_its_capital():
    caption = "On the table, a cat sits."
    results = next(build_attested_foils(caption, slots_of(caption)[0], ["under"]))
    assert results.foil == "Under the table, a cat sits."
    assert slice_span(results.foil, results.foil_span) == "Under"


def test_attested_foils_skip_the_words_of_the_slot_itself():
    foils = build_attested_foils(BOAT, slots_of(BOAT)[0], {"off": 3, "in": 2, "on": 1})
    assert [candidate.foil_phrases for candidate in foils] == [("in",), ("on",)]


PLACES = st.sampled_from(
    [
        "on",
        "in front of",
        "out of",
        "up on",
        "behind",
        "over",
        "through",
        "off from",
        "into",
    ]
)


@settings(max_examples=40, deadline=None)
@given(PLACES, PLACES, st.sampled_from(["", "."]))
def test_spans_hold_the_prepositions_and_nothing_else(first, second, stop):
    caption = f"A dog jumps {first} a box and runs {second} the house{stop}"
    results = slots_of(caption)
    sequences = count_attested([*results, *slots_of(BOAT)])
    assert results
    for slot in results:
        assert slice_span(caption, slot.span).lower() == slot.text
        for candidate in build_attested_foils(caption, slot, sequences):
            exchanged = slice_span(candidate.foil, candidate.foil_span)
            assert exchanged == candidate.foil_phrases[0]
            assert (
                replace_span(caption, candidate.caption_span, exchanged)[0]
                == candidate.foil
                != caption
            )


def score_by_length(texts):
    """Prefer short texts; among equals, the alphabetically first."""
    ranking = sorted(set(texts), key=lambda text: (len(text), text))
    return {text: -float(rank) for rank, text in enumerate(ranking)}


def test_a_causal_model_ranks_the_contraries_of_each_preposition():
    rows = [
        CaptionRecord(
            source="own", source_id="1", image="1.jpg", caption="a cat on a couch"
        ),
        CaptionRecord(source="own", source_id="2", image="2.jpg", caption="Two dogs."),
    ]
    options = MakerOptions(score_texts=score_by_length)
    outcomes = list(build_candidates(rows, options, "relations"))
    assert outcomes[-1] == (rows[1], Refusal(NO_PLACE))
    # under, beside; next to: the best of each number of words is used
    used = [
        (result.foil, result.direction, result.proposal_rank)
        for _, result in outcomes[:-1]
        if result.rejected is None
    ]
    assert used == [
        ("A cat under a couch", "on>under", 0),
        ("A cat next to a couch", "on>next to", 2),
    ]
    assert {result.rejected for _, result in outcomes[:-1]} == {None, NOT_BEST}
    assert all(result.caption == "A cat on a couch" for _, result in outcomes[:-1])
