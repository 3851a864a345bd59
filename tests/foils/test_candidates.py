"""What the makers of instruments yield for rows of their sources, with hand-made models."""

import subprocess
import sys
from functools import partial
from importlib import import_module

import pyarrow.parquet as pq
import pytest

from conftest import ROOT
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.records import write_records
from waltz.foils.candidates import (
    TOO_LONG,
    Candidate,
    MakerOptions,
    Proposal,
    Refusal,
    build_candidate,
    build_candidate_record,
    build_candidates,
    drop_duplicates,
    read_source_rows,
    select_splits,
)
from waltz.foils.english.statements import NOT_COUNTING
from waltz.foils.invariants import OTHER_CAPTION, TRUE_FOIL
from waltz.foils.relations import NO_PREPOSITION
from waltz.instruments import INSTRUMENTS
from waltz.sources.records import (
    CaptionRecord,
    FoilPairRecord,
    FrameRecord,
    QuestionRecord,
    RoleFiller,
    TextRecord,
    TurnRecord,
)


def row(number, record_type=CaptionRecord, **payload):
    first = {
        "source": "toy",
        "source_id": str(number),
        "split": "test",
        "image": f"{number}.png",
    }
    return record_type(**first | payload)


question = partial(row, record_type=QuestionRecord)
turn = partial(row, record_type=TurnRecord, history=[])
foil_pair = partial(row, record_type=FoilPairRecord, caption_id="1")


def build_outcomes(instrument, rows, needs=None):
    """Source ids, each with the foil or the reason, in the order of the maker."""
    outcomes = build_candidates(instrument, rows, needs or MakerOptions())
    return [
        (given.source_id, case.reason if isinstance(case, Refusal) else case.foil)
        for given, case in outcomes
    ]


def of(instrument, rows, needs=None):
    return [
        (given.source_id, case)
        for given, case in build_candidates(instrument, rows, needs or MakerOptions())
    ]


QUESTIONS = [
    question(1, question="How many dogs are there?", answer="2."),
    question(2, question="Who sits here?", answer="A man."),
    question(3, question="How many cats are there?", answer=None),
    question(4, question="How many birds are there?", answer="0."),
    question(5, question="How many cars are there?", answer="Five."),
]


def test_a_foil_that_is_true_never_leaves_a_maker(monkeypatch):
    pairs = [
        ("A dog.", "a dog"),
        ("A dog.", "A\u00a0dog."),
        ("Exactly one dog.", "A dog"),
        ("A dog.", "A cat."),
    ]

    class Maker:
        @staticmethod
        def build_candidates(rows, *_):
            for given in rows:
                yield from (
                    (given, build_candidate(*pair, "dog", "cat", "noun"))
                    for pair in pairs
                )

    monkeypatch.setattr("waltz.foils.candidates.import_module", lambda _: Maker)
    for instrument in INSTRUMENTS:
        assert build_outcomes(instrument, [row(1, caption="A dog.")]) == [
            *[("1", TRUE_FOIL)] * 3,
            ("1", "A cat."),
        ]


def test_a_foil_that_is_another_caption_of_the_image_is_refused(monkeypatch):
    class Maker:
        @staticmethod
        def build_candidates(rows, *_):
            for given in rows:
                yield given, build_candidate(given.caption, "A cat.", "dog", "cat", "")

    monkeypatch.setattr("waltz.foils.candidates.import_module", lambda _: Maker)
    rows = [
        row(1, caption="A dog.", image="a.png"),
        row(2, caption="A dog.", image="b.png"),
        row(3, caption="a  cat", image="a.png", rejected="twice"),
    ]
    outcomes = build_outcomes("plurality", rows)
    assert outcomes[1:] == [("1", OTHER_CAPTION), ("2", "A cat.")]


def test_every_instrument_has_a_maker():
    for instrument in INSTRUMENTS.values():
        assert callable(import_module(instrument.maker).build_candidates)


def test_existence():
    assert build_outcomes("existence", QUESTIONS) == [
        ("1", "There are no dogs."),
        ("2", NOT_COUNTING),
        ("3", "the answer is no numeral"),
        ("4", "There are birds."),
        ("5", "There are no cars."),
    ]


def test_foils_of_counts_show_the_numbers_of_the_source():
    assert build_outcomes("counting-balanced", QUESTIONS) == [
        ("1", "There are exactly 0 dogs."),
        ("1", "There are exactly 5 dogs."),
        ("2", NOT_COUNTING),
        ("3", "the answer is no numeral"),
        ("4", "There are exactly 2 birds."),
        ("4", "There are exactly 5 birds."),
        ("5", "There are exactly 0 cars."),
        ("5", "There are exactly 2 cars."),
    ]
    outside = "its number is not among those of the captions"
    assert [
        entry
        for entry in build_outcomes("counting-small", QUESTIONS)
        if entry[0] in "145"
    ] == [
        ("1", "There are exactly 0 dogs."),
        ("4", "There are exactly 2 birds."),
        ("5", outside),
    ]
    assert [
        entry
        for entry in build_outcomes("counting-adversarial", QUESTIONS)
        if entry[0] in "145"
    ] == [
        ("1", outside),
        ("4", outside),
        ("5", "There are exactly 0 cars."),
        ("5", "There are exactly 2 cars."),
    ]


CAPTIONS = [
    row(1, caption="A dog sits on the table."),
    row(2, caption="", rejected="the caption is empty"),
    row(3, caption="A dog in the red and white house under a big tree sits."),
    row(4, caption="Two cats sleep."),
]


def test_plurality_leaves_out_captions_with_too_many_tokens():
    needs = MakerOptions(count_tokens=lambda text: len(text.split()), most_tokens=10)
    outcomes = build_outcomes("plurality", CAPTIONS, needs)
    assert outcomes[:2] == [
        ("2", "the source's row: the caption is empty"),
        ("3", TOO_LONG),
    ]
    assert ("1", "Some dogs sit on the table.") in outcomes
    assert ("4", "Exactly one cat sleeps.") in outcomes
    assert [number for number, _ in outcomes[2:]] == sorted(
        number for number, _ in outcomes[2:]
    )
    exactly = MakerOptions(count_tokens=lambda text: len(text.split()), most_tokens=13)
    assert {
        number
        for number, reason in build_outcomes("plurality", CAPTIONS, exactly)
        if reason != TOO_LONG
    } == {*"1234"}
    assert build_outcomes(
        "plurality", CAPTIONS, MakerOptions(most_tokens=1)
    ) == build_outcomes("plurality", CAPTIONS)


def test_relations_take_what_is_proposed_for_each_slot_and_attested_in_the_rows():
    requests = []

    def propose(slots):
        requests.append(list(slots))
        phrases = ("in", "on", "beyond")
        return {
            slot: [
                Proposal(phrase, (phrase,), -float(rank), rank)
                for rank, phrase in enumerate(phrases)
            ]
            for slot in slots
        }

    rows = [*CAPTIONS, row(5, caption="A dog sits on the table.")]
    outcomes = of("relations", rows, MakerOptions(propose_spans=propose))
    assert [
        (number, case.reason) for number, case in outcomes if isinstance(case, Refusal)
    ] == [
        ("2", "the source's row: the caption is empty"),
        ("4", NO_PREPOSITION),
    ]
    (slots,) = requests
    assert slots == sorted(set(slots))
    assert [slot.text[slot.start : slot.end] for slot in slots] == ["in", "under", "on"]
    first = [
        (case.foil, case.proposal_rank, case.proposal_score, case.rejected)
        for number, case in outcomes
        if number == "1"
    ]
    assert first == [
        ("A dog sits in the table.", 0, 0.0, None),
        ("A dog sits on the table.", 1, -1.0, "the same words"),
        ("A dog sits beyond the table.", 2, -2.0, "not attested in the captions"),
    ]
    assert [case.foil for number, case in outcomes if number == "5"] == [
        foil for foil, *_ in first
    ]


def frame(number, verb, agent, role, noun, abstract):
    roles = [
        RoleFiller(place, filler[0], filler[1], None)
        for place, filler in (("agent", agent), (role, noun))
    ]
    return row(
        number,
        FrameRecord,
        verb=verb,
        annotator=0,
        abstract=abstract,
        roles=roles,
        width=None,
        height=None,
    )


MAN, DOG, BALL = ("n10287213", "man"), ("n02084071", "dog"), ("n02778669", "ball")
FRAMES = [
    frame(1, "kicking", MAN, "item", BALL, "an AGENT kicks an ITEM"),
    frame(2, "chasing", DOG, "chasee", MAN, "an AGENT chases a CHASEE"),
    frame(3, "catching", DOG, "item", (None, None), "an AGENT catches an ITEM"),
]


def test_action_replacement_asks_for_the_sources_own_verbs_and_takes_the_best():
    requests = {}

    def fit(forms):
        requests.update({slot.text: words for slot, words in forms.items()})
        return {
            slot: [
                Proposal(word, (word,), -float(rank), rank)
                for rank, word in enumerate(sorted(words))
            ]
            for slot, words in forms.items()
        }

    outcomes = of(
        "action-replacement", FRAMES, MakerOptions(rank_words=fit, most_verbs=1)
    )
    assert set(requests) == {"A man kicks a ball.", "A dog chases a man."}
    assert sorted(requests["A man kicks a ball."]) == ["catches", "chases"]
    assert [(number, getattr(case, "foil", None)) for number, case in outcomes] == [
        ("1", "A man catches a ball."),
        ("2", "A dog catches a man."),
        ("3", None),
    ]
    both = of(
        "action-replacement", FRAMES[:2], MakerOptions(rank_words=fit, most_verbs=2)
    )
    assert [(number, case.foil) for number, case in both] == [
        ("1", "A man chases a ball."),
        ("2", "A dog kicks a man."),
    ]


def test_actant_swap():
    outcomes = build_outcomes("actant-swap", FRAMES)
    assert ("1", "A ball kicks a man.") in outcomes
    assert ("2", "A man chases a dog.") in outcomes
    assert [number for number, _ in outcomes] == sorted(
        number for number, _ in outcomes
    )


@pytest.mark.parametrize("instrument", ["coreference-standard", "coreference-clean"])
def test_coreference(instrument):
    rows = [
        turn(
            1,
            caption="a dog on a bed",
            question="is it asleep?",
            answer="yes it is",
            round=1,
        ),
        turn(
            2,
            caption="a dog on a bed",
            question="is the sun out?",
            answer="no",
            round=1,
        ),
        turn(
            3, caption="a dog on a bed", question="is it black?", answer="no", round=2
        ),
    ]
    assert build_outcomes(instrument, rows) == [
        ("1", "a dog on a bed. is it asleep? no."),
        ("2", "the question has no pronoun"),
        ("3", "a later round"),
    ]


def test_foil_it():
    rows = [
        foil_pair(
            1,
            caption="A dog sits.",
            foil="A cat sits.",
            target_word="dog",
            foil_word="cat",
        ),
        foil_pair(
            2,
            caption=None,
            foil="A cat.",
            target_word="ORIG",
            foil_word="ORIG",
            rejected="a correct caption, no foil",
        ),
        foil_pair(
            3,
            caption="A dog sits.",
            foil="A dog sits.",
            target_word="dog",
            foil_word="cat",
        ),
    ]
    assert build_outcomes("foil-it", rows) == [
        ("2", "the source's row: a correct caption, no foil"),
        ("1", "a cat sits."),
        ("3", "caption and foil are alike"),
    ]


@pytest.mark.parametrize("rows", [QUESTIONS, CAPTIONS, FRAMES])
def test_the_columns_of_a_source_tell_the_class_of_its_rows(tmp_path, rows):
    write_records(tmp_path / "rows.parquet", rows, type(rows[0]))
    (first, *_) = read_source_rows(tmp_path / "rows.parquet")
    assert type(first) is type(rows[0])
    assert first.source_id == rows[0].source_id


def test_columns_in_the_order_of_earlier_versions_are_read(tmp_path):
    path = tmp_path / "rows.parquet"
    write_records(path, CAPTIONS, type(CAPTIONS[0]))
    table = parquet.read_table(path)
    names = [name for name in table.schema.names if name != "rejected"]
    pq.write_table(table.select([*names, "rejected"]), path)
    assert read_source_rows(path) == list(CAPTIONS)


def test_rows_of_which_no_instrument_is_built_are_refused(tmp_path):
    text = TextRecord(source="x", source_id="1", task="comve", choices=[], gold=0)
    write_records(tmp_path / "rows.parquet", [text], TextRecord)
    with pytest.raises(UserError, match=r"rows\.parquet: no instrument can be built"):
        read_source_rows(tmp_path / "rows.parquet")


def test_splits_are_chosen_or_refused():
    rows = [row(1, caption=""), row(2, caption="", split="train"), row(3, caption="")]
    assert [case.source_id for case in select_splits(rows, ["test"], "x")] == [
        "1",
        "3",
    ]
    with pytest.raises(
        UserError,
        match=r"instruments\.x\.splits: the source has no split 'val'; it has test, train",
    ):
        select_splits(rows, ["test", "val"], "x")


def test_repeated_candidates_of_a_row_are_dropped_and_ids_are_distinct():
    candidate = Candidate(
        "A dog.",
        "A cat.",
        {"start": 2, "end": 5},
        {"start": 2, "end": 5},
        ("dog",),
        ("cat",),
        "x",
    )
    other = Candidate(
        "A dog.",
        "A cow.",
        {"start": 2, "end": 5},
        {"start": 2, "end": 5},
        ("dog",),
        ("cow",),
        "x",
    )
    outcomes = [
        (row(1, caption=""), candidate),
        (row(1, caption=""), other),
        (row(1, caption=""), candidate),
        (row(2, caption=""), candidate),
        (row(1, caption=""), Refusal("why")),
    ]
    remaining = [
        (given.source_id, case) for given, case in drop_duplicates(iter(outcomes))
    ]
    assert remaining == [
        ("1", candidate),
        ("1", other),
        ("2", candidate),
        ("1", Refusal("why")),
    ]
    written = build_candidate_record(other, row(1, caption=""), 1, "foil-it")
    assert written.item_id == "foil-it:toy:1:1"
    assert written.caption_phrases == ("dog",)


def test_naming_the_instruments_loads_no_model_code():
    """The Snakefile reads the names at every start."""
    code = "import sys, waltz.foils.candidates; sys.exit(bool({'torch', 'spacy', 'transformers'} & set(sys.modules)))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT / "workflow", check=False
        ).returncode
        == 0
    )
