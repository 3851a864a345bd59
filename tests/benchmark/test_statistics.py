"""Validation statistics."""

import csv
import json
import math
from dataclasses import replace

import pytest

from stand_ins.records import build_items
from waltz.benchmark.statistics import (
    compute_jensen_shannon,
    compute_validation_statistics,
    count_frequencies,
    measure_telling_words,
)
from waltz.core.files.resources import RESOURCES
from waltz.core.intervals import Resampling
from waltz.core.schema import PairRecord
from waltz.foils.coreference import PRONOUN, find_question
from waltz.sources.formats.pairs import read_release

BOOTSTRAP = Resampling(resamples=200, confidence=0.95, seed=1)
PAPER_VALUES = RESOURCES / "published" / "thesis-A.2.csv"
CUT = ("instances", "valid", "unanimous", "lexical_items", "js", "js_valid")


def item(item_id, caption, foil, votes=(3, 0, 0)):
    columns = {
        "item_id": item_id,
        "image": f"{item_id}.png",
        "caption": f"it is {caption}",
        "foil": f"she is {foil}",
        "caption_phrases": [caption],
        "foil_phrases": [foil],
        "votes_caption": votes[0],
        "votes_foil": votes[1],
        "votes_other": votes[2],
        "valid": votes[0] >= 2,
    }
    (record,) = build_items([columns])
    return record


ITEMS = [
    item("a", "on", "off"),
    item("b", "off", "on", (2, 1, 0)),
    item("c", "on", "in", (1, 0, 2)),
]


def test_counts_and_shares_worked_by_hand():
    measures = compute_validation_statistics("d", ITEMS, [], BOOTSTRAP)
    values = {metric: measure.value for metric, measure in measures.items()}
    assert (
        values["instances"],
        values["valid"],
        values["unanimous"],
        values["lexical_items"],
    ) == (3, 2, 1, 3)
    assert values["valid_percent"] == pytest.approx(200 / 3)
    assert values["unanimous_percent"] == pytest.approx(100 / 3)
    assert values["js_valid"] == 0
    assert (
        measures["valid_percent"].ci_low <= 200 / 3 <= measures["valid_percent"].ci_high
    )
    assert values["alpha"] is None
    assert "no single annotations" in measures["alpha"].reason


def test_divergence_of_distributions_worked_by_hand():
    # captions: on 2/3, off 1/3; foils: on, off, in 1/3 each
    p, q = [2 / 3, 1 / 3, 0], [1 / 3, 1 / 3, 1 / 3]
    m = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    divergence = sum(
        0.5 * a * math.log2(a / c)
        for side in (p, q)
        for a, c in zip(side, m, strict=True)
        if a > 0
    )
    assert compute_jensen_shannon(ITEMS) == pytest.approx(math.sqrt(divergence))


def test_disjoint_words_have_distance_1_and_equal_words_distance_0():
    assert compute_jensen_shannon([item("a", "x", "y")]) == pytest.approx(1)
    assert compute_jensen_shannon([item("a", "x", "y"), item("b", "y", "x")]) == 0


def test_a_data_set_without_votes_has_a_reason():
    unvoted = [replace(item("a", "x", "y"), valid=None, votes_caption=None)]
    measures = compute_validation_statistics("d", unvoted, [], BOOTSTRAP)
    assert measures["valid"].value is None
    assert measures["valid_percent"].reason == "the data set holds no votes"
    assert measures["instances"].value == 1


def test_frequencies_count_lexical_items_and_pronouns_before_and_after_validation():
    rows = count_frequencies("d", ITEMS)
    counted = {(row.kind, row.items, row.side, row.word): row.count for row in rows}
    assert counted["lexical", "all", "caption", "on"] == 2
    assert counted["lexical", "valid", "caption", "on"] == 1
    assert counted["pronoun", "all", "caption", "it"] == 3
    assert counted["pronoun", "valid", "foil", "she"] == 2


def test_pronouns_of_coreference_are_those_of_the_question():
    text = "his 3.5 m board. a boy leans on that. are both of them in the u.k.?"
    dialogue = replace(
        item("a", "yes", "no"),
        piece="coreference",
        caption=f"{text} yes.",
        foil=f"{text} no.",
    )
    rows = [
        row
        for row in count_frequencies("d", [dialogue])
        if row.kind == "pronoun" and row.items == "all"
    ]
    assert {(row.side, row.word, row.count) for row in rows} == {
        (side, word, 1) for side in ("caption", "foil") for word in ("both", "them")
    }
    other = replace(dialogue, piece="existence")
    counted = {
        row.word for row in count_frequencies("d", [other]) if row.kind == "pronoun"
    }
    assert counted == {"both", "them", "his", "that"}


@pytest.mark.parametrize("name", ["coreference-standard", "coreference-hard"])
def test_each_released_question_has_a_pronoun_of_the_figure(name, shared_data):
    items = json.loads((shared_data / "valse" / f"{name}.json").read_text()).values()
    for released in items:
        question = find_question(released["caption"])
        assert f"{released['only_caption']}. {question}? " in released["caption"]
        assert PRONOUN.search(question)


def _read_paper_values():
    with PAPER_VALUES.open(encoding="utf-8") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["dataset"] != "overall" and row["metric"] in CUT
        ]
    return {(row["dataset"], row["metric"]): row["value"] for row in rows}


@pytest.mark.parametrize(
    ("instrument", "name"),
    [
        ("existence", "existence"),
        ("plurality", "plurals"),
        ("counting-balanced", "counting-hard"),
        ("counting-small", "counting-small-quant"),
        ("counting-adversarial", "counting-adversarial"),
        ("relations", "relations"),
        ("action-replacement", "action-replacement"),
        ("actant-swap", "actant-swap"),
        ("coreference-standard", "coreference-standard"),
        ("coreference-clean", "coreference-hard"),
        ("foil-it", "foil-it"),
    ],
)
def test_the_release_gives_table_a2(shared_data, instrument, name):
    rows = read_release(shared_data / "valse" / f"{name}.json", instrument, 2)
    measures = compute_validation_statistics(instrument, rows, [], BOOTSTRAP)
    for metric in CUT:
        paper_value = _read_paper_values()[instrument, metric]
        tolerance = 0.001 if metric.startswith("js") else 0
        assert abs(measures[metric].value - float(paper_value)) <= tolerance, metric


def test_exchanged_words_tell_captions_where_one_side_has_them_more_often():
    def pair(caption, foil):
        return PairRecord(
            item_id=caption + foil,
            instrument="foil-it",
            piece="nouns",
            source="captions",
            image="0.png",
            caption=caption,
            foil=foil,
            caption_phrases=[],
            foil_phrases=[],
        )

    one_way = [pair("A cat.", "A dog."), pair("A cat sits.", "A dog sits.")]
    other_way = [pair("A dog runs.", "A cat runs.")]
    # Two pairs of three take the cat for the caption's; as often both ways, it is a tie.
    assert measure_telling_words(one_way + other_way).value == pytest.approx(200 / 3)
    balanced = one_way[:1] + other_way
    assert measure_telling_words(balanced).value == 50
    assert measure_telling_words([]).value is None
