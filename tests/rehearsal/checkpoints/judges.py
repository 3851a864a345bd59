"""Encoders of text alone: BERT and SpanBERT as masked LMs, and classifiers of entailment and of
acceptability.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from real_tokenizers.build import build_bert
from rehearsal import words
from rehearsal.checkpoints.language import Builder
from rehearsal.storing import Form, save_config, save_state, seeded, state_of

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
}
OLD_NAMES = {
    r"LayerNorm\.weight$": "LayerNorm.gamma",
    r"LayerNorm\.bias$": "LayerNorm.beta",
}
"""How files converted from TensorFlow name a layer norm."""
LABELS = ("entailment", "neutral", "contradiction")


def bert(
    model: str,
    folder: Path,
    build_tokenizer: Callable[[], Any],
    form: Form = "safetensors",
) -> None:
    """A BERT with both heads of its pre-training, in old names; tokenizer of its own."""
    tokenizer = build_tokenizer()
    network = seeded(
        model, lambda: transformers.BertForPreTraining(_config(len(tokenizer)))
    )
    state = state_of(network, OLD_NAMES, (r"position_ids$", r"decoder\.(weight|bias)$"))
    state["cls.predictions.decoder.weight"] = state[
        "bert.embeddings.word_embeddings.weight"
    ].clone()
    save_config(network.config, folder, "BertForMaskedLM")
    save_state(state, folder, form)
    tokenizer.save_pretrained(folder)


def spanbert(model: str, folder: Path) -> None:
    """The hub's SpanBERT: an encoder without any head, and of its tokenizer the words alone."""
    tokenizer = words.build_cased_bert()
    network = seeded(model, lambda: transformers.BertModel(_config(len(tokenizer))))
    state = {
        f"bert.{key}": values
        for key, values in state_of(network, without=(r"position_ids$",)).items()
    }
    save_config(network.config, folder, "BertModel")
    save_state(state, folder, "bin")
    _words_alone(tokenizer, folder)


def albert_nli(model: str, folder: Path) -> None:
    """Three classes, in the order entailment, neutral, contradiction, which the config names
    LABEL_0 to LABEL_2.
    """
    tokenizer = words.build_albert()
    config = transformers.AlbertConfig(
        vocab_size=len(tokenizer),
        embedding_size=16,
        num_labels=len(LABELS),
        max_position_embeddings=512,
        **SIZES,
    )
    network = seeded(
        model, lambda: transformers.AlbertForSequenceClassification(config)
    )
    state = state_of(network, without=(r"position_ids$",))
    state["albert.embeddings.position_ids"] = torch.arange(512)[None]
    save_config(config, folder, "AlbertForSequenceClassification")
    save_state(state, folder, "bin")
    tokenizer.save_pretrained(folder)


def acceptability(model: str, folder: Path) -> None:
    """Two classes, the second that of acceptable sentences; names nothing."""
    tokenizer = build_bert()
    config = _config(len(tokenizer), num_labels=2)
    network = seeded(model, lambda: transformers.BertForSequenceClassification(config))
    state = state_of(network, without=(r"position_ids$",))
    state["bert.embeddings.position_ids"] = torch.arange(512)[None]
    save_config(config, folder, "BertForSequenceClassification")
    save_state(state, folder, "bin")
    tokenizer.save_pretrained(folder)


def _config(size: int, **changes: Any) -> Any:
    return transformers.BertConfig(
        vocab_size=size, max_position_embeddings=512, **SIZES, **changes
    )


def _words_alone(tokenizer: Any, folder: Path) -> None:
    ids = tokenizer.get_vocab()
    (folder / "vocab.txt").write_text(
        "".join(f"{word}\n" for word in sorted(ids, key=ids.get)), encoding="utf-8"
    )


BUILDERS: dict[str, Builder] = {
    "google-bert/bert-base-cased": functools.partial(
        bert, build_tokenizer=words.build_cased_bert
    ),
    "google-bert/bert-base-uncased": functools.partial(
        bert, build_tokenizer=build_bert
    ),
    "SpanBERT/spanbert-large-cased": spanbert,
    "ynie/albert-xxlarge-v2-snli_mnli_fever_anli_R1_R2_R3-nli": albert_nli,
    "textattack/bert-base-uncased-CoLA": acceptability,
}
