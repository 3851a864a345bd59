"""Edits: which words, where, and what is left of the text."""

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from waltz.consistency.edit_tests.edits import draw_edits, insert_word
from waltz.consistency.edit_tests.modifiers import list_modifiers

BLANK = spacy.blank("en")
TEXT = "Birds sang loudly, and a red fish ate."


@pytest.mark.parametrize(
    ("text", "place", "published", "equations"),
    [
        ("Dogs bark.", 0, "wet Dogs bark .", "Wet dogs bark."),
        ("Dogs bark.", 1, "Dogs wet bark .", "Dogs wet bark."),
        ("dogs  (bark)", 2, "dogs   wet ( bark )", "dogs  wet (bark)"),
        ("Dogs", 0, "Wet dogs", "Wet dogs"),
        ("DNA lives", 0, "wet DNA lives", "wet DNA lives"),
    ],
)
def test_a_word_is_put_before_a_token(text: str, place: int, published: str, equations: str):
    doc = BLANK(text)
    assert insert_word(doc, place, "wet", "published").text == published
    assert insert_word(doc, place, "wet", "equations").text == equations


@given(st.text(alphabet="aB .,'\n", min_size=1), st.data())
def test_without_the_word_the_text_is_what_it_was(text: str, data: st.DataObject):
    doc = BLANK(text)
    place = data.draw(st.integers(0, len(doc) - 1))
    word = data.draw(st.sampled_from(["wet", "A.D.", "far_off"]))
    edit = insert_word(doc, place, word, "equations")
    left = doc.text[: doc[place].idx]
    assert edit.text.lower() == f"{left}{word} {doc.text[len(left) :]}".lower()
    assert edit.text.count(edit.word) > doc.text.count(edit.word)
    tokens = insert_word(doc, place, word, "published").text
    assert tokens.lower() == " ".join([*(t.text for t in doc[:place]), word, *(t.text for t in doc[place:])]).lower()


@pytest.mark.parametrize("profile", ["published", "equations"])
def test_adjectives_stand_before_nouns_and_adverbs_before_verbs(profile):
    found = draw_edits(TEXT, 8, 8, seed=3, profile=profile)
    assert [len(place) for place in found] == [8, 8, 8, 8]
    tokens = ["Birds", "sang", "loudly", ",", "and", "a", "red", "fish", "ate", "."]
    assert {tokens[place[0].before] for place in found} == {"Birds", "sang", "fish", "ate"}
    for place in found:
        assert len({edit.before for edit in place}) == 1
        kind = "adjectives" if tokens[place[0].before] in ("Birds", "fish") else "adverbs"
        words = list_modifiers(kind, profile)
        assert all(edit.word in words or edit.word.lower() in words for edit in place)


def test_the_draw_is_bounded_repeats_by_its_seed_and_differs_by_it():
    assert [len(place) for place in draw_edits(TEXT, 2, 3, seed=1, profile="published")] == [3, 3]
    assert draw_edits(TEXT, 2, 3, seed=1, profile="published") == draw_edits(TEXT, 2, 3, seed=1, profile="published")
    assert draw_edits(TEXT, 2, 3, seed=1, profile="published") != draw_edits(TEXT, 2, 3, seed=2, profile="published")
    assert draw_edits("Not of it.", 8, 8, seed=1, profile="published") == []
