"""Captions from frames, their verbs replaced, their actants swapped."""

from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waltz.core.text_diff import slice_span
from waltz.foils.actant_swap import build_swaps
from waltz.foils.action_replacement import build_replacements, list_replacement_verbs
from waltz.foils.candidates import Proposal, Refusal
from waltz.foils.english.wordnet import read_swig_verbs
from waltz.foils.swig import (
    ActionCaption,
    RolePosition,
    build_action_captions,
    get_filler_noun,
    inflect_present,
    parse_abstract,
    split_caption,
)
from waltz.sources.records import FrameRecord, RoleFiller

VERBS = read_swig_verbs()


ALONE = "no role but agent and place is filled"
NOBODY = "nobody fills the role before the verb"
NO_AGENT = "its abstract is passive, and nobody fills the role of who acts"
OTHER_VERB = "its abstract does not begin with a role and its verb"


def frame(verb: str, abstract: str | None, **glosses: str | None) -> FrameRecord:
    synsets = {"man": "n10287213", "person": "n00007846", "woman": "n10787470"}
    roles = [
        RoleFiller(role, synsets.get(gloss or ""), gloss, None)
        for role, gloss in glosses.items()
    ]
    return FrameRecord(
        source="swig",
        source_id="x#0",
        image="x",
        verb=verb,
        annotator=0,
        abstract=abstract,
        roles=roles,
    )


def captions(*arguments: Any, **glosses: str | None) -> list[ActionCaption]:
    outcomes = list(build_action_captions(frame(*arguments, **glosses)))
    assert all(isinstance(caption, ActionCaption) for caption in outcomes), outcomes
    return outcomes  # type: ignore[return-value]


def throwing() -> ActionCaption:
    return captions(
        "throwing",
        "an AGENT throws an ITEM at a PLACE",
        agent="tennis player",
        item="ball",
    )[0]


@pytest.mark.parametrize(
    ("verb", "abstract", "glosses", "texts"),
    [
        (
            "catching",
            "an AGENT catches a CAUGHTITEM with a TOOL at a PLACE",
            {"agent": "man", "caughtitem": "ball", "tool": "hand", "place": "beach"},
            ["A man catches a ball.", "A man catches with a hand."],
        ),
        (
            "rowing",
            "AGENT rows in VEHICLE at PLACE",
            {"agent": "people", "vehicle": "canoe"},
            ["The people row in a canoe."],
        ),
        (
            "spitting",
            "AGENT spits ITEM on TARGET",
            {"agent": "woman", "item": "water"},
            ["A woman spits water."],
        ),
        (
            "flexing",
            "AGENT flexes AGENTPART",
            {"agent": "man", "agentpart": "biceps"},
            ["A man flexes his biceps."],
        ),
        (
            "flapping",
            "the AGENT flaps its BODYPART",
            {"agent": "bird", "bodypart": "wing"},
            ["A bird flaps the wing."],
        ),
        (
            "scolding",
            "AGENT scolds VICTIM",
            {"agent": "woman", "victim": "woman"},
            ["A woman scolds another woman."],
        ),
        (
            "taxiing",
            "AGENT taxies on GROUND",
            {"agent": "airplane", "ground": "runway"},
            ["An airplane taxis on a runway."],
        ),
        (
            "begging",
            "the AGENT is begging the GIVER for ITEM in PLACE.",
            {"agent": "woman", "giver": "man", "item": "money", "place": "street"},
            ["A woman begs a man.", "A woman begs for money."],
        ),
        (
            "begging",
            "the GIVER has been begged by the AGENT for ITEM",
            {"agent": "people", "giver": "man", "item": "money"},
            ["The people beg a man.", "The people beg for money."],
        ),
        (
            "dropping",
            "AGENT dropped ITEM",
            {"agent": "people", "item": "stairs"},
            ["The people drop the stairs."],
        ),
        (
            "begging",
            "the AGENT's slowly and carefully begging the GIVER",
            {"agent": "woman", "giver": "man"},
            ["A woman begs a man."],
        ),
        (
            "begging",
            "the AGENT’ll beg a GIVER",
            {"agent": "woman", "giver": "man"},
            ["A woman begs a man."],
        ),
        (
            "begging",
            "the GIVER is well and often begged by the AGENT",
            {"agent": "woman", "giver": "man"},
            ["A woman begs a man."],
        ),
    ],
)
def test_captions_of_a_frame(
    verb: str, abstract: str, glosses: dict[str, str], texts: list[str]
) -> None:
    outcomes = captions(verb, abstract, **glosses)
    assert [caption.text for caption in outcomes] == texts
    for caption in outcomes:
        assert slice_span(caption.text, caption.verb_span) == inflect_present(
            VERBS[verb].base, caption.agent.plural
        )


@pytest.mark.parametrize(
    ("verb", "abstract", "glosses", "reason"),
    [
        ("singing", "the AGENT sings at a PLACE", {"agent": "bird", "place": "tree"}, ALONE),
        ("catching", "an AGENT catches a CAUGHTITEM", {"agent": None, "caughtitem": "ball"}, NOBODY),
        ("fishing", "AGENT extracts fish from SOURCE", {"agent": "man", "source": "lake"}, OTHER_VERB),
        ("begging", "the GIVER is begged by the AGENT for ITEM", {"giver": "man", "item": "money"}, NO_AGENT),
        ("begging", "the AGENT and the GIVER are begging", {"agent": "man", "giver": "man"}, OTHER_VERB),
        ("begging", "the AGENT is not begging the GIVER", {"agent": "man", "giver": "man"}, OTHER_VERB),
        ("begging", "the AGENT isn't begging the GIVER", {"agent": "man", "giver": "man"}, OTHER_VERB),
        ("begging", "the AGENT can’t beg the GIVER", {"agent": "man", "giver": "man"}, OTHER_VERB),
        ("begging", "the AGENT has never begged the GIVER", {"agent": "man", "giver": "man"}, OTHER_VERB),
        ("snowing", "snows at PLACE", {"place": "field"}, OTHER_VERB),
        ("catching", None, {"agent": "man"}, OTHER_VERB),
        ("demolishing", "AGENT demolishes ITEM", {"agent": "man", "item": "wall"}, "its verb is none of SWiG's"),
    ],
)  # fmt: skip
def test_frames_that_give_no_caption(
    verb: str, abstract: str, glosses: dict[str, Any], reason: str
) -> None:
    assert list(build_action_captions(frame(verb, abstract, **glosses))) == [
        Refusal(reason)
    ]


def test_an_abstract_taken_apart() -> None:
    outcomes = parse_abstract(
        "an AGENT hoists an ITEM up from a SOURCE with their TOOL"
    )
    assert outcomes is not None
    assert (outcomes.subject, outcomes.verb) == ("agent", "hoists")
    assert outcomes.positions == (
        RolePosition("item", "", False),
        RolePosition("source", "up from", False),
        RolePosition("tool", "with", True),
    )


@pytest.mark.parametrize(
    ("noun", "subject", "definite", "place"),
    [
        ("man", "a man", "the man", "at a man"),
        ("hour", "an hour", "the hour", "at an hour"),
        ("people", "the people", "the people", "at the people"),
        ("stairs", "the stairs", "the stairs", "on the stairs"),
        ("school bus", "a school bus", "the school bus", "at a school bus"),
        ("glass", "a glass", "the glass", "at a glass"),
        ("body of water", "a body of water", "the body of water", "in a body of water"),
        ("orange juice", "orange juice", "the orange juice", "at the orange juice"),
        ("snow", "snow", "the snow", "in the snow"),
        ("Santa Claus", "Santa Claus", "Santa Claus", "at Santa Claus"),
        ("king of the sea", "the king of the sea", "the king of the sea", "at the king of the sea"),
        ("outdoors", "the outdoors", "the outdoors", "outdoors"),
    ],
)  # fmt: skip
def test_phrases_of_fillers(noun: str, subject: str, definite: str, place: str) -> None:
    outcomes = get_filler_noun(noun)
    assert (outcomes.subject, outcomes.definite, outcomes.adverbial) == (
        subject,
        definite,
        place,
    )


@pytest.mark.parametrize(
    ("text", "verb", "agent", "preposition", "other"),
    [
        ("A tennis player throws a ball.", "throwing", "tennis player", "", "ball"),
        ("The coach trains the team", "training", "coach", "", "team"),
        ("The people train in the gymnasium.", "training", "people", "in", "gymnasium"),
        ("A man spits out his drink.", "spitting", "man", "out", "drink"),
        (
            "A man hunts the king of the jungle.",
            "hunting",
            "man",
            "",
            "king of the jungle",
        ),
        ("Water floats on oil.", "floating", "water", "on", "oil"),
        ("Santa Claus rides a horse.", "riding", "Santa Claus", "", "horse"),
    ],
)
def test_captions_that_come_as_text(
    text: str, verb: str, agent: str, preposition: str, other: str
) -> None:
    outcomes = split_caption(
        text, inflect_present(VERBS[verb].base, agent == "people"), VERBS[verb]
    )
    assert isinstance(outcomes, ActionCaption)
    assert (
        outcomes.verb,
        outcomes.agent.noun,
        outcomes.preposition,
        outcomes.complement.noun,
    ) == (
        verb,
        agent,
        preposition,
        other,
    )
    assert outcomes.agent.plural == (agent == "people")


def test_replacement_by_what_a_model_proposes() -> None:
    caption = throwing()
    scores = {"throws": 9.0, " Kicks": 8.5, "hurls": 8.0, "the": 1.0, "kick": 0.5}
    proposals = [
        Proposal(phrase, (), score, rank)
        for rank, (phrase, score) in enumerate(scores.items())
    ]
    outcomes = list(build_replacements(caption, proposals, VERBS))
    assert [
        (
            candidate.foil,
            candidate.proposal_rank,
            candidate.proposal_score,
            candidate.rejected,
        )
        for candidate in outcomes
    ] == [
        ("A tennis player kicks a ball.", 1, 8.5, None),
        ("A tennis player hurls a ball.", 2, 8.0, "a synonym of the verb"),
        (
            "A tennis player the a ball.",
            3,
            1.0,
            "no form of another of SWiG's verbs that agrees with the subject",
        ),
        (
            "A tennis player kick a ball.",
            4,
            0.5,
            "no form of another of SWiG's verbs that agrees with the subject",
        ),
    ]
    assert (
        outcomes[0].caption_phrases,
        outcomes[0].foil_phrases,
        outcomes[0].direction,
    ) == (
        ("throw",),
        ("kick",),
        "unrelated",
    )


def test_an_antonym_is_named_as_such_and_allowed() -> None:
    caption = captions("pushing", "AGENT pushes ITEM", agent="people", item="car")[0]
    (outcomes,) = build_replacements(caption, [Proposal("pull", (), 1.0, 0)], VERBS)
    assert (outcomes.foil, outcomes.direction, outcomes.rejected) == (
        "The people pull a car.",
        "antonym",
        None,
    )


def test_the_allowed_verbs_agree_and_leave_out_what_wordnet_forbids() -> None:
    allowed = list_replacement_verbs(throwing(), VERBS)
    assert allowed["kicks"] == "kicking"
    assert not {
        "throwing",
        *VERBS["throwing"].related["synonym"],
        *VERBS["throwing"].related["hyponym"],
    } & set(allowed.values())
    assert len(allowed) == 503 - sum(
        VERBS["throwing"].find_relation(name) in ("synonym", "hypernym", "hyponym")
        for name in VERBS
    )


def test_swaps_are_worded_anew() -> None:
    foils = [outcomes.foil for outcomes in build_swaps(throwing(), ("like",))]
    assert foils == [
        "A ball throws a tennis player.",
        "A ball throws the tennis player.",
        "A ball throws like a tennis player.",
        "A ball throws like the tennis player.",
    ]


def test_a_swapped_plural_takes_the_verb_with_it() -> None:
    caption = captions(
        "rowing", "AGENT rows in VEHICLE", agent="people", vehicle="canoe"
    )[0]
    foils = [outcomes.foil for outcomes in build_swaps(caption, ())]
    assert foils == [
        f"A canoe rows {middle}people." for middle in ("the ", "", "in the ", "in ")
    ]
    back = captions("riding", "AGENT rides VEHICLE", agent="man", vehicle="people")[0]
    assert next(build_swaps(back, ())).foil == "The people ride a man."


def test_swaps_that_say_the_same_are_refused_by_reason() -> None:
    same = captions("scolding", "AGENT scolds VICTIM", agent="man", victim="man")[0]
    mutual = captions(
        "embracing", "AGENT embraces COAGENT", agent="man", coagent="woman"
    )[0]
    assert {outcomes.rejected for outcomes in build_swaps(same)} == {
        "both roles have the same filler"
    }
    kind = captions("scolding", "AGENT scolds VICTIM", agent="man", victim="person")[0]
    apart = captions("scolding", "AGENT scolds VICTIM", agent="man", victim="woman")[0]
    assert {outcomes.rejected for outcomes in build_swaps(mutual)} == {
        "the verb is true both ways"
    }
    assert {outcomes.rejected for outcomes in build_swaps(kind)} == {
        "one filler is a kind of the other"
    }
    assert {outcomes.rejected for outcomes in build_swaps(apart)} == {None}


NOUNS = st.sampled_from(
    [
        "man",
        "people",
        "water",
        "body of water",
        "male child",
        "Santa Claus",
        "stairs",
        "hour",
        "lens",
    ]
)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(VERBS)), NOUNS, NOUNS, st.sampled_from(["", "on", "up from"])
)
def test_spans_hold_the_verb_and_cover_what_differs(
    name: str, agent: str, other: str, words: str
) -> None:
    verb = VERBS[name]
    (caption,) = captions(
        name,
        f"an AGENT {inflect_present(verb.base, False)} {words} an ITEM",
        agent=agent,
        item=other,
    )
    span = caption.verb_span
    assert slice_span(caption.text, span) == inflect_present(
        verb.base, get_filler_noun(agent).plural
    )
    assert caption.text[0].isupper()
    assert "  " not in caption.text
    allowed = list_replacement_verbs(caption, VERBS)
    outcomes = list(
        build_replacements(
            caption, [Proposal(form, (), 0.0, 0) for form in islice(allowed, 40)], VERBS
        )
    )
    swaps = list(build_swaps(caption))
    assert len({swap.foil for swap in swaps}) == len(swaps)
    assert all(candidate.rejected is None for candidate in outcomes)
    for candidate in (*outcomes, *swaps):
        left, right = candidate.caption_span, candidate.foil_span
        assert (
            candidate.caption[: left["start"]].split()
            == candidate.foil[: right["start"]].split()
        )
        assert (
            candidate.caption[left["end"] :].split()
            == candidate.foil[right["end"] :].split()
        )
