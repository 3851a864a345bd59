"""Captions as ALBEF reads them, against the examples of its description."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stand_ins.tiny_encoders import bert_tokenizer
from waltz.core.errors import UserError
from waltz.core.text_diff import slice_span
from waltz.model_registry import ModelSpec
from waltz.models.encoders.kinds import albef

TOKENIZER = albef.remove_end_token(bert_tokenizer())
ENCODER = albef.Albef(ModelSpec("albef"), "cpu", None, TOKENIZER, 14)


def said(text):
    return albef.clean_text(text)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A man's dog.", "a mans dog"),
        ("at 5:30", "at 530"),
        ("black-and-white, and/or grey!", "black and white and or grey"),
        ('"(One) two?" #3 *4; ~5', "one two 3 4 5"),
        ("salt & pepper < 5% [sic]", "salt & pepper < 5% [sic]"),
        ("a <person> runs", "a <person> runs"),
        ("two  blanks \t\n and - a dash", "two blanks and a dash"),
        ("a\ttab\u00a0stays", "a\ttab\u00a0stays"),
        ("  ends \n", "ends"),
        ("a feed\n", "a feed"),
        (".", ""),
        ("", ""),
        ("\u0130stanbul", "i\u0307stanbul"),
        ("\u039f\u0394\u039f\u03a3", "\u03bf\u03b4\u03bf\u03c2"),
    ],
)
def test_cleaning(text, expected):
    assert said(text) == expected


def test_thirty_words_are_read_and_a_tab_divides_none():
    words = [f"w{number}" for number in range(40)]
    assert said(" ".join(words)) == " ".join(words[:30])
    assert said(" ".join(words[:30])) == " ".join(words[:30])
    assert said("a\tb " + " ".join(words)) == "a\tb " + " ".join(words[:29])


@given(st.text(st.sampled_from("aB.'-/ \t\n\u00a0\u0130\u03a3(")))
def test_each_character_is_one_of_the_given_text(text):
    clean, places = albef.clean_text(text)
    assert len(clean) == len(places)
    assert list(places) == sorted(places)
    assert not set(clean) & (albef.DELETED_CHARACTERS | albef.SEPARATORS)
    assert clean == clean.strip(" ")
    for letter, place in zip(clean, places, strict=True):
        assert letter in (*text[place].lower(), " ", "\u03c2")
        assert letter != " " or text[place].isspace() or text[place] in "-/"


def test_a_text_begins_with_cls_and_does_not_end_with_sep():
    text = ENCODER.tokenize("The dog's on-the (red) horse.")
    assert text.tokens == ("[CLS]", "the", "[UNK]", "on", "the", "red", "horse")
    assert text.special == (True, *[False] * 6)
    assert [slice_span("The dog's on-the (red) horse.", span) for span in text.spans] == [
        "",
        "The",
        "dog's",
        "on",
        "the",
        "red",
        "horse",
    ]


def test_an_empty_text_is_cls_alone():
    text = ENCODER.tokenize("?!")
    assert (text.ids, text.tokens, text.special) == ((TOKENIZER.cls_token_id,), ("[CLS]",), (True,))


def test_more_tokens_than_positions_are_refused():
    assert len(ENCODER.tokenize("dog " * 13).ids) == 14
    with pytest.raises(UserError, match=r"models\.albef: 15 tokens, at most 14 are read"):
        ENCODER.tokenize("dog " * 14)
