"""Patterns of tokens."""

from waltz.foils.english.parsing import parse
from waltz.foils.english.patterns import TokenPattern, matches_one_of


def test_a_token_must_meet_every_condition_that_is_set():
    (doc,) = parse(["Two dogs chase a cat."])
    dogs = doc[1]
    assert TokenPattern().matches(dogs)
    assert TokenPattern(tags={"NNS"}, relations={"nsubj"}).matches(dogs)
    assert not TokenPattern(tags={"NNS"}, relations={"dobj"}).matches(dogs)
    assert TokenPattern(words={"two"}).matches(doc[0])  # words are in lower case
    assert matches_one_of(dogs, (TokenPattern(tags={"NN"}), TokenPattern(tags={"NNS"})))


def test_the_tokens_that_match_keep_their_order():
    (doc,) = parse(["Two dogs chase a cat."])
    noun = TokenPattern(parts_of_speech={"NOUN"})
    assert [token.text for token in noun.select(doc)] == ["dogs", "cat"]
    assert noun.matches_any(doc)
    assert not noun.matches_any(doc[2:4])
