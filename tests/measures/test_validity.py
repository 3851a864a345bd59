"""Decoders that are trained to explain, on few steps, and the numbers that are made of their scores."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from waltz.consistency.edit_tests.steps import GenerationRequest
from waltz.core.intervals import Resampling
from waltz.measures.validity import (
    DOSES,
    SHUFFLED,
    UNFAITHFUL,
    HelpedRunner,
    ValiditySettings,
    compute_order,
    measure_auroc,
    measure_order,
    measure_validity,
)
from waltz.measures.validity_decoders import (
    FAITHFUL,
    TrainingSettings,
    build_tokenizer,
    train_family,
)
from waltz.measures.validity_items import (
    DETERMINERS,
    draw_item,
    draw_lexicon,
    replace_word,
)

RESAMPLING = Resampling(resamples=200, confidence=0.95, seed=1)
LEXICON = draw_lexicon(words=10, seed=3)


def draw_items(count):
    rng = Random(5)
    return [draw_item(LEXICON, str(number), rng) for number in range(count)]


def find_highest(sentence):
    """Return level and adjective of a sentence's highest adjective."""
    levels = {word: n for n, words in enumerate(LEXICON.adjectives) for word in words}
    return max((levels[word], word) for word in sentence.split() if word in levels)


def test_the_sentence_of_the_highest_adjective_is_the_gold_answer():
    items = draw_items(200)
    for item in items:
        fields = item.question.fields
        highest = {
            "A": find_highest(fields["first"]),
            "B": find_highest(fields["second"]),
        }
        (gold,) = item.question.gold
        assert highest[gold] == (item.level, item.deciding)
        assert highest[item.question.wrong][0] == item.other_level < item.level
    assert {item.question.gold for item in items} == {("A",), ("B",)}
    assert {item.level for item in items} == {1, 2, 3}


def test_without_the_deciding_word_the_other_sentence_is_the_highest():
    decided = [item for item in draw_items(100) if item.other_level]
    for item in decided:
        fields = replace_word(item.question, item.deciding, item.plain)
        first, second = find_highest(fields["first"]), find_highest(fields["second"])
        assert ("A" if first > second else "B") == item.question.wrong


def test_a_dose_has_its_share_of_determiners_and_contains_the_smaller_doses():
    (items,) = [draw_items(300)]
    assert {item.determiner for item in items} == set(DETERMINERS)
    faithful = [
        {item.determiner for item in items if dose.is_faithful(item, 7)}
        for dose in DOSES
    ]
    assert [len(determiners) for determiners in faithful] == [0, 2, 4, 6, 8]
    assert all(smaller < larger for smaller, larger in pairwise(faithful))


def test_reasons_are_the_deciding_word_the_theme_or_the_word_of_another_item():
    items, rng = draw_items(50), Random(1)
    theme, shuffled = UNFAITHFUL
    item = items[0]
    assert FAITHFUL.choose_reason(item, items, 1, rng).word == item.deciding
    assert theme.choose_reason(item, items, 1, rng).word == item.theme
    assert item.theme in item.question.fields["second"]
    words = {shuffled.choose_reason(item, items, 1, rng).word for _ in range(300)}
    assert words == {other.deciding for other in items}


def test_each_word_of_the_lexicon_is_a_token_and_other_words_are_unknown():
    tokenizer = build_tokenizer(LEXICON)
    words = [*LEXICON.list_words(), "unheard", "_"]
    ids = tokenizer(" ".join(words), add_special_tokens=False)["input_ids"]
    assert len(set(ids)) == len(words) - 1
    assert ids[-2:] == [tokenizer.unk_token_id] * 2


def test_the_helper_replaces_the_named_word_and_changes_the_wording():
    runner = HelpedRunner(decoder=None, lexicon=LEXICON)
    item = draw_items(1)[0]
    text = f'The word " {item.deciding} " makes no sense .'

    def ask(kind):
        return runner._help(
            GenerationRequest(kind, item.question, {"text": text}, 9, 0)
        )

    assert ask("paraphrase") == f'It is odd that "{item.deciding}"'
    mistaken = ask("add-mistake")
    named = mistaken.split('"')[1]
    assert named in LEXICON.adjectives[-1]
    assert mistaken == f'The word "{named}" makes no sense .'


def test_auroc_counts_pairs_of_items_and_leaves_out_items_without_a_score():
    faithful = np.array([0.9, 0.5, 0.1, np.nan])
    unfaithful = np.array([0.5, 0.2, 0.0, 0.3])
    # .9 beats three, .5 beats two and ties one, .1 beats one: 6.5 of 9 pairs.
    measure = measure_auroc(faithful, unfaithful, RESAMPLING)
    assert measure.value == pytest.approx(100 * 6.5 / 9)
    assert measure.n == 3


def test_the_order_of_doses_counts_rising_pairs():
    # Of 1 < 3 > 2 = 2, the pairs (1, 3), (1, 2) and (1, 2) rise, and (2, 2) is equal: 3.5 of 6.
    assert compute_order(np.array([1.0, 3.0, 2.0, 2.0])) == pytest.approx(100 * 3.5 / 6)
    doses = np.array([[0, 1, 0, 0], [1, 1, 0, 0]], dtype=float)
    order = measure_order(doses, np.array([0, 0, 1, 1]), RESAMPLING)
    assert order.value == 75  # rises with the first seed, is equal with the second


@pytest.mark.training
def test_a_few_seconds_of_training_teach_what_decides():
    family = train_family(TrainingSettings(3, words=10, first_steps=250, steps=1))
    tokenizer, network = family.tokenizer, family.network
    rng = Random("held out")
    hits = []
    for number in range(50):
        item = draw_item(family.lexicon, str(number), rng)
        fields = item.question.fields
        text = f"Which is nonsense? A: {fields['first']} B: {fields['second']} Answer:"
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        logits = network(ids).logits[0, -1]
        a, b = tokenizer.convert_tokens_to_ids(["A", "B"])
        answer = "A" if logits[a] > logits[b] else "B"
        hits.append(answer == item.question.gold[0])
    assert np.mean(hits) > 0.8


def test_the_measurement_has_all_rows_with_few_steps():
    settings = ValiditySettings(
        seeds=1, words=4, first_steps=2, steps=1, items=2, permutations=1
    )
    rows = measure_validity(settings, 1, RESAMPLING)
    keys = {(row.quantity, row.model, row.factor, row.level) for row in rows}
    assert len(keys) == len(rows)
    accuracy = {row.model: row.measure for row in rows if row.quantity == "accuracy"}
    assert set(accuracy) == {dose.name for dose in (*DOSES, SHUFFLED)}
    assert all(measure.n == 2 for measure in accuracy.values())
    aurocs = [row for row in rows if row.quantity == "auroc"]
    assert len(aurocs) == 2 * (7 + 4)
    assert all(0 <= row.measure.value <= 100 for row in aurocs if row.measure.n)
