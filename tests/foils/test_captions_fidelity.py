"""Released items of plurality and relations among the candidates of the captions that they were made from."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from waltz.foils.captions import parsed, readable
from waltz.foils.fidelity.captions import cause_plurality, cause_relations, reproduce_plurality, reproduce_relations
from waltz.foils.relations import attested, slots


def same(text: str) -> str:
    return "".join(text.lower().split()).rstrip(".")


def found(item: dict[str, Any], candidates: list[Any]) -> bool:
    pair = (same(item["caption"]), same(item["foil"]))
    return any((same(candidate.caption), same(candidate.foil)) == pair for candidate in candidates)


@pytest.fixture(scope="module")
def captions(shared_data: Path) -> dict[int, str]:
    read = json.loads((shared_data / "coco_captions/captions_val2017.json").read_text(encoding="utf-8"))
    return {row["id"]: row["caption"] for row in read["annotations"]}


def test_plurality_reaches_its_share(shared_data: Path, captions: dict[int, str]):
    items = list(json.loads((shared_data / "valse/plurals.json").read_text(encoding="utf-8")).values())
    causes: Counter[str] = Counter()
    sample = items[::2]
    for item in sample:
        candidates = reproduce_plurality(item, captions[item["dataset_idx"]])
        causes["reproduced" if found(item, candidates) else cause_plurality(item, candidates)] += 1
    assert causes["reproduced"] >= 0.93 * len(sample), causes
    assert len(causes) > 3


def test_relations_reach_their_share(shared_data: Path, captions: dict[int, str]):
    items = list(json.loads((shared_data / "valse/relations.json").read_text(encoding="utf-8")).values())
    tenth = list(captions.values())[::10]  # what a tenth of the captions attests, all of them attest
    sequences = attested(slot for doc in parsed(tenth) for slot in slots(doc))
    reproduced = 0
    sample = items[::2]
    for item in sample:
        candidates = reproduce_relations(item, captions[item["dataset_idx"]], sequences)
        reproduced += found(item, candidates)
    assert reproduced >= 0.96 * len(sample)


STREET = {"classes": "street", "classes_foil": "streets", "orig_caption": "A bus on the street."}


@pytest.mark.parametrize(
    ("caption", "foil", "cause"),
    [
        ("A bus on exactly one lane.", "A bus on some lanes.", "our parse has no such noun phrase"),
        ("A bus on exactly one street.", "A bus is on some streets.", "other verbs change with the noun"),
        ("A bus on exactly one street.", "A bus on some street.", "another form of the noun"),
        ("A bus on exactly one street.", "A bus on their streets.", "other pronouns change with the noun"),
        ("A bus on exactly one top of it.", "A bus on some tops of it.", "the noun is part of a preposition"),
    ],
)
def test_causes_of_plurality(caption: str, foil: str, cause: str):
    candidates = reproduce_plurality({}, "A bus on the street.")
    assert cause_plurality({**STREET, "caption": caption, "foil": foil}, candidates) == cause


def test_causes_of_relations():
    item = {
        "caption": "A bus on the street.",
        "foil": "A bus amid the street.",
        "classes": "on",
        "classes_foil": "amid",
    }
    candidates = reproduce_relations(item, item["caption"], {"on", "in"})
    assert cause_relations(item, candidates) == "not attested in the captions"
    assert cause_relations({**item, "classes": "bus"}, candidates) == "our parse has no such prepositions"
    other = {**item, "caption": "A bus on a street."}
    assert cause_relations(other, candidates) == "the released caption is no longer the COCO caption"


def test_a_caption_in_capitals_is_read_as_a_sentence():
    assert readable(" tHERE ARE  MANY DONUTS ") == "There are many donuts"
    assert readable("a TV in Paris\n") == "A TV in Paris"
    assert readable("") == ""
