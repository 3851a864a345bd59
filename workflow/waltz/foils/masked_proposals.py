"""Proposals of a masked language model for a slot of a text: free spans of a few tokens, or
candidate words.

A beam search fills a span from left to right. The score of a span is the mean of the logits of its
tokens; each logit is read after the tokens to its left are filled in, as in `TextGenerator.unmask`
of CheckList. The extra `checklist` installs that code.
"""

import logging
import sys
import types
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch

from waltz.core.errors import UserError, shorten_value
from waltz.core.jobs.devices import Device
from waltz.foils.candidates import MakerOptions, Proposal, Slot
from waltz.foils.sentence_scores import load_ranker
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
from waltz.models.user_text import check_user_text

log = logging.getLogger(__name__)

BEAM = 10
"""Number of hypotheses that the beam search continues from one token to the next."""
EXTRA = 10
"""The beam search continues each hypothesis with its `BEAM + EXTRA` best tokens, so that the beam
stays full.
"""
SLOTS = 512
"""Number of slots that are filled together; it bounds the memory."""
SCALE: Scale = "logit"
"""Kind of token score; the mean over the tokens is the score of a span or word."""

Hypothesis = tuple[Tokens, float]
"""The first tokens of a span, and the sum of their scores."""

Prefix = tuple[int, Tokens]
"""Number of tokens of a word, and its first tokens, which are already filled in."""

WORDNET_MODULE = "pattern.text.en.wordnet"
INSTALL = (
    "pip install -c constraints.txt -e '.[checklist]'"
    " && pip install -c constraints.txt --no-deps checklist-pattern patternfork-nosql-fix"
)
"""Command that installs CheckList in a checkout: `--no-deps`, because its requirements are
outdated.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalSettings:
    """Hold the settings with which a masked language model proposes the foils of an instrument.

    Attributes:
        longest: Highest number of tokens of a span.
        best: Highest number of proposals of each span length, and of verbs for a caption.
        most_tokens: Highest number of tokens of a caption, without special tokens; None for no
            limit.
        proposer: Code that fills spans: `waltz`, or the released code of `checklist`.
    """

    longest: int
    best: int
    most_tokens: int | None = None
    proposer: Literal["waltz", "checklist"] = "waltz"


def load_proposer(
    spec: ModelSpec,
    device: Device,
    settings: ProposalSettings,
    cache_file: Path,
    on_progress: ProgressCallback,
) -> MakerOptions:
    """Load a masked language model for the instruments whose foils it proposes, or a causal one,
    which ranks foils that rules propose.

    Args:
        on_progress: Called with the number of finished slots or texts.
    """
    if spec.kind == "text":
        return load_ranker(spec, device, settings.most_tokens, cache_file, on_progress)
    model = load_masked_model(spec, device)
    search: Callable[..., dict[Slot, list[Proposal]]] = propose_spans_with_checklist
    if settings.proposer == "waltz":
        search = partial(propose_spans, cache_file=cache_file)
    return MakerOptions(
        propose_spans=partial(
            search,
            model=model,
            longest=settings.longest,
            top=settings.best,
            on_progress=on_progress,
        ),
        rank_words=partial(
            rank_words, model=model, cache_file=cache_file, on_progress=on_progress
        ),
        # [CLS] and [SEP] are no tokens of the caption (thesis A.1.2: 80 tokens or less).
        count_tokens=lambda text: len(model.tokenize(text)) - sum(model.special_counts),
        most_tokens=settings.most_tokens,
        most_verbs=settings.best,
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
    """Return for each slot the best spans of 1 to `longest` tokens; a repeated slot is filled once.

    Args:
        top: Number of proposals of each length.
        beam: Number of hypotheses that are continued from one token to the next.
        on_progress: Called with the number of finished slots, for a progress bar.
    Returns:
        By slot, the proposals of all lengths, best first; so the first `top` are the best overall.
    """
    proposals: dict[Slot, list[Proposal]] = {}
    for chunk in _split_into_chunks(slots):
        # Spans of different lengths are filled in different texts: the number of masks differs.
        for n_masks in range(1, longest + 1):
            beams = _search_beam(chunk, model, n_masks, beam, cache_file)
            for slot, hypotheses in beams.items():
                slot_proposals = proposals.setdefault(slot, [])
                for rank, (tokens, total) in enumerate(hypotheses[:top]):
                    phrase = model.tokenizer.decode(
                        tokens, clean_up_tokenization_spaces=False
                    ).strip()
                    # The mean, so that spans of different lengths can be compared.
                    score = total / n_masks
                    slot_proposals.append(
                        Proposal(phrase, _get_pieces(tokens, model), score, rank)
                    )
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
    """Rank candidate words or phrases by how well they fit into their slot.

    Args:
        words: By slot, the words that may fill it, inflected as the text needs.
    Returns:
        By slot, all words that the vocabulary can spell, best first.
    """
    proposals: dict[Slot, list[Proposal]] = {}
    for chunk in _split_into_chunks(words):
        spellings = {slot: _spell_words(words[slot], slot, model) for slot in chunk}
        queries = {
            slot: _build_queries(slot, set(spellings[slot].values()), model)
            for slot in chunk
        }

        # The queries of all slots of the chunk go to the model together.
        rows: set[TokenQuery] = set()
        for slot in chunk:
            rows.update(queries[slot].values())
        scores = compute_token_scores(model, rows, SCALE, cache_file)

        for slot in chunk:
            values = {
                prefix: dict(zip(row[2], scores[row].tolist(), strict=True))
                for prefix, row in queries[slot].items()
            }
            proposals[slot] = _rank_spellings(spellings[slot], values, model)
        on_progress(len(chunk))
    return proposals


def _spell_words(
    words: Sequence[str], slot: Slot, model: MaskedModel
) -> dict[str, Tokens]:
    """Return the tokens of each distinct word in a slot; a word that the vocabulary cannot spell
    has none.
    """
    return {word: _tokenize(word, slot, model) for word in dict.fromkeys(words)}


def _rank_spellings(
    spellings: Mapping[str, Tokens],
    values: Mapping[Prefix, Mapping[int, float]],
    model: MaskedModel,
) -> list[Proposal]:
    """Return the words of a slot as proposals, best first; equal scores are sorted alphabetically.

    Args:
        spellings: Tokens of each word.
        values: Score of each next token, by the number of tokens of the word and its first tokens.
    """
    ranking = []
    for word, tokens in spellings.items():
        if not tokens:
            continue
        steps = [
            values[len(tokens), tokens[:index]][token]
            for index, token in enumerate(tokens)
        ]
        # The mean, so that words of different lengths can be compared; negated, so that sorting
        # puts the best first.
        cost = -sum(steps) / len(steps)
        ranking.append((cost, word, tokens))
    ranking.sort()
    return [
        Proposal(word, _get_pieces(tokens, model), -cost, rank)
        for rank, (cost, word, tokens) in enumerate(ranking)
    ]


def _search_beam(
    slots: Sequence[Slot],
    model: MaskedModel,
    n_masks: int,
    beam: int,
    cache_file: Path | None,
) -> dict[Slot, list[Hypothesis]]:
    """Fill the masks of each slot from left to right by beam search; return its hypotheses, best
    first.
    """
    frames = {slot: _mask_slot(slot, n_masks, model) for slot in slots}
    beams: dict[Slot, list[Hypothesis]] = {slot: [((), 0.0)] for slot in slots}
    for _ in range(n_masks):
        # One query for each hypothesis: its tokens are filled in, and the model predicts the next
        # mask.
        queries: dict[Slot, list[MaskPosition]] = {}
        rows: list[MaskPosition] = []
        for slot, hypotheses in beams.items():
            queries[slot] = [
                _build_query(frames[slot], tokens, model)
                for tokens, _ in hypotheses[:beam]
            ]
            rows += queries[slot]
        best_tokens = find_best_tokens(model, rows, beam + EXTRA, SCALE, cache_file)

        for slot, hypotheses in beams.items():
            # Each hypothesis gives `beam + EXTRA` longer hypotheses; the next step continues the
            # `beam` best of all.
            longer: list[Hypothesis] = []
            for (tokens, total), query in zip(hypotheses, queries[slot], strict=False):
                for token, score in best_tokens[query].tolist():
                    longer.append(((*tokens, int(token)), total + score))
            beams[slot] = sorted(longer, key=lambda hypothesis: -hypothesis[1])
    return beams


def _mask_slot(
    slot: Slot, n_masks: int, model: MaskedModel
) -> tuple[Tokens, list[int]]:
    """Return the token ids of a text with masks in its slot, and the positions of the masks."""
    check_user_text(model.tokenizer, slot.text, f"models.{model.spec.name}")
    ids = model.tokenize_masked(slot.mask(model.tokenizer.mask_token, n_masks))
    if len(ids) == model.window:
        log.warning(
            "%s: read up to %d positions: %s",
            model.spec.name,
            model.window,
            slot.text[:60],
        )
    positions = [
        position
        for position, token in enumerate(ids)
        if token == model.tokenizer.mask_token_id
    ]
    # The window of the model may cut off the slot.
    if len(positions) != n_masks:
        raise UserError(
            f"models.{model.spec.name}: characters {slot.start} to {slot.end} of {shorten_value(repr(slot.text))} do"
            f" not lie in the {model.window} positions that it reads; leave this text out"
        )
    return ids, positions


def _build_query(
    frame: tuple[Tokens, list[int]], tokens: Tokens, model: MaskedModel
) -> MaskPosition:
    """Return the query for the next token, with the first masks filled with `tokens`."""
    ids = list(frame[0])
    positions = frame[1]
    for position, token in zip(positions, tokens, strict=False):
        ids[position] = token
    next_position = positions[len(tokens)]
    # In byte-level vocabularies a token after a word must begin a new word.
    before = model.tokenizer.convert_ids_to_tokens(ids[next_position - 1])
    begins_word = bool(model.word_prefix) and before.strip(model.word_prefix).isalnum()
    return tuple(ids), next_position, begins_word


def _build_queries(
    slot: Slot, spellings: set[Tokens], model: MaskedModel
) -> dict[Prefix, TokenQuery]:
    """Return for each length and prefix the query of its next mask, with the tokens that some word
    has there.
    """
    # Words that begin alike share a query; words of different lengths do not, since their texts
    # have other masks.
    next_tokens: defaultdict[Prefix, set[int]] = defaultdict(set)
    for tokens in spellings:
        for step, token in enumerate(tokens):
            next_tokens[len(tokens), tokens[:step]].add(token)
    lengths = {n_masks for n_masks, _ in next_tokens}
    frames = {n_masks: _mask_slot(slot, n_masks, model) for n_masks in lengths}
    rows = {}
    for (n_masks, prefix), options in next_tokens.items():
        ids, position, _ = _build_query(frames[n_masks], prefix, model)
        rows[n_masks, prefix] = (ids, position, tuple(sorted(options)))
    return rows


def _tokenize(word: str, slot: Slot, model: MaskedModel) -> Tokens:
    """Return the tokens of a word in its slot; no tokens where the vocabulary cannot spell the
    word.
    """
    follows_space = slot.text[: slot.start][-1:].isspace()
    # byte-level vocabularies have other tokens after a space.
    text = f" {word}" if follows_space else word
    tokens = tuple(model.tokenizer(text, add_special_tokens=False)["input_ids"])
    if model.tokenizer.unk_token_id in tokens:
        return ()
    return tokens


def _get_pieces(tokens: Tokens, model: MaskedModel) -> tuple[str, ...]:
    return tuple(model.tokenizer.convert_ids_to_tokens(list(tokens)))


def _split_into_chunks(slots: Iterable[Slot]) -> Iterator[list[Slot]]:
    """Yield the distinct slots in chunks of `SLOTS`, sorted by the length of their texts."""
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
    """Return the same proposals as `propose_spans`, computed by the code of CheckList.

    The vocabulary of the model must have more than `beam` + 10 tokens.
    """
    generator = build_text_generator(model)
    tokenizer = model.tokenizer
    proposals = {}
    for slot in dict.fromkeys(slots):
        slot_proposals: list[Proposal] = []
        for n_masks in range(1, longest + 1):
            fillings = generator.unmask(
                slot.mask(tokenizer.mask_token, n_masks), beam_size=beam
            )[:top]
            for rank, (words, _, score) in enumerate(fillings):
                pieces = tuple(words)
                phrase = " ".join(pieces).replace(" ##", "")
                slot_proposals.append(Proposal(phrase, pieces, score, rank))
        # CheckList fills one length at a time; the best of all lengths come first.
        proposals[slot] = sorted(slot_proposals, key=lambda proposal: -proposal.score)
        on_progress(1)
    return proposals


def build_text_generator(model: MaskedModel) -> Any:
    """Return a `TextGenerator` of CheckList with the network and tokenizer of a model.

    The constructor of the class loads the newest revision of the weights, in the precision of their
    file. So it is not called, and the fields are set here.
    """
    text_generator = _import_text_generator()
    vocabulary = model.tokenizer.get_vocab()
    generator = text_generator.__new__(text_generator)
    generator.url = None
    generator.device = torch.device(model.device)
    generator.tokenizer = model.tokenizer
    generator.model = model.network
    generator.prefix_sentence = ""
    generator.prefix_len = 0
    generator.allow_word_pieces = False
    generator.space_prefix = model.word_prefix
    generator.with_space = torch.tensor(model.word_starts, device=model.device)
    generator.with_space_set = set(model.word_starts)
    # Pieces without letters and digits; `_build_query` makes the same distinction.
    generator.special_chars = {
        index
        for piece, index in vocabulary.items()
        if not piece.strip(model.word_prefix).isalnum()
    }
    return generator


def _import_text_generator() -> Any:
    """Import CheckList without WordNet, which `pattern.en` would download from NLTK and which is
    not needed here.
    """
    sys.modules.setdefault(WORDNET_MODULE, types.ModuleType(WORDNET_MODULE))
    try:
        from checklist.text_generation import TextGenerator
    except ImportError as error:
        raise UserError(
            f"CheckList's proposer cannot be imported ({error}); run: {INSTALL}"
        ) from None
    return TextGenerator
