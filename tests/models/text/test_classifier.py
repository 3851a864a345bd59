import logging

import numpy as np
import pytest
import sentencepiece
import torch
import transformers

from stand_ins.models.tiny_models import (
    bert_tokenizer,
    classifier_model,
    classifier_network,
    config,
)
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec, load_registry, select_decisive_fields
from waltz.models.text import classifier

CPU = Device("cpu", 1, "test")
PAIRS = [
    ("A man rides a horse.", "A man throws a horse."),
    ("A cat sits", "zebra"),
    ("a dog", "a dog in the picture"),
]


def test_a_folder_is_loaded_with_its_labels_and_the_study_may_name_them(tmp_path):
    classifier_network(("no", "yes")).save_pretrained(tmp_path)
    bert_tokenizer().save_pretrained(tmp_path)
    spec = ModelSpec("tiny", "classifier", str(tmp_path), "local")
    assert classifier.load_classifier(spec, CPU).labels == ("no", "yes")
    named = ModelSpec("tiny", "classifier", str(tmp_path), "local", labels="bad, good")
    assert classifier.load_classifier(named, CPU).labels == ("bad", "good")
    assert select_decisive_fields(named) == select_decisive_fields(spec) | {
        "labels": "bad, good"
    }


def test_labels_are_as_many_as_classes():
    fault = r"models\.tiny-classifier: labels: wrong number of labels \(got 3: a, b, c, expected 2 for some/folder\)"
    with pytest.raises(UserError, match=fault):
        classifier_model("x", "y", given="a, b, c")


def test_labels_in_another_order_than_the_configs_are_refused():
    fault = r"labels: another order than in the config of some/folder \(got b, a, expected A, b\); correct it"
    with pytest.raises(UserError, match=fault):
        classifier_model("A", "b", given="b, a")


def test_the_registered_classifier_of_entailment_has_names_where_its_config_has_none():
    labels = load_registry()["albert-xxlarge-nli"].labels
    model = classifier_model("LABEL_0", "LABEL_1", "LABEL_2", given=labels)
    assert model.labels == ("entailment", "neutral", "contradiction")


def test_a_checkpoint_without_its_head_is_refused_with_the_keys_that_it_lacks(tmp_path):
    transformers.BertModel(config()).save_pretrained(tmp_path)
    bert_tokenizer().save_pretrained(tmp_path)
    fault = r"lacks the weights of classifier\.bias, classifier\.weight; .* trained with its classification head$"
    with pytest.raises(UserError, match=fault):
        classifier.load_classifier(
            ModelSpec("plain", "classifier", str(tmp_path), "local"), CPU
        )


@pytest.mark.parametrize("texts", [PAIRS, [(text,) for pair in PAIRS for text in pair]])
def test_logits_are_those_of_single_passes_with_segments(texts):
    model = classifier_model("a", "b", "c")
    logits = classifier.compute_class_logits(model, [*texts, texts[0]])
    assert len(logits) == len(texts)
    for given in texts:
        with torch.inference_mode():
            expected = model.network(
                **model.tokenizer(*given, return_tensors="pt")
            ).logits[0]
        np.testing.assert_allclose(logits[given], expected, atol=2e-5)


def test_long_input_is_truncated_and_reported(caplog):
    model = classifier_model("a", "b")
    with caplog.at_level(logging.WARNING):
        logits = classifier.compute_class_logits(
            model, [("a cat " * 20,), ("a cat " * 30,), ("a cat",)], max_positions=8
        )
    np.testing.assert_array_equal(logits["a cat " * 20,], logits["a cat " * 30,])
    assert "2 inputs fill all 8 positions" in caplog.text


def test_a_tokenizer_that_is_a_sentencepiece_file_alone_is_read(tmp_path):
    """As of ALBERT's NLI checkpoint, whose repository has no other file of its tokenizer."""
    sentences = tmp_path / "sentences.txt"
    sentences.write_text("\n".join(text for pair in PAIRS for text in pair))
    folder = tmp_path / "albert"
    special = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}
    sentencepiece.SentencePieceTrainer.train(
        input=str(sentences),
        model_prefix=str(tmp_path / "spiece"),
        vocab_size=26,
        user_defined_symbols=["[CLS]", "[SEP]", "[MASK]"],
        pad_piece="<pad>",
        minloglevel=2,
        **special,
    )
    sizes = {
        "hidden_size": 8,
        "embedding_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
    }
    albert = transformers.AlbertConfig(
        vocab_size=26, intermediate_size=8, num_labels=3, **sizes
    )
    transformers.AlbertForSequenceClassification(albert).save_pretrained(folder)
    (tmp_path / "spiece.model").rename(folder / "spiece.model")
    read = classifier.load_classifier(
        ModelSpec("albert", "classifier", str(folder), "local"), CPU
    ).tokenizer
    ids = read("A dog")["input_ids"]
    assert (ids[0], ids[-1]) == (read.cls_token_id, read.sep_token_id)
    assert read.decode(ids[1:-1]).strip().lower() == "a dog"
