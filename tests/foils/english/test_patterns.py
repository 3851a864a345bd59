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


def test_a_pattern_can_set_conditions_on_head_and_word_before():
    (doc,) = parse(["Two dogs chase a cat."])
    verb = TokenPattern(parts_of_speech={"VERB"})
    assert TokenPattern(head=verb).select(doc)[:1] == [doc[1]]
    assert TokenPattern(before=verb).select(doc) == [doc[3]]
    assert not TokenPattern(before=TokenPattern()).matches(doc[0])
    noun = TokenPattern(parts_of_speech={"NOUN"}, excluded_words={"dogs"})
    assert noun.find(doc) == doc[4]
    assert noun.find(doc[:4]) is None
    assert noun.matches_all([doc[4]])
    assert not noun.matches_all(doc)
