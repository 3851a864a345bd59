"""What a decoder says after prompts, generated together, each as if it were alone.

Rows that are computed together differ by rounding from the same rows computed alone. Where two tokens are so close that
rounding could decide between them, the row is read once more, alone and as a whole, and that reading decides: an answer
depends on its prompt and seed only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt, Sampling
from waltz.models.decoders.network import States, join_rows, select_rows

ROUNDING_UNITS = 32
"""Differences of logits below this many units in the last place of the largest are taken for rounding."""
PUBLISHED_TOP_K = 50
"""What transformers 4 drew from where a checkpoint said nothing."""


@dataclass(eq=False)
class Generation:
    """An answer that grows.

    Attributes:
        prompt: What it follows.
        ids: Ids of the expanded prompt.
        features: What stands for the picture, of shape (features, width); None without one.
        fills: Places among the ids that the features fill.
        positions: Positions of the prompt and of every token that may follow.
        draws: The source of its draws; None where the likeliest is taken.
        least: Tokens before which it does not end.
        said: Its tokens so far.
        end: The token that ended it; empty where none did.
        open: Whether it goes on.
    """

    prompt: Prompt
    ids: list[int]
    features: torch.Tensor | None
    fills: list[int]
    positions: torch.Tensor
    draws: torch.Generator | None
    least: int = 0
    said: list[int] = field(default_factory=list)
    end: tuple[int, ...] = ()
    open: bool = True


@torch.inference_mode()
def generate_texts(
    decoder: Decoder,
    prompts: Sequence[Prompt],
    images: Sequence[PreparedImage | None],
    most: int,
    sampling: Sampling | None,
    seeds: Sequence[int],
    *,
    least: int = 0,
    ended: bool = False,
) -> list[tuple[int, ...]]:
    """What a decoder says after each prompt; see `decoder.Decoder.generate`.

    Args:
        decoder: The model.
        prompts: Prompts.
        images: The prepared image of each, or None.
        most: Most tokens.
        sampling: How tokens are drawn; None takes the likeliest.
        seeds: Seed of each prompt's draws.
        least: Tokens before which no answer ends: until then the end is as if it had no probability.
        ended: Whether the end token stays where one was said.
    """
    answers = [
        _start_generation(decoder, prompt, picture, most, seed if sampling else None, least)
        for prompt, picture, seed in zip(prompts, images, seeds, strict=True)
    ]
    order = sorted(range(len(answers)), key=lambda place: (len(answers[place].ids), answers[place].ids, place))
    for batch in _split_into_batches([answers[place] for place in order], decoder, most):
        _generate_batch(decoder, batch, most, sampling)
    return [(*answer.said, *(answer.end if ended else ())) for answer in answers]


def _start_generation(
    decoder: Decoder, prompt: Prompt, picture: PreparedImage | None, most: int, seed: int | None, least: int
) -> Generation:
    layout = decoder.build_layout(prompt, picture)
    at = prompt.image_position if prompt.image_position is not None and layout.block else len(prompt.ids)
    ids = [*prompt.ids[:at], *layout.block, *prompt.ids[at + 1 :]]
    seen = decoder.encode_image(picture, picture.pixels[None])[0] if picture is not None and layout.features else None
    draws = None if seed is None else torch.Generator().manual_seed(seed)
    room = max(0, min(most, decoder.window - len(ids)))
    fills = [at + place for place in layout.features]
    return Generation(prompt, ids, seen, fills, layout.extend_positions(room), draws, least, open=room > 0)


def _split_into_batches(answers: list[Generation], decoder: Decoder, most: int) -> Iterator[list[Generation]]:
    """Answers of like length; of one length where the network cannot be told which positions are padding."""
    pads = decoder.network.reuses_prefixes and {"attention_mask", "position_ids"} <= decoder.network.argument_names
    pending: list[Generation] = []
    for answer in answers:
        fits = (len(pending) + 1) * (len(answer.ids) + most) <= decoder.positions_per_batch
        if pending and not (fits and (pads or len(answer.ids) == len(pending[0].ids))):
            yield pending
            pending = []
        pending.append(answer)
    if pending:
        yield pending


def _generate_batch(decoder: Decoder, answers: list[Generation], most: int, sampling: Sampling | None) -> None:
    """Let a batch of answers grow to their ends."""
    running = [answer for answer in answers if answer.open]
    if not running:
        return
    logits, states, visible = _read_prompts(decoder, running)
    for _ in range(most):
        for row, answer in enumerate(running):
            _append_token(decoder, answer, logits[row], sampling)
        still = [row for row, answer in enumerate(running) if answer.open]
        if not still:
            return
        running = [running[row] for row in still]
        if not decoder.network.reuses_prefixes:
            logits, states, visible = _read_prompts(decoder, running)
            continue
        states, visible = select_rows(states, still), visible[still]
        visible = torch.cat([visible, visible.new_ones(len(still), 1)], dim=1)
        last = torch.tensor([answer.said[-1:] for answer in running], device=decoder.device)
        place = [answer.positions[..., len(answer.ids) + len(answer.said) - 1] for answer in running]
        found, states = decoder.network.compute_logits(
            last, torch.stack(place, dim=-1)[..., None], states, visible=visible
        )
        logits = found[:, -1]


def _append_token(decoder: Decoder, answer: Generation, logits: torch.Tensor, sampling: Sampling | None) -> None:
    """Add the next token, or end the answer."""
    noise = None
    if answer.draws is not None:
        uniform = torch.rand(logits.shape[-1], generator=answer.draws, dtype=torch.float64)
        noise = -torch.log(-torch.log(uniform.clamp_min(torch.finfo(torch.float64).tiny)))
    token, sure = choose_token(_forbid_early_end(decoder, answer, logits), sampling, noise)
    if not sure:
        token, _ = choose_token(_forbid_early_end(decoder, answer, _read_alone(decoder, answer)[0]), sampling, noise)
    if token in decoder.ends:
        answer.open, answer.end = False, (token,)
        return
    answer.said.append(token)
    answer.open = len(answer.ids) + len(answer.said) < answer.positions.shape[-1]


def _forbid_early_end(decoder: Decoder, answer: Generation, logits: torch.Tensor) -> torch.Tensor:
    """Logits, those of the end tokens negative infinity while an answer must go on."""
    if len(answer.said) >= answer.least or not decoder.ends:
        return logits
    return logits.index_fill(0, torch.tensor(sorted(decoder.ends), device=logits.device), -torch.inf)


def choose_token(logits: torch.Tensor, sampling: Sampling | None, noise: torch.Tensor | None) -> tuple[int, bool]:
    """The next token: the likeliest, or one drawn by adding Gumbel noise to the logits.

    Args:
        logits: Of shape (vocabulary,); negative infinity for tokens that cannot be said.
        sampling: Which tokens can be drawn; None takes the likeliest.
        noise: Standard Gumbel noise, float64 of shape (vocabulary,), for a draw.
    Returns:
        The token, and whether rounding of the logits could not have led to another one.
    """
    highest = logits.masked_fill(logits.isneginf(), 0).abs().max()
    rounding = ROUNDING_UNITS * torch.finfo(logits.dtype).eps * float(highest)
    scores = logits.double().cpu()
    sure = True
    if sampling is not None and noise is not None:
        scores, rounding = scores / sampling.temperature, rounding / sampling.temperature
        ranked, order = scores.sort(descending=True, stable=True)
        kept = sampling.top_k or len(ranked)
        if sampling.top_p < 1:
            before = torch.softmax(ranked[:kept], dim=0).cumsum(dim=0)
            kept = min(kept, 1 + int((before < sampling.top_p).sum()))
            sure = bool((before - sampling.top_p).abs().min() > rounding)
        sure = sure and (kept >= len(ranked) or bool(ranked[kept - 1] - ranked[kept] > rounding))
        scores = torch.full_like(scores, -torch.inf).index_copy(0, order[:kept], ranked[:kept]) + noise
    best = scores.topk(min(2, len(scores)))
    sure = sure and (len(scores) < 2 or bool(best.values[0] - best.values[1] > rounding))
    return int(best.indices[0]), sure


def get_published_sampling(decoder: Decoder) -> Sampling:
    """How the checkpoint's own settings draw, with the defaults that the published code ran under."""
    own = decoder.network.model.generation_config
    top_k = PUBLISHED_TOP_K if own.top_k is None else int(own.top_k)
    return Sampling(temperature=float(own.temperature or 1.0), top_k=top_k, top_p=float(own.top_p or 1.0))


def _read_prompts(decoder: Decoder, answers: list[Generation]) -> tuple[torch.Tensor, States, torch.Tensor]:
    """Read all so far, rows of one length together, and put the rows behind each other's padding."""
    logits, parts, first = [], [], 0
    while first < len(answers):
        size = len(answers[first].ids) + len(answers[first].said)
        last = first + 1
        while last < len(answers) and len(answers[last].ids) + len(answers[last].said) == size:
            last += 1
        found, states = _read_rows(decoder, answers[first:last])
        logits.append(found)
        parts.append(states)
        first = last
    if not decoder.network.reuses_prefixes:
        return torch.cat(logits), (), torch.empty(0)
    return torch.cat(logits), *join_rows(parts)


def _read_alone(decoder: Decoder, answer: Generation) -> torch.Tensor:
    return _read_rows(decoder, [answer])[0]


def _read_rows(decoder: Decoder, answers: list[Generation]) -> tuple[torch.Tensor, States]:
    """Read rows of one length from their beginning."""
    ids = torch.tensor([[*answer.ids, *answer.said] for answer in answers], device=decoder.device)
    positions = torch.stack([answer.positions[..., : ids.shape[1]] for answer in answers], dim=-2)
    embeds = None
    if any(answer.features is not None for answer in answers):
        embeds = decoder.network.embed(ids)
        for row, answer in enumerate(answers):
            if answer.features is not None:
                embeds[row, answer.fills] = answer.features.to(embeds.dtype)
    logits, states = decoder.network.compute_logits(ids, positions, embeds=embeds)
    return logits[:, -1], states
