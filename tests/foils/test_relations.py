"""Captions whose prepositions are exchanged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waltz.core.text_diff import Span, slice_span
from waltz.foils.candidates import Proposal, replace_span
from waltz.foils.english.parsing import parse_captions
from waltz.foils.relations import (
    PrepositionSlot,
    build_attested_foils,
    build_relation_foils,
    count_attested,
    find_slots,
)

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
    results = [slot for caption in (BOAT, "A cat jumps off a table.") for slot in slots_of(caption)]
    assert list(count_attested(results).items()) == [("off", 2), ("from", 1), ("off from", 1)]


def test_proposals_stay_in_order_with_the_reason_of_refusal():
    slot = slots_of(BOAT)[0]
    scores = {"In": -0.5, "off": -0.7, "amid": -0.9, " out  of ": -1.0}
    proposals = [Proposal(phrase, (), score, rank) for rank, (phrase, score) in enumerate(scores.items())]
    results = list(build_relation_foils(BOAT, slot, proposals, {"in", "off", "out of"}))
    assert [candidate.foil for candidate in results] == [
        "A boat pushes in from the shore.",
        "A boat pushes off from the shore.",
        "A boat pushes amid from the shore.",
        "A boat pushes out of from the shore.",
    ]
    assert [candidate.rejected for candidate in results] == [
        None,
        "the same words",
        "not attested in the captions",
        None,
    ]
    assert [candidate.proposal_rank for candidate in results] == [0, 1, 2, 3]
    assert [candidate.proposal_score for candidate in results] == [-0.5, -0.7, -0.9, -1.0]
    assert (results[0].caption_phrases, results[0].foil_phrases, results[0].direction) == (("off",), ("in",), "off>in")


def test_a_preposition_at_the_start_keeps_its_capital():
    caption = "On the table, a cat sits."
    results = next(build_attested_foils(caption, slots_of(caption)[0], ["under"]))
    assert results.foil == "Under the table, a cat sits."
    assert slice_span(results.foil, results.foil_span) == "Under"


def test_attested_foils_skip_the_words_of_the_slot_itself():
    foils = build_attested_foils(BOAT, slots_of(BOAT)[0], {"off": 3, "in": 2, "on": 1})
    assert [candidate.foil_phrases for candidate in foils] == [("in",), ("on",)]


PLACES = st.sampled_from(["on", "in front of", "out of", "up on", "behind", "over", "through", "off from", "into"])


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
            assert replace_span(caption, candidate.caption_span, exchanged)[0] == candidate.foil != caption
