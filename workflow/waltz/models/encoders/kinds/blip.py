"""BLIP by its matching head or its answer decoder, BLIP-2 by its matching head: text layers that
attend to the patches of a vision transformer.

BLIP's `encode_text` computes the part that depends on the text only: the embeddings and the first
self-attention. In cross-attention the projections of keys and values are moved from the patches to
the few text positions, since q (W x)ᵀ = (q W) xᵀ. For each pair, this replaces a pass over the
patches by two products, and no keys and values of a text layer are stored for an image.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import transformers

from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders.base import (
    Fields,
    PixelEncoder,
    load_pixel_encoder,
    pack_linear_layers,
)
from waltz.models.encoders.encoder import States, compute_log_odds
from waltz.models.encoders.vqa import read_answer_vocabulary, tokenize_answers
from waltz.models.networks.answer_trees import AnswerTrees, rank_answers

MATCH = 1
"""Index of a match in the head's output."""


@dataclass(frozen=True)
class Blip(PixelEncoder):
    """A loaded BLIP; see `encoder.Encoder`.

    As in the transformers class, the first token is the tokenizer's start token; other code
    replaces it by `[ENC]`.
    """

    images_per_batch: int = 8
    texts_per_batch: int = 128
    pairs_per_batch: int = 16

    def encode_image(self, images: torch.Tensor) -> States:
        """Return states of the patches."""
        return (self.network.vision_model(pixel_values=images).last_hidden_state,)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return states of the tokens before the first cross-attention to the image."""
        encoder = self.network.text_encoder
        return (
            encoder.encoder.layer[0].attention(encoder.embeddings(input_ids=ids))[0],
        )

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return log odds of a match, read at the first token."""
        states = self.compute_states(text, image, count=1)
        return compute_log_odds(self.network.itm_head(states[:, 0]), MATCH)

    def compute_states(
        self, text: States, image: States, count: int | None = None
    ) -> torch.Tensor:
        """Return states of the first `count` tokens, or of all, after attention to the patches: of
        shape (pairs, count, width).
        """
        # (pairs, tokens, width) and (pairs, patches, vision width).
        states, patches = text[0], image[0]
        layers = self.network.text_encoder.encoder.layer
        for number, layer in enumerate(layers):
            if number > 0:  # `encode_text` has computed the first self-attention
                queries = states
                if number == len(layers) - 1:  # no later layer reads the other tokens
                    queries = states[:, :count]
                context, _ = layer.attention.self(queries, encoder_hidden_states=states)
                states = layer.attention.output(context, queries)
            states = layer.feed_forward_chunk(
                _attend_to_patches(layer.crossattention, states, patches)
            )
        return states


@dataclass(frozen=True, kw_only=True)
class BlipAnswering(Blip):
    """A loaded BLIP for questions, which ranks answers by its text decoder; see
    `vqa.AnsweringEncoder`.

    Attributes:
        answers: The answer of each output.
        answer_trees: The answers as prefix trees for the decoder.
    """

    answers: tuple[str, ...]
    answer_trees: tuple[AnswerTrees, ...]
    probability: bool = False
    pairs_per_batch: int = 4

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return log-probabilities of the answers: float32 of shape (batch, answers)."""
        question = self.compute_states(text, image)
        return rank_answers(
            partial(self._compute_logits, question), question, self.answer_trees
        )

    def limit_answers(self, answers: Sequence[str]) -> "BlipAnswering":
        """Return the encoder with other answers; see `vqa.AnsweringEncoder`."""
        trees = _build_trees(vars(self), answers)
        return replace(self, answers=tuple(answers), answer_trees=trees)

    def _compute_logits(
        self, question: torch.Tensor, trees: AnswerTrees
    ) -> torch.Tensor:
        """Return logits of the token after each node of answers, of shape (batch, nodes,
        vocabulary).
        """
        decoder = self.network.text_decoder
        ids = trees.tokens.expand(len(question), -1)
        states = decoder.bert.embeddings(input_ids=ids, position_ids=trees.depths)
        bias = trees.bias.to(states.dtype)
        for layer in decoder.bert.encoder.layer:
            states = layer.attention(states, attention_mask=bias)[0]
            states = layer.feed_forward_chunk(
                _attend_to_patches(layer.crossattention, states, question)
            )
        logits: torch.Tensor = decoder.cls(states)
        return logits


def load_blip(spec: ModelSpec, device: Device) -> Blip:
    """Load a BLIP with its matching head by hub id or folder."""
    fields = load_pixel_encoder(
        spec, device, transformers.BlipForImageTextRetrieval, "matching head"
    )
    pack_linear_layers(fields["network"].vision_model.encoder)
    return Blip(**fields)


def load_blip_answering(spec: ModelSpec, device: Device) -> BlipAnswering:
    """Load a BLIP with its text decoder by hub id or folder."""
    fields = load_pixel_encoder(
        spec, device, transformers.BlipForQuestionAnswering, "answer decoder"
    )
    pack_linear_layers(fields["network"].vision_model.encoder)
    # Without a list, the user of an explanation names answers.
    answers = read_answer_vocabulary(spec) if spec.answers else ()
    trees = _build_trees(fields, answers)
    return BlipAnswering(**fields, answers=answers, answer_trees=trees)


def _build_trees(fields: Fields, answers: Sequence[str]) -> tuple[AnswerTrees, ...]:
    config = fields["network"].config.text_config
    return tokenize_answers(fields, answers, config.bos_token_id, config.sep_token_id)


def _attend_to_patches(
    attention: Any, states: torch.Tensor, patches: torch.Tensor
) -> torch.Tensor:
    """Return the output of cross-attention of token states to patch states.

    The bias of the keys adds the same number to each score of a query, which softmax drops. The
    bias of the values passes through a weighted mean unchanged, so that it is added at the end.

    Args:
        attention: The cross-attention of a layer of transformers.
        states: Token states, of shape (pairs, tokens, width).
        patches: Patch states, of shape (pairs, patches, vision width).
    Returns:
        Shape (pairs, tokens, width).
    """
    weights = attention.self
    pairs, tokens, _ = states.shape
    heads, size = weights.num_attention_heads, weights.attention_head_size
    # q W_k of each head, the left factor of (q W_k) xᵀ: (heads, pairs x tokens, size) -> (...,
    # vision width).
    queries = (
        weights.query(states).view(pairs * tokens, heads, size).transpose(0, 1)
        / size**0.5
    )
    projected = queries @ weights.key.weight.view(heads, size, -1)
    projected = (
        projected.view(heads, pairs, tokens, -1)
        .transpose(0, 1)
        .reshape(pairs, heads * tokens, -1)
    )
    # Means of the patch states, weighted by attention: (pairs, heads x tokens, vision width).
    attended = (projected @ patches.transpose(1, 2)).softmax(dim=-1) @ patches
    attended = (
        attended.view(pairs, heads, tokens, -1)
        .transpose(0, 1)
        .reshape(heads, pairs * tokens, -1)
    )
    # The projection of values follows the mean: (heads, pairs x tokens, size).
    values = attended @ weights.value.weight.view(heads, size, -1).transpose(1, 2)
    context = (
        values.transpose(0, 1).reshape(pairs, tokens, heads * size) + weights.value.bias
    )
    outputs: torch.Tensor = attention.output(context, states)
    return outputs


@dataclass(frozen=True)
class Blip2(PixelEncoder):
    """A loaded BLIP-2; see `encoder.Encoder`."""

    images_per_batch: int = 8
    texts_per_batch: int = 128
    pairs_per_batch: int = 32

    def encode_image(self, images: torch.Tensor) -> States:
        """Return states of the image's patches."""
        return (self.network.vision_model(pixel_values=images).last_hidden_state,)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return embeddings of the tokens; the Q-Former mixes text and image from its first layer
        on.
        """
        return (self.network.embeddings(input_ids=ids),)

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return log odds of a match: the mean over the queries, as in the model."""
        # (pairs, queries, width): learned queries that attend to the image.
        queries = self.network.query_tokens.expand(len(text[0]), -1, -1).to(
            text[0].dtype
        )
        n_queries = queries.shape[1]
        outputs = self.network.qformer(
            query_embeds=torch.cat([queries, text[0]], dim=1),
            query_length=n_queries,
            encoder_hidden_states=image[0],
        )
        states = outputs.last_hidden_state[:, :n_queries]
        head = self.network.itm_head
        logits = head(states.to(head.weight.dtype))  # (pairs, queries, 2)
        return compute_log_odds(logits.mean(dim=1), MATCH)


def load_blip_2(spec: ModelSpec, device: Device) -> Blip2:
    """Load a BLIP-2 for retrieval by hub id or folder."""
    fields = load_pixel_encoder(
        spec, device, transformers.Blip2ForImageTextRetrieval, "matching head"
    )
    fields["max_tokens"] = fields[
        "network"
    ].config.qformer_config.max_position_embeddings
    return Blip2(**fields)
