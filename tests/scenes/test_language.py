"""Captions, questions, dialogues and training examples."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.train_scene_models.examples import draw_instructions
from waltz.scenes.graph import (
    Action,
    Graph,
    Object,
    SpriteCell,
    compute_bucket,
    describe_content,
)
from waltz.scenes.language.acceptability import corrupt_text
from waltz.scenes.language.captions import (
    draw_captions,
    draw_contextual_descriptions,
    draw_plain_descriptions,
)
from waltz.scenes.language.entailment import (
    build_worlds,
    compute_label,
    draw_nli_pairs,
    mirror_scene,
)
from waltz.scenes.language.foils import PIECES, draw_foils, swap_actants
from waltz.scenes.language.questions import (
    ROUNDS,
    draw_dialogue,
    draw_how_many,
    draw_scene_questions,
    render_statement,
)
from waltz.scenes.lexicon import read_scene_verbs
from waltz.scenes.oracle import cast_vote, decide_truth, is_in_grammar
from waltz.scenes.sampling import SPLITS, draw_scene, draw_scenes

RIDE = Graph(
    "ride",
    "beach",
    (
        Object("man", (SpriteCell(0, 0, 60),)),
        Object("bicycle", (SpriteCell(0, 60, 60),), "red"),
        Object("dog", (SpriteCell(150, 0, 40),)),
    ),
    (),
    Action("riding", 0, 1),
)


@given(st.integers(0, 10**6), st.sampled_from(sorted(SPLITS)))
@settings(max_examples=100, deadline=None)
def test_captions_are_five_true_sentences(seed: int, split: str) -> None:
    graph = draw_scene(0, seed, split)
    texts = draw_captions(graph, Random(seed))
    assert len(texts) == 5
    assert [decide_truth(graph, text) for text in texts] == ["true"] * 5
    described = draw_contextual_descriptions(
        graph, Random(seed)
    ) + draw_plain_descriptions(graph, Random(seed))
    assert all(decide_truth(graph, text) == "true" for text in described)
    assert bool(described) == (graph.action is not None)


def test_plain_descriptions_avoid_the_verb() -> None:
    for graph in [graph for graph in draw_scenes(80, 2) if graph.action is not None]:
        assert graph.action is not None
        verb = read_scene_verbs()[graph.action.verb]
        forms = {verb.name, verb.third, verb.base, verb.participle}
        for text in draw_plain_descriptions(graph, Random(0)):
            assert not forms & set(text.lower().rstrip(".").split())


def test_captions_vary_and_take_the_known_forms() -> None:
    texts = draw_captions(RIDE, Random(1))
    assert texts[0].startswith("A man is riding a bicycle ")
    assert "red bicycle" in texts[1]
    assert " he is riding a bicycle." in texts[3]
    assert texts[4].startswith("A bicycle is being ridden by a man ")


def test_questions_have_right_answers_and_wrong_ones() -> None:
    zeros = 0
    for graph in draw_scenes(40, 3):
        for question in draw_scene_questions(graph, Random(graph.id)):
            assert question.answer not in question.wrong
            if question.kind == "number":
                zeros += question.answer == "0"
                assert decide_truth(graph, render_statement(question) or "") == "true"
                assert (
                    decide_truth(graph, f"{question.text} {question.wrong[0]}.")
                    == "false"
                )
            if question.kind == "yes/no":
                assert (
                    decide_truth(graph, f"{question.text} {question.answer}.") == "true"
                )
    assert zeros == 40


def test_how_many_statement_agrees() -> None:
    question = draw_how_many(RIDE, Random(5), zero=False)
    assert (render_statement(question) or "").startswith("There is exactly 1 ") == (
        question.answer == "1"
    )


def test_dialogues_have_ten_different_rounds_true_with_pronouns() -> None:
    pronouns = 0
    for graph in draw_scenes(30, 6):
        caption = draw_captions(graph, Random(0))[0]
        rounds = draw_dialogue(graph, caption, Random(1))
        assert len({question for question, _ in rounds}) == ROUNDS
        for question, answer in rounds:
            assert decide_truth(graph, f"{caption} {question}? {answer}.") == "true"
            pronouns += any(
                word in question.split()[:2] for word in ("he", "she", "it", "they")
            )
    assert pronouns > 60


def test_foils_are_false_in_one_place_and_cover_every_piece() -> None:
    pieces = set()
    for graph in draw_scenes(120, 7, "training"):
        for foil in draw_foils(graph, Random(graph.id)):
            pieces.add(foil.piece)
            assert decide_truth(graph, foil.caption) == "true"
            assert decide_truth(graph, foil.foil) == "false"
            assert foil.caption != foil.foil
    assert pieces == set(PIECES)


def test_actant_swap() -> None:
    assert swap_actants(RIDE) == ("A man rides a bicycle.", "A bicycle rides a man.")


def test_corrupted_sentences_are_outside_the_grammar() -> None:
    count = 0
    for graph in draw_scenes(60, 1, "training"):
        for text in draw_captions(graph, Random(f"captions:1:{graph.id}")):
            corrupted = corrupt_text(text, Random(graph.id + text))
            assert corrupted is None or (
                corrupted != text and not is_in_grammar(corrupted)
            )
            count += corrupted is not None
    assert count > 290


@pytest.mark.parametrize(
    ("hypothesis", "expected"),
    [
        ("A man is on the beach.", "entailment"),
        ("There is a person.", "entailment"),
        ("There are two men.", "contradiction"),
        ("A man is pushing a bicycle.", "contradiction"),
        ("A man is riding a bicycle in the snow.", "contradiction"),
        ("There are two cats.", "neutral"),
        ("There is a dog.", "neutral"),
        ("The bicycle is red.", "neutral"),
        ("A dog is to the right of a man.", "neutral"),
    ],
)
def test_labels_are_of_all_worlds_not_of_one(hypothesis: str, expected: str) -> None:
    premise = "A man is riding a bicycle on the beach."
    assert (
        compute_label(premise, hypothesis, build_worlds(RIDE, hypothesis)) == expected
    )


def test_nli_pairs_have_each_label_once() -> None:
    labels = [
        pair.label
        for graph in draw_scenes(20, 8, "training")
        for pair in draw_nli_pairs(graph, Random(graph.id))
    ]
    assert {name: labels.count(name) >= 18 for name in set(labels)} == dict.fromkeys(
        ("entailment", "neutral", "contradiction"), True
    )


def test_mirrored_exchanges_left_and_right() -> None:
    text = "A dog is to the right of a man."
    assert (decide_truth(RIDE, text), decide_truth(mirror_scene(RIDE), text)) == (
        "true",
        "false",
    )


def test_instructions_can_be_answered() -> None:
    prompts = dict(draw_instructions(RIDE, Random(2)))
    assert len(prompts) > 12
    assert all(answer for answer in prompts.values())


def test_splits_share_no_equal_scene_and_scenes_do_not_depend_on_each_other() -> None:
    by_split = {
        split: {describe_content(graph) for graph in draw_scenes(150, 9, split)}
        for split in SPLITS
    }
    assert not by_split["benchmark"] & by_split["training"]
    assert not by_split["benchmark"] & by_split["held-out"]
    assert draw_scene(17, 9) == draw_scenes(18, 9)[17]
    assert all(
        compute_bucket(graph, 10) in SPLITS["benchmark"] for graph in draw_scenes(30, 9)
    )


def test_the_oracle_votes_by_the_truth_of_both_texts() -> None:
    right, wrong = "A man is riding a bicycle.", "A woman is riding a bicycle."
    assert cast_vote(RIDE, right, wrong) == "caption"
    assert cast_vote(RIDE, wrong, right) == "foil"
    assert cast_vote(RIDE, right, right) == "both"
    assert cast_vote(RIDE, right, "A man admires a bicycle.") == "cannot tell"
    assert cast_vote(RIDE, wrong, wrong) == "neither"
