"""What a masked language model puts into a slot of a text: free spans of a few tokens, or given words.

A span is filled from left to right with a beam; its score is the mean over its tokens of their logits, each
read with the tokens before it in place, as `TextGenerator.unmask` of CheckList has it. Logits of different
spans are not on one scale; `log_softmax` makes them logarithmic probabilities.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from waltz.core.errors import UserError
from waltz.foils.proposer_needs import Proposal, Slot
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.text.masked import (
    MaskedModel,
    MaskPosition,
    Scale,
    TokenQuery,
    compute_token_scores,
    find_best_tokens,
)
from waltz.models.text.prefix_trees import Tokens

log = logging.getLogger(__name__)

BEAM = 10
EXTRA = 10
"""A hypothesis is continued by the `BEAM + EXTRA` best tokens, so that the beam stays full of different ones."""
SLOTS = 512
"""Slots that are filled together: a constant, so that memory is bounded."""

Hypothesis = tuple[Tokens, float]
"""Tokens of a span from its left, and the sum of their scores."""


def proposals(
    slots: Iterable[Slot],
    model: MaskedModel,
    *,
    longest: int = 3,
    top: int = 10,
    beam: int = BEAM,
    scale: Scale = "logit",
    stored: Path | None = None,
    done: ProgressCallback = ignore_progress,
) -> dict[Slot, list[Proposal]]:
    """The best spans of 1 to `longest` tokens for each slot.

    Args:
        slots: Slots; repeated ones are filled once.
        model: A loaded masked language model.
        longest: Most tokens of a span.
        top: How many proposals of each length.
        beam: Hypotheses that are kept from one token to the next.
        scale: What is averaged: raw logits, or logarithmic probabilities in nats.
        stored: Folder of finished batches.
        done: Told how many slots were finished, for a progress bar.
    Returns:
        By slot, proposals of all lengths with the best first: the first `top` are the best overall.
    Raises:
        UserError: A slot lies beyond what the model reads.
    """
    found: dict[Slot, list[Proposal]] = {}
    for part in _parts(slots):
        for masks in range(1, longest + 1):
            for slot, hypotheses in _filled(part, model, masks, beam, scale, stored).items():
                scored = [(tokens, total / masks) for tokens, total in hypotheses[:top]]
                found.setdefault(slot, []).extend(_ranked(scored, model))
        for slot in part:
            found[slot].sort(key=lambda proposal: -proposal.score)
        done(len(part))
    return found


def fitting(
    forms: Mapping[Slot, Sequence[str]],
    model: MaskedModel,
    *,
    scale: Scale = "logit",
    stored: Path | None = None,
    done: ProgressCallback = ignore_progress,
) -> dict[Slot, list[Proposal]]:
    """Given words or phrases ranked by how well they fit into a slot.

    Args:
        forms: By slot, the words that may stand there, in the form that the text asks for.
        model: A loaded masked language model.
        scale: What is averaged over a form's pieces.
        stored: Folder of finished batches.
        done: Told how many slots were finished.
    Returns:
        By slot, every form that the vocabulary can spell, best first.
    Raises:
        UserError: A slot lies beyond what the model reads.
    """
    found: dict[Slot, list[Proposal]] = {}
    for part in _parts(forms):
        pieces = {slot: {form: _pieces(form, slot, model) for form in dict.fromkeys(forms[slot])} for slot in part}
        asked = {slot: _asked(slot, set(pieces[slot].values()), model) for slot in part}
        rows = {row for steps in asked.values() for row in steps.values()}
        scores = compute_token_scores(model, rows, scale, stored)
        for slot in part:
            values = {
                prefix: dict(zip(row[2], scores[row].tolist(), strict=True)) for prefix, row in asked[slot].items()
            }
            ranked = []
            for form, tokens in pieces[slot].items():
                if tokens:
                    steps = [values[len(tokens), tokens[:place]][token] for place, token in enumerate(tokens)]
                    ranked.append((-sum(steps) / len(steps), form, tokens))
            found[slot] = [
                Proposal(form, _names(tokens, model), -cost, rank)
                for rank, (cost, form, tokens) in enumerate(sorted(ranked))
            ]
        done(len(part))
    return found


def _filled(
    slots: Sequence[Slot], model: MaskedModel, masks: int, beam: int, scale: Scale, stored: Path | None
) -> dict[Slot, list[Hypothesis]]:
    """Hypotheses of each slot, best first, by a beam from left to right."""
    frames = {slot: _frame(slot, masks, model) for slot in slots}
    beams: dict[Slot, list[Hypothesis]] = {slot: [((), 0.0)] for slot in slots}
    for step in range(masks):
        places = {
            slot: [_place(frames[slot], tokens, step, model) for tokens, _ in hypotheses[:beam]]
            for slot, hypotheses in beams.items()
        }
        rows = (place for some in places.values() for place in some)
        best = find_best_tokens(model, rows, beam + EXTRA, scale, stored)
        for slot, hypotheses in beams.items():
            longer = [
                ((*tokens, int(token)), total + score)
                for (tokens, total), place in zip(hypotheses, places[slot], strict=False)
                for token, score in best[place].tolist()
            ]
            beams[slot] = sorted(longer, key=lambda hypothesis: -hypothesis[1])
    return beams


def _frame(slot: Slot, masks: int, model: MaskedModel) -> tuple[Tokens, list[int]]:
    """Ids of the text with its masks, and where the masks are."""
    ids = model.tokenize(slot.masked(model.tokenizer.mask_token, masks))
    if len(ids) == model.window:
        log.warning("%s: read up to %d positions: %s", model.spec.name, model.window, slot.text[:60])
    places = [place for place, token in enumerate(ids) if token == model.tokenizer.mask_token_id]
    if len(places) != masks:
        raise UserError(
            f"models.{model.spec.name}: characters {slot.start} to {slot.end} of {slot.text[:60]!r} do not lie in the"
            f" {model.window} positions that it reads, or the text holds {model.tokenizer.mask_token!r} itself;"
            " leave this text out"
        )
    return ids, places


def _place(frame: tuple[Tokens, list[int]], tokens: Tokens, step: int, model: MaskedModel) -> MaskPosition:
    ids, places = list(frame[0]), frame[1]
    for place, token in zip(places, tokens, strict=False):
        ids[place] = token
    before = model.tokenizer.convert_ids_to_tokens(ids[places[step] - 1])
    begins = bool(model.word_prefix) and before.strip(model.word_prefix).isalnum()
    return tuple(ids), places[step], begins


def _asked(slot: Slot, spelled: set[Tokens], model: MaskedModel) -> dict[tuple[int, Tokens], TokenQuery]:
    """By length and prefix, the row whose mask comes next, with the tokens that some form has there."""
    next_tokens: dict[tuple[int, Tokens], set[int]] = {}
    for tokens in spelled:
        for step, token in enumerate(tokens):
            next_tokens.setdefault((len(tokens), tokens[:step]), set()).add(token)
    frames = {masks: _frame(slot, masks, model) for masks in {len(tokens) for tokens in spelled if tokens}}
    rows = {}
    for (masks, prefix), wanted in next_tokens.items():
        ids, place, _ = _place(frames[masks], prefix, len(prefix), model)
        rows[masks, prefix] = (ids, place, tuple(sorted(wanted)))
    return rows


def _pieces(form: str, slot: Slot, model: MaskedModel) -> Tokens:
    """Tokens of a form in its slot; none where the vocabulary cannot spell it."""
    blank = " " if slot.text[: slot.start][-1:].isspace() else ""
    tokens = tuple(model.tokenizer(blank + form, add_special_tokens=False)["input_ids"])
    return () if model.tokenizer.unk_token_id in tokens else tokens


def _ranked(scored: Iterable[tuple[Tokens, float]], model: MaskedModel) -> Iterator[Proposal]:
    for rank, (tokens, score) in enumerate(scored):
        phrase = model.tokenizer.decode(tokens, clean_up_tokenization_spaces=False).strip()
        yield Proposal(phrase, _names(tokens, model), score, rank)


def _names(tokens: Tokens, model: MaskedModel) -> tuple[str, ...]:
    return tuple(model.tokenizer.convert_ids_to_tokens(list(tokens)))


def _parts(slots: Iterable[Slot]) -> Iterator[list[Slot]]:
    """Distinct slots by the length of their texts, some at a time."""
    order = iter(sorted(set(slots), key=lambda slot: (len(slot.text), slot)))
    while part := list(islice(order, SLOTS)):
        yield part
