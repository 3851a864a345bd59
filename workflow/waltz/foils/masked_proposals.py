"""Proposals of a masked language model for a slot of a text: free spans of a few tokens, or candidate words.

A span is filled from left to right with a beam; its score is the mean over its tokens of their logits, each read with
the tokens before it filled in, as in `TextGenerator.unmask` of CheckList. The extra `checklist` installs that code.
"""

import logging
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch

from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.foils.candidates import MakerOptions, Proposal, Slot
from waltz.model_registry import ModelSpec
from waltz.models.batches import ProgressCallback, Tokens, ignore_progress
from waltz.models.text.masked import (
    MaskedModel,
    MaskPosition,
    Scale,
    TokenQuery,
    compute_token_scores,
    find_best_tokens,
    load_masked_model,
)

log = logging.getLogger(__name__)

BEAM = 10
"""Hypotheses that a beam search continues from one token to the next."""
EXTRA = 10
"""A hypothesis is continued by the `BEAM + EXTRA` best tokens, so that the beam stays full of different ones."""
SLOTS = 512
"""Slots that are filled together: a constant, so that memory is bounded."""
SCALE: Scale = "logit"
"""Scores of tokens, whose mean is the score of a span or word."""

Hypothesis = tuple[Tokens, float]
"""Tokens of a span from its left, and the sum of their scores."""

WORDNET_MODULE = "pattern.text.en.wordnet"
INSTALL = (
    "pip install -c constraints.txt -e '.[checklist]'"
    " && pip install -c constraints.txt --no-deps checklist-pattern patternfork-nosql-fix"
)
"""Command that installs CheckList in a checkout: `--no-deps`, because its requirements are outdated."""


def load_proposer(
    settings: Mapping[str, Any],
    device: Device,
    *,
    longest: int,
    best: int,
    most_tokens: int | None,
    cache_file: Path,
    on_progress: ProgressCallback,
    proposer: Literal["waltz", "checklist"] = "waltz",
) -> MakerOptions:
    """Load a masked language model for the instruments whose foils it proposes.

    Args:
        settings: Those of the model's `ModelSpec`.
        longest: Most tokens of a span.
        best: Most proposals of a span length, and most verbs of a caption.
        most_tokens: Most tokens of a caption; None for no limit.
        on_progress: Called with the number of slots that were finished.
        proposer: Code that fills spans: ours, or CheckList's own.
    """
    model = load_masked_model(ModelSpec(**settings), device)
    search = partial(propose_spans, cache_file=cache_file) if proposer == "waltz" else propose_spans_with_checklist
    return MakerOptions(
        propose_spans=partial(search, model=model, longest=longest, top=best, on_progress=on_progress),
        rank_words=partial(rank_words, model=model, cache_file=cache_file, on_progress=on_progress),
        count_tokens=lambda text: len(model.tokenize(text)),
        most_tokens=most_tokens,
        most_verbs=best,
    )


def propose_spans(
    slots: Iterable[Slot],
    model: MaskedModel,
    *,
    longest: int = 3,
    top: int = 10,
    beam: int = BEAM,
    cache_file: Path | None = None,
    on_progress: ProgressCallback = ignore_progress,
) -> dict[Slot, list[Proposal]]:
    """Return the best spans of 1 to `longest` tokens for each slot; repeated slots are filled once.

    Args:
        top: Number of proposals of each length.
        beam: Hypotheses that are continued from one token to the next.
        on_progress: Called with the number of slots that were finished, for a progress bar.
    Returns:
        By slot, proposals of all lengths with the best first: the first `top` are the best overall.
    """
    proposals: dict[Slot, list[Proposal]] = {}
    for chunk in _split_into_chunks(slots):
        for masks in range(1, longest + 1):
            for slot, hypotheses in _search_beam(chunk, model, masks, beam, cache_file).items():
                for rank, (tokens, total) in enumerate(hypotheses[:top]):
                    phrase = model.tokenizer.decode(tokens, clean_up_tokenization_spaces=False).strip()
                    proposal = Proposal(phrase, _get_pieces(tokens, model), total / masks, rank)
                    proposals.setdefault(slot, []).append(proposal)
        for slot in chunk:
            proposals[slot].sort(key=lambda proposal: -proposal.score)
        on_progress(len(chunk))
    return proposals


def rank_words(
    words: Mapping[Slot, Sequence[str]],
    model: MaskedModel,
    *,
    cache_file: Path | None = None,
    on_progress: ProgressCallback = ignore_progress,
) -> dict[Slot, list[Proposal]]:
    """Rank candidate words or phrases by how well they fit into a slot.

    Args:
        words: By slot, the words that may fill it, in the form that the text needs.
    Returns:
        By slot, every word that the vocabulary can spell, best first.
    """
    proposals: dict[Slot, list[Proposal]] = {}
    for chunk in _split_into_chunks(words):
        pieces = {slot: {word: _tokenize(word, slot, model) for word in dict.fromkeys(words[slot])} for slot in chunk}
        queries = {slot: _build_queries(slot, set(pieces[slot].values()), model) for slot in chunk}
        rows = {row for slot_queries in queries.values() for row in slot_queries.values()}
        scores = compute_token_scores(model, rows, SCALE, cache_file)
        for slot in chunk:
            values = {
                prefix: dict(zip(row[2], scores[row].tolist(), strict=True)) for prefix, row in queries[slot].items()
            }
            ranking = []
            for word, tokens in pieces[slot].items():
                if tokens:
                    steps = [values[len(tokens), tokens[:index]][token] for index, token in enumerate(tokens)]
                    ranking.append((-sum(steps) / len(steps), word, tokens))
            proposals[slot] = [
                Proposal(word, _get_pieces(tokens, model), -cost, rank)
                for rank, (cost, word, tokens) in enumerate(sorted(ranking))
            ]
        on_progress(len(chunk))
    return proposals


def _search_beam(
    slots: Sequence[Slot], model: MaskedModel, masks: int, beam: int, cache_file: Path | None
) -> dict[Slot, list[Hypothesis]]:
    """Return hypotheses of each slot, best first, by a beam from left to right."""
    frames = {slot: _mask_slot(slot, masks, model) for slot in slots}
    beams: dict[Slot, list[Hypothesis]] = {slot: [((), 0.0)] for slot in slots}
    for _ in range(masks):
        queries = {
            slot: [_build_query(frames[slot], tokens, model) for tokens, _ in hypotheses[:beam]]
            for slot, hypotheses in beams.items()
        }
        rows = (query for slot_queries in queries.values() for query in slot_queries)
        best = find_best_tokens(model, rows, beam + EXTRA, SCALE, cache_file)
        for slot, hypotheses in beams.items():
            longer = [
                ((*tokens, int(token)), total + score)
                for (tokens, total), query in zip(hypotheses, queries[slot], strict=False)
                for token, score in best[query].tolist()
            ]
            beams[slot] = sorted(longer, key=lambda hypothesis: -hypothesis[1])
    return beams


def _mask_slot(slot: Slot, masks: int, model: MaskedModel) -> tuple[Tokens, list[int]]:
    """Return the ids of the text with its masks, and the positions of the masks."""
    ids = model.tokenize(slot.mask(model.tokenizer.mask_token, masks))
    if len(ids) == model.window:
        log.warning("%s: read up to %d positions: %s", model.spec.name, model.window, slot.text[:60])
    positions = [position for position, token in enumerate(ids) if token == model.tokenizer.mask_token_id]
    if len(positions) != masks:
        raise UserError(
            f"models.{model.spec.name}: characters {slot.start} to {slot.end} of {slot.text[:60]!r} do not lie in the"
            f" {model.window} positions that it reads, or the text holds {model.tokenizer.mask_token!r} itself;"
            " leave this text out"
        )
    return ids, positions


def _build_query(frame: tuple[Tokens, list[int]], tokens: Tokens, model: MaskedModel) -> MaskPosition:
    """Return the row that asks for the next token: the first masks are filled with `tokens`."""
    ids, positions = list(frame[0]), frame[1]
    for position, token in zip(positions, tokens, strict=False):
        ids[position] = token
    next_position = positions[len(tokens)]
    before = model.tokenizer.convert_ids_to_tokens(ids[next_position - 1])
    begins_word = bool(model.word_prefix) and before.strip(model.word_prefix).isalnum()
    return tuple(ids), next_position, begins_word


def _build_queries(slot: Slot, spellings: set[Tokens], model: MaskedModel) -> dict[tuple[int, Tokens], TokenQuery]:
    """Return by length and prefix the row whose mask comes next, with the tokens that some word has there."""
    next_tokens: dict[tuple[int, Tokens], set[int]] = {}
    for tokens in spellings:
        for step, token in enumerate(tokens):
            next_tokens.setdefault((len(tokens), tokens[:step]), set()).add(token)
    frames = {masks: _mask_slot(slot, masks, model) for masks in {len(tokens) for tokens in spellings if tokens}}
    rows = {}
    for (masks, prefix), options in next_tokens.items():
        ids, position, _ = _build_query(frames[masks], prefix, model)
        rows[masks, prefix] = (ids, position, tuple(sorted(options)))
    return rows


def _tokenize(word: str, slot: Slot, model: MaskedModel) -> Tokens:
    """Return the tokens of a word in its slot; none where the vocabulary cannot spell it."""
    space = " " if slot.text[: slot.start][-1:].isspace() else ""
    tokens = tuple(model.tokenizer(space + word, add_special_tokens=False)["input_ids"])
    return () if model.tokenizer.unk_token_id in tokens else tokens


def _get_pieces(tokens: Tokens, model: MaskedModel) -> tuple[str, ...]:
    return tuple(model.tokenizer.convert_ids_to_tokens(list(tokens)))


def _split_into_chunks(slots: Iterable[Slot]) -> Iterator[list[Slot]]:
    """Yield distinct slots by the length of their texts, `SLOTS` at a time."""
    ordered_slots = iter(sorted(set(slots), key=lambda slot: (len(slot.text), slot)))
    while chunk := list(islice(ordered_slots, SLOTS)):
        yield chunk


def propose_spans_with_checklist(
    slots: Iterable[Slot],
    model: MaskedModel,
    *,
    longest: int = 3,
    top: int = 10,
    beam: int = BEAM,
    on_progress: ProgressCallback = ignore_progress,
) -> dict[Slot, list[Proposal]]:
    """Return what `propose_spans` does by CheckList's code; the model must have more than `beam` + 10 tokens."""
    generator = build_text_generator(model)
    tokenizer = model.tokenizer
    proposals = {}
    for slot in dict.fromkeys(slots):
        slot_proposals: list[Proposal] = []
        for masks in range(1, longest + 1):
            fillings = generator.unmask(slot.mask(tokenizer.mask_token, masks), beam_size=beam)[:top]
            for rank, (words, _, score) in enumerate(fillings):
                pieces = tuple(words)
                phrase = " ".join(pieces).replace(" ##", "")
                slot_proposals.append(Proposal(phrase, pieces, score, rank))
        proposals[slot] = sorted(slot_proposals, key=lambda proposal: -proposal.score)
        on_progress(1)
    return proposals


def build_text_generator(model: MaskedModel) -> Any:
    """Return CheckList's TextGenerator with this network and tokenizer.

    Its own constructor loads the newest revision, at the precision of the file; so its fields are set here.
    """
    text_generator = _import_text_generator()
    vocabulary = model.tokenizer.get_vocab()
    generator = text_generator.__new__(text_generator)
    generator.url = None
    generator.device = torch.device(model.device)
    generator.tokenizer, generator.model = model.tokenizer, model.network
    generator.prefix_sentence, generator.prefix_len = "", 0
    generator.allow_word_pieces, generator.space_prefix = False, model.word_prefix
    generator.with_space = torch.tensor(model.word_starts, device=model.device)
    generator.with_space_set = set(model.word_starts)
    generator.special_chars = {
        index for piece, index in vocabulary.items() if not piece.strip(model.word_prefix).isalnum()
    }
    return generator


def _import_text_generator() -> Any:
    """Import CheckList without WordNet, which `pattern.en` would download from NLTK and nothing here needs."""
    sys.modules.setdefault(WORDNET_MODULE, types.ModuleType(WORDNET_MODULE))
    try:
        from checklist.text_generation import TextGenerator
    except ImportError as error:
        raise UserError(f"CheckList's proposer cannot be imported ({error}); run: {INSTALL}") from None
    return TextGenerator
