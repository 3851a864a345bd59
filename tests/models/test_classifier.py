import logging

import numpy as np
import pytest
import torch
import transformers

from tiny_models import bert_tokenizer, classifier_model, classifier_network, config
from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.models import classifier
from waltz.models.registry import ModelSpec, decisive

CPU = Device("cpu", 1, "test")
PAIRS = [("A man rides a horse.", "A man throws a horse."), ("A cat sits", "zebra"), ("a dog", "a dog in the picture")]


def test_a_folder_is_loaded_with_its_labels_and_the_study_may_name_them(tmp_path):
    classifier_network(("no", "yes")).save_pretrained(tmp_path)
    bert_tokenizer().save_pretrained(tmp_path)
    spec = ModelSpec("tiny", "classifier", str(tmp_path), "local")
    assert classifier.load_classifier(spec, CPU).labels == ("no", "yes")
    named = ModelSpec("tiny", "classifier", str(tmp_path), "local", labels="bad, good")
    assert classifier.load_classifier(named, CPU).labels == ("bad", "good")
    assert decisive(named) == decisive(spec) | {"labels": "bad, good"}


def test_labels_are_as_many_as_classes():
    fault = r"models\.tiny-classifier: labels: 3 are given \(a, b, c\), some/folder has 2 classes"
    with pytest.raises(UserError, match=fault):
        classifier_model("x", "y", given="a, b, c")


def test_a_checkpoint_without_its_head_is_refused_with_the_keys_that_it_lacks(tmp_path):
    transformers.BertModel(config()).save_pretrained(tmp_path)
    bert_tokenizer().save_pretrained(tmp_path)
    fault = r"lacks the weights of classifier\.bias, classifier\.weight; .* trained with its classification head$"
    with pytest.raises(UserError, match=fault):
        classifier.load_classifier(ModelSpec("plain", "classifier", str(tmp_path), "local"), CPU)


@pytest.mark.parametrize("texts", [PAIRS, [(text,) for pair in PAIRS for text in pair]])
def test_logits_are_those_of_single_passes_with_segments(texts):
    model = classifier_model("a", "b", "c")
    found = classifier.class_logits(model, [*texts, texts[0]])
    assert len(found) == len(texts)
    for given in texts:
        with torch.inference_mode():
            expected = model.network(**model.tokenizer(*given, return_tensors="pt")).logits[0]
        np.testing.assert_allclose(found[given], expected, atol=2e-5)


def test_long_input_is_cut_and_said_to_be(caplog):
    model = classifier_model("a", "b")
    with caplog.at_level(logging.WARNING):
        found = classifier.class_logits(model, [("a cat " * 20,), ("a cat " * 30,), ("a cat",)], most=8)
    np.testing.assert_array_equal(found["a cat " * 20,], found["a cat " * 30,])
    assert "2 inputs fill all 8 positions" in caplog.text
