"""Text models of the scenes: masked LM, acceptability, NLI, causal LM."""

from collections.abc import Sequence
from typing import Any

import torch
import transformers

from tools.train_scene_models.loop import (
    TrainedModel,
    draw_batches,
    draw_batches_by_length,
    train_word_pieces,
)
from waltz.models.training import Training
from waltz.scenes.language.entailment import LABELS
from waltz.scenes.model_scores import encode_texts

BERT = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
BERT_ONE, BERT_TWO = "[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]"
PAIR_TEMPLATE = "[CLS] $A [SEP] $B:1 [SEP]:1"
GPT = {"pad_token": "<|pad|>", "unk_token": "<|unk|>", "bos_token": "<|endoftext|>"}
BATCH = 64
MASKED_SHARE = 0.15
"""Share of the tokens that are masked."""
LONGEST_SPAN = 3
RARITY = 0.7
"""How strongly rare words are preferred where one word is hidden: the power of their frequency,
inverted.
"""


def train_masked_lm(sentences: Sequence[str], training: Training) -> TrainedModel:
    """Train a masked language model on hidden spans of one to three words, or one word, rare ones
    more often.
    """
    generator = training.seed_generators()
    tokenizer = train_word_pieces(
        sentences, specials=BERT, template=BERT_ONE, pair=BERT_TWO
    )
    counts = torch.ones(len(tokenizer))
    for ids in tokenizer(list(sentences))["input_ids"]:
        counts[ids] += 1
    rarity = counts**-RARITY
    network = transformers.BertForMaskedLM(_build_bert_config(tokenizer, hidden=112))
    order = draw_batches(len(sentences), BATCH, generator)

    def draw_batch() -> dict[str, torch.Tensor]:
        batch = encode_texts(tokenizer, [sentences[index] for index in next(order)])
        ids = batch["input_ids"]
        hidden = draw_masked_tokens(batch["attention_mask"], rarity[ids], generator)
        batch["input_ids"] = ids.masked_fill(hidden, tokenizer.mask_token_id)
        return {**batch, "labels": ids.masked_fill(~hidden, -100)}

    training.minimize(network, lambda _: network(**draw_batch()).loss, rate=1.5e-3)
    return network, tokenizer


def train_acceptability(
    pairs: Sequence[tuple[str, bool]], training: Training
) -> TrainedModel:
    """Train a classifier of sentences into corrupted (0) and acceptable (1), in the place of a CoLA
    checkpoint.
    """
    generator = training.seed_generators()
    tokenizer = train_word_pieces(
        (text for text, _ in pairs), specials=BERT, template=BERT_ONE, pair=BERT_TWO
    )
    config = _build_bert_config(tokenizer, hidden=80)
    config.num_labels = 2
    config.id2label, config.label2id = (
        {0: "unacceptable", 1: "acceptable"},
        {"unacceptable": 0, "acceptable": 1},
    )
    network = transformers.BertForSequenceClassification(config)
    order = draw_batches(len(pairs), BATCH, generator)

    def draw_batch() -> dict[str, torch.Tensor]:
        texts, labels = zip(*(pairs[index] for index in next(order)), strict=True)
        return {
            **encode_texts(tokenizer, list(texts)),
            "labels": torch.tensor(labels, dtype=torch.int64),
        }

    training.minimize(network, lambda _: network(**draw_batch()).loss, rate=1.5e-3)
    return network, tokenizer


def train_nli(
    examples: Sequence[tuple[str, str, str]], training: Training
) -> TrainedModel:
    """Train a classifier of (premise, hypothesis, label) with the layer-sharing ALBERT of the
    thesis's filter.
    """
    generator = training.seed_generators()
    premises, hypotheses, label_names = (
        list(column) for column in zip(*examples, strict=True)
    )
    texts = premises + hypotheses
    tokenizer = train_word_pieces(
        texts, specials=BERT, template=BERT_ONE, pair=PAIR_TEMPLATE, types=True
    )
    config = transformers.AlbertConfig(
        vocab_size=len(tokenizer),
        embedding_size=64,
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=8,
        intermediate_size=384,
        hidden_act="gelu",
        max_position_embeddings=96,
        classifier_dropout_prob=0.0,
        num_labels=3,
        id2label=dict(enumerate(LABELS)),
        label2id={label: index for index, label in enumerate(LABELS)},
        pad_token_id=tokenizer.pad_token_id,
    )
    network = transformers.AlbertForSequenceClassification(config)
    _initialize_attention(network.albert)
    encoded = tokenizer(premises, hypotheses, truncation=True)
    labels = torch.tensor([LABELS.index(label) for label in label_names])
    lengths = torch.tensor([len(ids) for ids in encoded["input_ids"]])
    order = draw_batches_by_length(lengths, BATCH, generator)

    def draw_batch() -> dict[str, torch.Tensor]:
        indices = next(order)
        rows = {
            name: [encoded[name][index] for index in indices]
            for name in tokenizer.model_input_names
        }
        return {**tokenizer.pad(rows, return_tensors="pt"), "labels": labels[indices]}

    training.minimize(network, lambda _: network(**draw_batch()).loss, rate=1.5e-3)
    return network, tokenizer


def _initialize_attention(albert: Any) -> None:
    """Initialize keys equal to queries and embeddings of unit size, so that a word first attends to
    the same word.

    Source:
        Mimetic initialization (Trockman and Kolter, 2023, section 4).
    """
    attention = albert.encoder.albert_layer_groups[0].albert_layers[0].attention
    hidden, embedded = albert.config.hidden_size, albert.config.embedding_size
    with torch.no_grad():
        attention.query.weight.normal_(0, hidden**-0.5)
        attention.key.weight.copy_(attention.query.weight)
        albert.embeddings.word_embeddings.weight.normal_(0, 1)
        albert.embeddings.position_embeddings.weight.normal_(0, 0.3)
        albert.embeddings.token_type_embeddings.weight.normal_(0, 0.3)
        albert.encoder.embedding_hidden_mapping_in.weight.normal_(0, embedded**-0.5)


def train_causal_lm(sentences: Sequence[str], training: Training) -> TrainedModel:
    """Train a left-to-right language model, in the place of GPT-2; it keeps capitals."""
    generator = training.seed_generators()
    tokenizer = train_word_pieces(
        sentences, specials=GPT, template="<|endoftext|> $A <|endoftext|>", lower=False
    )
    network = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=len(tokenizer),
            n_positions=96,
            n_embd=48,
            n_layer=2,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.bos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    order = draw_batches(len(sentences), BATCH, generator)

    def draw_batch() -> dict[str, torch.Tensor]:
        batch = encode_texts(tokenizer, [sentences[index] for index in next(order)])
        return {
            **batch,
            "labels": batch["input_ids"].masked_fill(
                batch["attention_mask"] == 0, -100
            ),
        }

    training.minimize(network, lambda _: network(**draw_batch()).loss, rate=2e-3)
    return network, tokenizer


def _build_bert_config(tokenizer: Any, *, hidden: int) -> Any:
    return transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=3 * hidden,
        max_position_embeddings=96,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=tokenizer.pad_token_id,
    )


def draw_masked_tokens(
    mask: torch.Tensor, weights: torch.Tensor, generator: torch.Generator
) -> torch.Tensor:
    """Draw the hidden tokens: spans in every other row, one token in the others, never special
    tokens.

    Args:
        mask: 1 where a row has a token, int64 of shape (rows, tokens).
        weights: Sampling weight of each token, float32 of shape (rows, tokens).
    Returns:
        bool of shape (rows, tokens).
    """
    hidden = torch.zeros_like(mask, dtype=torch.bool)
    for row, length in enumerate(mask.sum(dim=1).tolist()):
        if row % 2:
            hidden[
                row,
                1
                + int(
                    torch.multinomial(
                        weights[row, 1 : length - 1], 1, generator=generator
                    )
                ),
            ] = True
            continue
        count = max(1, round(MASKED_SHARE * (length - 2)))
        while int(hidden[row].sum()) < count:
            span = int(torch.randint(1, LONGEST_SPAN + 1, (1,), generator=generator))
            first = int(torch.randint(1, max(2, length - 1), (1,), generator=generator))
            hidden[row, first : min(first + span, length - 1)] = True
    return hidden
