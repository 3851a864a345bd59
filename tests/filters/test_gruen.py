import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT
from stand_ins.models.tiny_models import classifier_model, masked_model
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.filters import gruen
from waltz.model_registry import ModelSpec
from waltz.models.text.classifier import compute_class_logits, load_classifier
from waltz.models.text.masked import load_masked_model

CPU = Device("cpu", 1, "test")
SCENES = ROOT / "resources" / "scenes" / "models"
TEXTS = [
    "A man rides a horse.",
    "A man rides a horse. The dog sits on the table. Yes.",
    "There are exactly four zebras in the picture.",
    "zebra",
    "",
]


def test_the_score_worked_by_hand():
    # exp(ln 2) = 2, so LM = 2: (exp(-1) + 3) / 8 + 1/2
    assert gruen.compute_grammaticality([math.log(2)], [3.0]) == pytest.approx(
        (math.exp(-1) + 3) / 8 + 0.5
    )
    # LM is the mean of 2 and 4, CoLA of 3 and -1
    assert gruen.compute_grammaticality(
        [math.log(2), math.log(4)], [3.0, -1.0]
    ) == pytest.approx((math.exp(-1.5) + 1) / 8 + 0.5)
    assert gruen.compute_grammaticality([], []) == 0.625
    assert gruen.compute_grammaticality([5.0], [-10.0]) == 0.0
    assert gruen.compute_grammaticality([0.0], [8.0]) > 1  # not capped


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("A cat sits. The dog stands.", ["A cat sits.", "The dog stands."]),
        ("Yes. It is red.", ["It is red."]),
        ("Is the dog red? no", ["Is the dog red?"]),
        ("A cat sits.The dog stands.", ["A cat sits.", "The dog stands."]),
        ("A cat sits\nThe dog stands", ["A cat sits.", "The dog stands"]),
        ("A cat sits.. The dog stands...", ["A cat sits.", "The dog stands."]),
        ("It costs 2.50 at Mr. Hill's shop.", ["It costs UNK at Mr. Hill's shop."]),
        ("A bus to the U.S. border.", ["A bus to the U. S. border."]),
        ("cat.", []),
        ("!!! dog !!!", []),
        ("", []),
    ],
)
def test_texts_are_split_into_sentences_of_two_words_or_more(text, sentences):
    assert gruen.split_sentences(text) == sentences


@given(st.text())
def test_every_text_can_be_split(text):
    assert all(len(sentence.split()) > 1 for sentence in gruen.split_sentences(text))


def _one_by_one(text, masked, acceptability):
    """The definition, one sentence and one forward pass at a time, by the networks' own losses."""
    likelihoods, logits = [], []
    for sentence in gruen.split_sentences(text):
        ids = masked.tokenizer(
            sentence, return_tensors="pt", truncation=True, max_length=512
        )["input_ids"]
        with torch.inference_mode():
            likelihoods.append(
                math.exp(float(masked.network(input_ids=ids, labels=ids).loss))
            )
            given = acceptability.tokenizer(
                sentence, return_tensors="pt", truncation=True, max_length=128
            )
            logits.append(float(acceptability.network(**given).logits[0, 1]))
    if not likelihoods:
        return 0.625
    lm, cola = sum(likelihoods) / len(likelihoods), sum(logits) / len(logits)
    return max(0.0, (math.exp(-0.5 * lm) + cola) / 8 + 0.5)


def test_batched_scores_are_those_of_one_sentence_at_a_time():
    masked, acceptability = masked_model(), classifier_model("LABEL_0", "LABEL_1")
    scores = gruen.score_texts([*TEXTS, TEXTS[0]], masked, acceptability)
    assert list(scores) == TEXTS
    assert len({round(value, 3) for value in scores.values()}) > 2
    for text, score in scores.items():
        assert score == pytest.approx(
            _one_by_one(text, masked, acceptability), abs=1e-5
        )


def test_sentences_that_texts_share_are_read_once():
    progress = []
    shared = [
        f"A man rides a horse. {second}"
        for second in ("A cat sits.", "A dog sits.", "A zebra sits.")
    ]
    gruen.score_texts(
        shared,
        masked_model(),
        classifier_model("LABEL_0", "LABEL_1"),
        on_progress=progress.append,
    )
    assert sum(progress) == 2 * 4  # four distinct sentences, two models


def test_a_sentence_longer_than_510_pieces_is_cut_there():
    masked = masked_model(limit=10_000)
    masked.network.config.max_position_embeddings = 10_000  # only the ids are looked at
    from dataclasses import replace

    ids = gruen._tokenize("dog " * 600, replace(masked, window=1000))
    assert (len(ids), ids[0], ids[-1]) == (512, 2, 3)


def test_the_acceptable_class_is_the_one_so_named_else_class_1():
    assert gruen.find_acceptable_class(classifier_model("LABEL_0", "LABEL_1")) == 1
    assert (
        gruen.find_acceptable_class(classifier_model("Acceptable", "unacceptable")) == 0
    )
    with pytest.raises(
        UserError, match=r"has 3 classes \(a, b, c\); GRUEN needs a classifier of two"
    ):
        gruen.find_acceptable_class(classifier_model("a", "b", "c"))


def test_the_scene_models_prefer_a_sentence_to_its_words_in_another_order():
    masked = load_masked_model(
        ModelSpec("m", "masked", str(SCENES / "masked-lm"), "local"), CPU
    )
    acceptability = load_classifier(
        ModelSpec("a", "classifier", str(SCENES / "acceptability"), "local"), CPU
    )
    good, bad = "A red dog is next to the cat.", "Dog a the next is red cat to."
    scores = gruen.score_texts([good, bad], masked, acceptability)
    assert scores[good] > 0.45 > 0.2 > scores[bad]
    assert scores[good] == pytest.approx(
        _one_by_one(good, masked, acceptability), abs=1e-5
    )
    assert compute_class_logits(acceptability, [(good,)])[(good,)].shape == (2,)


def test_every_real_caption_has_a_sentence(shared_data):
    import json

    annotations = json.loads(
        (shared_data / "coco_captions" / "captions_val2017.json").read_text()
    )["annotations"]
    assert all(
        gruen.split_sentences(annotation["caption"]) for annotation in annotations
    )
