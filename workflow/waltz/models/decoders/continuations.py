"""Continuations of prompts: the explained values (outcomes) of given target tokens, and generated tokens.

Texts are generated in batches, each as if it were generated alone. Rows that are computed together differ by rounding
from the same rows computed alone. Where two tokens are so close that rounding could decide between them, the row is
read once more, alone and as a whole, and that reading decides: an answer depends on its prompt and seed only.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby

import numpy as np
import torch

from waltz.core.errors import UserError
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt, Sampling, expand_prompt
from waltz.models.decoders.network import RowImage, States, join_rows, select_rows
from waltz.models.decoders.server import ServedPrompt, Server, encode_png

FIRST_STEP = "first-step-logit"
"""The outcome of the published code for models that read images: each target's logit where the first one stands."""
ROUNDING_UNITS = 32
"""Differences of logits below this many units in the last place of the largest are taken for rounding."""
PUBLISHED_TOP_K = 50
"""What transformers 4 drew from where a checkpoint said nothing."""
MAX_LENGTH_RATIO = 1.5
"""Prompts in one batch differ in length by at most this factor."""


def _compute_log_probability(logits: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return at.double() - torch.logsumexp(logits.float(), dim=-1).double()


def _compute_probability(logits: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return _compute_log_probability(logits, at).exp()


def _select_logit(logits: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return at.double()


def _compute_log_odds(logits: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Return ln(q / (1 - q)), with the rest of the vocabulary summed without the target, so that nothing cancels."""
    wide = logits.double()
    highest = wide.amax(dim=-1, keepdim=True)
    weights = (wide - highest).exp()
    own = (at.double()[..., None] - highest).exp()[..., 0]
    rest = weights.sum(dim=-1) - own
    near = rest < 1e-6 * own
    if near.any():
        others = wide.masked_fill(wide == at.double()[..., None], -torch.inf)
        rest = torch.where(near, (others - highest).exp().sum(dim=-1), rest)
    return at.double() - highest[..., 0] - rest.log()


OUTCOMES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "log-probability": _compute_log_probability,
    "probability": _compute_probability,
    "logit": _select_logit,
    "log-odds": _compute_log_odds,
    FIRST_STEP: _select_logit,
}
"""Outcomes by name: from logits (rows, targets, vocabulary) and those of the targets to float64 (rows, targets)."""


def select_preceding_targets(targets: Sequence[int], value: str) -> tuple[int, ...]:
    """Return the targets that stand behind the prompt: all but the last, or none where only the first step counts."""
    return () if value == FIRST_STEP else tuple(targets[:-1])


def compute_outcomes(logits: torch.Tensor, targets: Sequence[int], value: str) -> np.ndarray:
    """Return the outcomes of targets: float64 of shape (rows, targets).

    Args:
        logits: After the prompt and each preceding target, of shape (rows, steps, vocabulary).
        value: A key of `OUTCOMES`.
    """
    ids = torch.tensor(targets, device=logits.device)
    if value == FIRST_STEP:
        return logits[:, 0, ids].double().cpu().numpy()
    at = logits.gather(-1, ids.expand(len(logits), -1)[..., None])[..., 0]
    return OUTCOMES[value](logits, at).cpu().numpy()


@dataclass(frozen=True, eq=False)
class ExpandedPrompt:
    """A prompt as the network reads it, with the image's positions in place of its placeholder.

    Attributes:
        ids: Ids of the expanded prompt.
        image: The image with the positions that it fills; None without one.
        positions: Positions of the prompt and of every token that may follow.
    """

    ids: list[int]
    image: RowImage | None
    positions: torch.Tensor

    @property
    def image_length(self) -> int:
        """Number of positions that the image fills."""
        return 0 if self.image is None else len(self.image.positions)


def _expand_prompt(
    decoder: Decoder, prompt: Prompt, picture: PreparedImage | None, count: int, window: int | None = None
) -> ExpandedPrompt:
    """Expand a prompt that `count` tokens may follow, fewer where they do not fit into a window."""
    layout = decoder.build_layout(prompt, picture)
    ids, feature_positions = expand_prompt(prompt, layout)
    image = None
    if picture is not None and layout.features:
        features = decoder.encode_image(picture, picture.pixels[None])[0]
        image = RowImage(features, feature_positions, layout.inputs)
    count = count if window is None else max(0, min(count, window - len(ids)))
    return ExpandedPrompt(ids, image, layout.extend_positions(count))


def _read_rows(
    decoder: Decoder, prompts: Sequence[ExpandedPrompt], following: Sequence[Sequence[int]], last_count: int = 1
) -> tuple[torch.Tensor, States]:
    """Return the last logits and the states of prompts with tokens behind them, rows of one length."""
    rows = [[*prompt.ids, *tokens] for prompt, tokens in zip(prompts, following, strict=True)]
    ids = torch.tensor(rows, device=decoder.device)
    positions = torch.stack([prompt.positions[..., : ids.shape[1]] for prompt in prompts], dim=-2)
    images = [prompt.image for prompt in prompts]
    return decoder.network.compute_logits(ids, positions, last_count=last_count, images=images)


@torch.inference_mode()
def score_targets(
    decoder: Decoder,
    prompts: Sequence[Prompt],
    images: Sequence[PreparedImage | None],
    targets: Sequence[Sequence[int]],
    value: str = "log-probability",
) -> list[np.ndarray]:
    """Return the outcomes of targets after prompts, each prompt read alone: float64 of shape (targets,) each.

    Args:
        targets: Token ids that follow each prompt; with `first-step-logit`, alternatives for its first one.
        value: A key of `OUTCOMES`. A server returns log-probabilities of alternatives, which differ from logits by one
            number.
    """
    if decoder.server is not None:
        served = [_build_served_prompt(prompt, picture) for prompt, picture in zip(prompts, images, strict=True)]
        return _score_served_targets(decoder.server, served, targets, value)
    scores = []
    for prompt, picture, own_targets in zip(prompts, images, targets, strict=True):
        preceding = select_preceding_targets(own_targets, value)
        expanded = _expand_prompt(decoder, prompt, picture, len(preceding))
        logits, _ = _read_rows(decoder, [expanded], [preceding], last_count=len(preceding) + 1)
        scores.append(compute_outcomes(logits, own_targets, value)[0])
    return scores


def _build_served_prompt(prompt: Prompt, picture: PreparedImage | None) -> ServedPrompt:
    return ServedPrompt(list(prompt.ids), encode_png(picture.image) if picture else "")


def _score_served_targets(
    server: Server, prompts: Sequence[ServedPrompt], targets: Sequence[Sequence[int]], value: str
) -> list[np.ndarray]:
    pairs = list(zip(prompts, targets, strict=True))
    if value != FIRST_STEP:
        return list(server.score(pairs, value))
    alternatives = [(prompt, [target]) for prompt, own_targets in pairs for target in own_targets]
    scores = iter(server.score(alternatives, "log-probability"))
    return [np.concatenate([next(scores) for _ in own_targets]) for own_targets in targets]


@torch.inference_mode()
def score_targets_in_batches(
    decoder: Decoder, prompts: Sequence[Prompt], targets: Sequence[int], value: str
) -> np.ndarray:
    """Return the outcomes of the same targets after each of several prompts without an image.

    Prompts of similar length are read together, padded in front, so that a value depends on the other prompts by
    rounding.

    Returns:
        float64 of shape (prompts, targets).
    """
    if decoder.server is not None:
        return np.stack(score_targets(decoder, prompts, [None] * len(prompts), [targets] * len(prompts), value))
    preceding = select_preceding_targets(targets, value)
    scores = np.empty((len(prompts), len(targets)))
    lengths = [len(prompt.ids) + len(preceding) for prompt in prompts]
    for batch in _batch_by_length(lengths, decoder.positions_per_batch):
        rows = [torch.tensor([*prompts[index].ids, *preceding]) for index in batch]
        extended = [decoder.build_layout(prompts[index], None).extend_positions(len(preceding)) for index in batch]
        ids, visible = torch.stack(_pad_front(rows)), torch.stack(_pad_front([torch.ones_like(row) for row in rows]))
        positions = torch.stack(_pad_front(extended), dim=-2)
        logits, _ = decoder.network.compute_logits(
            ids.to(decoder.device), positions, last_count=len(preceding) + 1, visible=visible.to(decoder.device)
        )
        scores[batch] = compute_outcomes(logits, targets, value)
    return scores


def _batch_by_length(lengths: Sequence[int], positions: int) -> list[list[int]]:
    """Return the numbers of rows in batches of similar length that fit into so many positions."""
    batches: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        longest = lengths[place]
        fits = (
            batches
            and longest <= MAX_LENGTH_RATIO * lengths[batches[-1][0]]
            and longest * (len(batches[-1]) + 1) <= positions
        )
        if fits:
            batches[-1].append(place)
        else:
            batches.append([place])
    return batches


def _pad_front(rows: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return rows with zeros in front, of one length."""
    longest = max(row.shape[-1] for row in rows)
    return [torch.nn.functional.pad(row, (longest - row.shape[-1], 0)) for row in rows]


@dataclass(eq=False)
class Generation:
    """A generation in progress.

    Attributes:
        prompt: The prompt.
        generator: Random generator; None where the most likely token is taken.
        min_tokens: Minimum number of tokens.
        is_open: Whether it continues.
        tokens: Generated tokens so far.
        end: The token that ended it; empty without one.
    """

    prompt: ExpandedPrompt
    generator: torch.Generator | None
    min_tokens: int
    is_open: bool
    tokens: list[int] = field(default_factory=list)
    end: tuple[int, ...] = ()

    @property
    def length(self) -> int:
        """Number of positions of the prompt and all tokens so far."""
        return len(self.prompt.ids) + len(self.tokens)


@torch.inference_mode()
def generate_texts(
    decoder: Decoder,
    prompts: Sequence[Prompt],
    images: Sequence[PreparedImage | None],
    max_tokens: int,
    sampling: Sampling | None,
    seeds: Sequence[int],
    *,
    min_tokens: int = 0,
    keep_end: bool = False,
) -> list[tuple[int, ...]]:
    """Return the tokens that a decoder generates after each prompt, each as if it were generated alone.

    Args:
        max_tokens: Most tokens.
        sampling: How tokens are drawn; None takes the likeliest.
        seeds: Seed of each prompt's draws.
        min_tokens: Tokens before which no answer ends: until then the end is as if it had no probability.
        keep_end: Whether the end token is returned.
    """
    if decoder.server is not None:
        served = [_build_served_prompt(prompt, picture) for prompt, picture in zip(prompts, images, strict=True)]
        options = asdict(sampling) if sampling else {}
        return decoder.server.generate(served, max_tokens, options, seeds, min_tokens, keep_end)
    generations = []
    for prompt, picture, seed in zip(prompts, images, seeds, strict=True):
        expanded = _expand_prompt(decoder, prompt, picture, max_tokens, decoder.window)
        generator = torch.Generator().manual_seed(seed) if sampling else None
        has_room = expanded.positions.shape[-1] > len(expanded.ids)
        generations.append(Generation(expanded, generator, min_tokens, has_room))
    ordered = sorted(generations, key=lambda generation: (len(generation.prompt.ids), generation.prompt.ids))
    for batch in _split_into_batches(ordered, decoder, max_tokens):
        _generate_batch(decoder, batch, max_tokens, sampling)
    return [(*generation.tokens, *(generation.end if keep_end else ())) for generation in generations]


def _split_into_batches(generations: list[Generation], decoder: Decoder, max_tokens: int) -> Iterator[list[Generation]]:
    """Split generations into batches of similar length; of one length where the network takes no padding mask."""
    can_pad = decoder.network.reuses_prefixes and {"attention_mask", "position_ids"} <= decoder.network.argument_names
    pending: list[Generation] = []
    for generation in generations:
        fits = (len(pending) + 1) * (generation.length + max_tokens) <= decoder.positions_per_batch
        if pending and not (fits and (can_pad or generation.length == pending[0].length)):
            yield pending
            pending = []
        pending.append(generation)
    if pending:
        yield pending


def _generate_batch(
    decoder: Decoder, generations: list[Generation], max_tokens: int, sampling: Sampling | None
) -> None:
    """Generate the tokens of a batch until each generation ends."""
    open_generations = [generation for generation in generations if generation.is_open]
    if not open_generations:
        return
    logits, states, visible = _read_generations(decoder, open_generations)
    for _ in range(max_tokens):
        for row, generation in enumerate(open_generations):
            _append_token(decoder, generation, logits[row], sampling)
        open_rows = [row for row, generation in enumerate(open_generations) if generation.is_open]
        if not open_rows:
            return
        open_generations = [open_generations[row] for row in open_rows]
        if not decoder.network.reuses_prefixes:
            logits, states, visible = _read_generations(decoder, open_generations)
            continue
        states, visible = select_rows(states, open_rows), visible[open_rows]
        visible = torch.cat([visible, visible.new_ones(len(open_rows), 1)], dim=1)
        last_tokens = torch.tensor([generation.tokens[-1:] for generation in open_generations], device=decoder.device)
        positions = [generation.prompt.positions[..., generation.length - 1] for generation in open_generations]
        step_logits, states = decoder.network.compute_logits(
            last_tokens, torch.stack(positions, dim=-1)[..., None], states, visible=visible
        )
        logits = step_logits[:, -1]


def _read_generations(decoder: Decoder, generations: list[Generation]) -> tuple[torch.Tensor, States, torch.Tensor]:
    """Read the prompts and all tokens so far, rows of one length together, and join the rows with padding.

    Rows that are read together also have as many positions of an image.
    """
    logits, parts = [], []
    for _, group in groupby(generations, key=lambda row: (row.length, row.prompt.image_length)):
        rows = list(group)
        row_logits, states = _read_rows(decoder, [row.prompt for row in rows], [row.tokens for row in rows])
        logits.append(row_logits[:, -1])
        parts.append(states)
    if not decoder.network.reuses_prefixes:
        return torch.cat(logits), (), torch.empty(0)
    return torch.cat(logits), *join_rows(parts)


def _append_token(decoder: Decoder, generation: Generation, logits: torch.Tensor, sampling: Sampling | None) -> None:
    """Append the next token, or end the generation."""
    noise = None
    if generation.generator is not None:
        uniform = torch.rand(logits.shape[-1], generator=generation.generator, dtype=torch.float64)
        noise = -torch.log(-torch.log(uniform.clamp_min(torch.finfo(torch.float64).tiny)))
    token, is_certain = choose_token(_forbid_early_end(decoder, generation, logits), sampling, noise)
    if not is_certain:
        own_logits = _read_rows(decoder, [generation.prompt], [generation.tokens])[0][0, -1]
        token, _ = choose_token(_forbid_early_end(decoder, generation, own_logits), sampling, noise)
    if token in decoder.ends:
        generation.is_open, generation.end = False, (token,)
        return
    generation.tokens.append(token)
    generation.is_open = generation.length < generation.prompt.positions.shape[-1]


def _forbid_early_end(decoder: Decoder, generation: Generation, logits: torch.Tensor) -> torch.Tensor:
    """Return the logits, with end tokens at negative infinity while the generation is too short."""
    if len(generation.tokens) >= generation.min_tokens or not decoder.ends:
        return logits
    return logits.index_fill(0, torch.tensor(sorted(decoder.ends), device=logits.device), -torch.inf)


def choose_token(logits: torch.Tensor, sampling: Sampling | None, noise: torch.Tensor | None) -> tuple[int, bool]:
    """Return the next token: the most likely, or one sampled by adding Gumbel noise to the logits.

    Args:
        logits: Of shape (vocabulary,); negative infinity for tokens that cannot be said.
        sampling: Which tokens can be drawn; None takes the likeliest.
        noise: Standard Gumbel noise, float64 of shape (vocabulary,), for a draw.
    Returns:
        The token, and whether rounding of the logits could not have led to another one.
    Raises:
        UserError: A logit is not a number, or the highest one is infinite.
    """
    highest = logits.masked_fill(logits.isneginf(), 0).abs().max()
    if not logits.max().isfinite():
        raise UserError(
            "the model's logits are not finite, so that no token is the likeliest; load it in dtype float32"
        )
    rounding = ROUNDING_UNITS * torch.finfo(logits.dtype).eps * float(highest)
    scores = logits.double().cpu()
    is_certain = True
    if sampling is not None and noise is not None:
        scores, rounding = scores / sampling.temperature, rounding / sampling.temperature
        ranked, order = scores.sort(descending=True, stable=True)
        count = sampling.top_k or len(ranked)
        if sampling.top_p < 1:
            before = torch.softmax(ranked[:count], dim=0).cumsum(dim=0)
            count = min(count, 1 + int((before < sampling.top_p).sum()))
            is_certain = bool((before - sampling.top_p).abs().min() > rounding)
        is_certain = is_certain and (count >= len(ranked) or bool(ranked[count - 1] - ranked[count] > rounding))
        scores = torch.full_like(scores, -torch.inf).index_copy(0, order[:count], ranked[:count]) + noise
    best = scores.topk(min(2, len(scores)))
    is_certain = is_certain and (len(scores) < 2 or bool(best.values[0] - best.values[1] > rounding))
    return int(best.indices[0]), is_certain


def get_published_sampling(decoder: Decoder) -> Sampling:
    """Return the sampling of the checkpoint's own settings, with the defaults that the published code ran with."""
    settings = decoder.network.model.generation_config
    top_k = PUBLISHED_TOP_K if settings.top_k is None else int(settings.top_k)
    return Sampling(temperature=float(settings.temperature or 1.0), top_k=top_k, top_p=float(settings.top_p or 1.0))
