"""Tiny encoders with real classes and random weights of a fixed seed."""

import torch
import transformers
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from conftest import WORDS
from waltz.model_registry import ModelSpec
from waltz.models.text import classifier, masked

torch.set_num_threads(1)  # tiny batches: threads cost more than they give
PIECES = ["##s", "##ing", "##man", "##board", "##off", "sit", "stand"]
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [*SPECIALS, *WORDS, *PIECES]


def bert_tokenizer(limit: int = 40):
    """A lower-casing word-piece tokenizer with BERT's special tokens and two segments."""
    core = Tokenizer(
        models.WordPiece(
            {word: place for place, word in enumerate(VOCABULARY)}, unk_token="[UNK]"
        )
    )
    core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.decoder = decoders.WordPiece()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    named = dict(
        zip(
            ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"),
            SPECIALS,
            strict=True,
        )
    )
    return transformers.BertTokenizer(
        tokenizer_object=core, model_max_length=limit, **named
    )


def roberta_tokenizer():
    """A byte-level tokenizer whose vocabulary marks the beginnings of words."""
    marked = [f"Ġ{word}" for word in WORDS]
    symbols = ["Ġ", *sorted({letter for word in WORDS for letter in word})]
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *symbols]
    merges = []
    for word in marked:
        merged = word[0]
        for letter in word[1:]:
            if merged + letter not in vocabulary:
                vocabulary.append(merged + letter)
                merges.append((merged, letter))
            merged += letter
    core = Tokenizer(
        models.BPE(
            {piece: place for place, piece in enumerate(vocabulary)},
            merges,
            unk_token="<unk>",
        )
    )
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    named = {
        "bos_token": "<s>",
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
    }
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, model_max_length=40, **named
    )
    tokenizer.add_special_tokens(
        {"mask_token": transformers.AddedToken("<mask>", lstrip=True, special=True)}
    )
    return tokenizer


def config(size: int = len(VOCABULARY), kind=transformers.BertConfig, **changes):
    return kind(
        vocab_size=size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=64,
        initializer_range=0.5,
        **changes,
    )


def masked_network(size: int = len(VOCABULARY), kind=transformers.BertConfig):
    torch.manual_seed(0)
    return transformers.AutoModelForMaskedLM.from_config(
        config(size, kind), dtype=torch.float32
    ).eval()


def classifier_network(labels: tuple[str, ...], kind=transformers.BertConfig):
    torch.manual_seed(1)
    changes = {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: place for place, label in enumerate(labels)},
    }
    if kind is transformers.AlbertConfig:
        changes |= {"embedding_size": 16, "classifier_dropout_prob": 0.0}
    named = config(kind=kind, **changes)
    return transformers.AutoModelForSequenceClassification.from_config(
        named, dtype=torch.float32
    ).eval()


def masked_model(limit: int = 40) -> masked.MaskedModel:
    spec = ModelSpec("tiny-bert", "masked", weights="none", revision="0")
    return masked.wrap_masked_model(
        spec, masked_network(), bert_tokenizer(limit), "cpu"
    )


def roberta_model() -> masked.MaskedModel:
    tokenizer = roberta_tokenizer()
    network = masked_network(len(tokenizer), transformers.RobertaConfig)
    return masked.wrap_masked_model(
        ModelSpec("tiny-roberta", "masked", weights="none", revision="0"),
        network,
        tokenizer,
        "cpu",
    )


def classifier_model(
    *labels: str, given: str = "", kind=transformers.BertConfig
) -> classifier.Classifier:
    spec = ModelSpec(
        "tiny-classifier",
        "classifier",
        weights="some/folder",
        revision="0",
        labels=given,
    )
    return classifier.wrap_classifier(
        spec, classifier_network(labels, kind), bert_tokenizer(), "cpu"
    )
