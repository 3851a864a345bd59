"""Why released items of plurality and relations are not among the candidates of their captions."""

import pytest

from waltz.foils.english.parsing import normalise_caption
from waltz.foils.release.captions import explain_plurality, explain_relations, reproduce_plurality, reproduce_relations

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
    assert explain_plurality({**STREET, "caption": caption, "foil": foil}, candidates) == cause


def test_causes_of_relations():
    item = {
        "caption": "A bus on the street.",
        "foil": "A bus amid the street.",
        "classes": "on",
        "classes_foil": "amid",
    }
    candidates = reproduce_relations(item, item["caption"], {"on", "in"})
    assert explain_relations(item, candidates) == "not attested in the captions"
    assert explain_relations({**item, "classes": "bus"}, candidates) == "our parse has no such prepositions"
    other = {**item, "caption": "A bus on a street."}
    assert explain_relations(other, candidates) == "the released caption is no longer the COCO caption"


def test_a_caption_in_capitals_is_read_as_a_sentence():
    assert normalise_caption(" tHERE ARE  MANY DONUTS ") == "There are many donuts"
    assert normalise_caption("a TV in Paris\n") == "A TV in Paris"
    assert normalise_caption("") == ""
