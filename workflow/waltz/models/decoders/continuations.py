"""Continuations of prompts: the explained values (outcomes) of target tokens, and generated tokens.

Texts are generated in batches, each as if it were generated alone. Logits of rows that are computed
together differ by rounding from logits of the same rows computed alone. If two tokens are so close
that rounding could decide between them, the row is read once more, alone and without a cache, and
this reading decides. So an answer depends on its prompt and its seed only.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, groupby, takewhile

import numpy as np
import torch

from waltz.core.errors import UserError
from waltz.models.batch_size import BatchSize
from waltz.models.batches import run_in_halves, transfer_together
from waltz.models.decoders.decoder import (
    Decoder,
    PreparedImage,
    Prompt,
    Sampling,
    expand_prompt,
)
from waltz.models.decoders.network import (
    ForwardRequest,
    RowImage,
    States,
    join_padded_rows,
    pad_front,
    select_rows,
)
from waltz.models.decoders.server import Continuation, ServedPrompt, Server, encode_png

FIRST_STEP = "first-step-logit"
"""Outcome of the published code for models that read images: the logit of each target at the first
step.
"""
ROUNDING_UNITS = {torch.float32: 32, torch.float16: 8, torch.bfloat16: 8}
"""Differences of logits below this many units in the last place of the largest logit are taken for
rounding, by the precision of the network.

In half precision, differences of two logits in a batch and alone were at most 3.3 units apart in
networks of 2 to 48 layers with random weights. 32 units of bfloat16 are a quarter of the largest
logit, so that nearly each row was read again.
"""
PUBLISHED_TOP_K = 50
"""Number of tokens that transformers 4 sampled from if a checkpoint does not say."""
MIN_SHARED = 8
"""Minimum number of equal tokens for which several prompts share a pass."""
MAX_LENGTH_RATIO = 1.5
"""Maximum ratio of the lengths of two prompts in one batch."""


def _compute_log_probability(
    logits: torch.Tensor, target_logits: torch.Tensor
) -> torch.Tensor:
    # ln q = z_target - ln(sum_v exp z_v)
    return target_logits.double() - torch.logsumexp(logits.float(), dim=-1).double()


def _compute_probability(
    logits: torch.Tensor, target_logits: torch.Tensor
) -> torch.Tensor:
    return _compute_log_probability(logits, target_logits).exp()


def _select_logit(logits: torch.Tensor, target_logits: torch.Tensor) -> torch.Tensor:
    return target_logits.double()


def _compute_log_odds(
    logits: torch.Tensor, target_logits: torch.Tensor
) -> torch.Tensor:
    """Return ln(q / (1 - q)), with 1 - q summed over the other tokens, so that no digits cancel."""
    # ln(q / (1 - q)) = z_target - ln(sum of exp z_v over the other tokens); all exponents are
    # relative to the highest.
    wide = logits.double()
    highest = wide.amax(dim=-1, keepdim=True)
    weights = (wide - highest).exp()
    target_weights = (target_logits.double()[..., None] - highest).exp()[..., 0]
    rest = weights.sum(dim=-1) - target_weights

    # A small difference of two large sums has few right digits, so there the other tokens are
    # summed on their own.
    is_small = rest < 1e-6 * target_weights
    if is_small.any():
        without_target = wide.masked_fill(
            wide == target_logits.double()[..., None], -torch.inf
        )
        rest = torch.where(is_small, (without_target - highest).exp().sum(dim=-1), rest)
    return target_logits.double() - highest[..., 0] - rest.log()


OUTCOMES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "log-probability": _compute_log_probability,
    "probability": _compute_probability,
    "logit": _select_logit,
    "log-odds": _compute_log_odds,
    FIRST_STEP: _select_logit,
}
"""Outcomes by name: functions of all logits, of shape (rows, targets, vocabulary), and of the
targets' logits, of shape (rows, targets), that return float64 of shape (rows, targets).
"""


def select_preceding_targets(targets: Sequence[int], value: str) -> tuple[int, ...]:
    """Return the targets that the network reads behind the prompt: all but the last, or none for
    `first-step-logit`.
    """
    if value == FIRST_STEP:
        return ()
    return tuple(targets[:-1])


def compute_outcomes(
    logits: torch.Tensor, targets: Sequence[int], value: str
) -> torch.Tensor:
    """Return the outcomes of targets: float64 of shape (rows, targets), on the logits' device.

    Args:
        logits: After the prompt and each preceding target, of shape (rows, steps, vocabulary).
        value: A key of `OUTCOMES`.
    """
    ids = torch.tensor(targets, device=logits.device)
    if value == FIRST_STEP:
        return logits[:, 0, ids].double()
    # Step i predicts target i: take one logit of the vocabulary axis at each step.
    indices = ids.expand(len(logits), -1)[..., None]
    target_logits = logits.gather(-1, indices)[..., 0]
    return OUTCOMES[value](logits, target_logits)


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
    decoder: Decoder,
    prompt: Prompt,
    picture: PreparedImage | None,
    count: int,
    window: int | None = None,
) -> ExpandedPrompt:
    """Expand a prompt, with positions for `count` further tokens, or for fewer if they do not fit
    into the window.
    """
    layout = decoder.build_layout(prompt, picture)
    ids, feature_positions = expand_prompt(prompt, layout)
    image = None
    if picture is not None:
        features = decoder.encode_image(picture, picture.pixels[None])[0]
        image = RowImage(features, feature_positions, layout.inputs)
    if window is not None:
        count = max(0, min(count, window - len(ids)))
    return ExpandedPrompt(ids, image, layout.extend_positions(count))


def _read_rows(
    decoder: Decoder,
    prompts: Sequence[ExpandedPrompt],
    following: Sequence[Sequence[int]],
    last_count: int = 1,
) -> tuple[torch.Tensor, States]:
    """Return the last logits and the states of prompts and the tokens behind them; all rows have
    one length.
    """
    # ids: (rows, positions), prompt and tokens of one length together.
    rows = [
        [*prompt.ids, *tokens]
        for prompt, tokens in zip(prompts, following, strict=True)
    ]
    ids = torch.tensor(rows, device=decoder.device)
    # Rows are stacked before the axis of positions: (rows, positions), or (axes, rows, positions).
    positions = torch.stack(
        [prompt.positions[..., : ids.shape[1]] for prompt in prompts], dim=-2
    )
    images = [prompt.image for prompt in prompts]
    return decoder.network.compute_logits(
        ForwardRequest(ids, positions, last_count=last_count, images=images)
    )


@torch.inference_mode()
def score_targets(
    decoder: Decoder,
    prompts: Sequence[Prompt],
    images: Sequence[PreparedImage | None],
    targets: Sequence[Sequence[int]],
    value: str = "log-probability",
) -> list[np.ndarray]:
    """Return the outcomes of targets after prompts: float64 of shape (targets,) each.

    Consecutive prompts of one image share the keys and values of their common beginning if the
    network can use them again. So a value depends on the other prompts by rounding only.

    Args:
        targets: Token ids that follow each prompt; with `first-step-logit`, alternatives for its
            first token.
        value: A key of `OUTCOMES`. A server returns log-probabilities of alternatives, which differ
            from the logits by a constant of each prompt.
    """
    if decoder.server is not None:
        served = [
            _build_served_prompt(prompt, picture)
            for prompt, picture in zip(prompts, images, strict=True)
        ]
        return _score_served_targets(decoder.server, served, targets, value)
    scores: list[torch.Tensor] = []
    # Prompts of an image stand together; those without an image may begin alike, too.
    for _, group in groupby(
        zip(prompts, images, targets, strict=True), key=lambda row: id(row[1])
    ):
        rows = [
            _build_target_row(decoder, prompt, picture, prompt_targets, value)
            for prompt, picture, prompt_targets in group
        ]
        scores.extend(_score_rows(decoder, rows, value))
    return transfer_together(scores)


@dataclass(frozen=True, eq=False)
class TargetRow:
    """A prompt with targets, as the network reads it.

    Attributes:
        prompt: The prompt.
        preceding: Targets that are read behind the prompt.
        targets: All targets.
    """

    prompt: ExpandedPrompt
    preceding: tuple[int, ...]
    targets: Sequence[int]

    @property
    def ids(self) -> list[int]:
        """Ids of the prompt and of the targets behind it."""
        return [*self.prompt.ids, *self.preceding]

    @property
    def first_step(self) -> int:
        """Position whose logits predict the first target."""
        return len(self.prompt.ids) - 1


def _build_target_row(
    decoder: Decoder,
    prompt: Prompt,
    picture: PreparedImage | None,
    targets: Sequence[int],
    value: str,
) -> TargetRow:
    preceding = select_preceding_targets(targets, value)
    expanded = _expand_prompt(decoder, prompt, picture, len(preceding))
    return TargetRow(expanded, preceding, targets)


def _score_rows(
    decoder: Decoder, rows: Sequence[TargetRow], value: str
) -> list[torch.Tensor]:
    """Return the outcomes of rows of one image: their common beginning is read once, then the
    endings together.
    """
    # Positions of a row in the network, its targets included.
    lengths = [len(row.ids) for row in rows]
    shared = _count_shared_positions(rows)
    can_share = len(rows) > 1 and decoder.network.can_reuse(max(lengths))
    if not can_share or shared < MIN_SHARED:
        return [_score_endings(decoder, [row], 0, (), value)[0] for row in rows]

    prompt = rows[0].prompt
    beginning = ForwardRequest(
        torch.tensor([prompt.ids[:shared]], device=decoder.device),
        prompt.positions[..., None, :shared],
        images=[prompt.image],
    )
    _, states = decoder.network.compute_logits(beginning)
    scores: dict[int, torch.Tensor] = {}
    size = BatchSize(decoder.device, decoder.positions_per_batch)
    for batch in _batch_by_length(lengths, size, MAX_LENGTH_RATIO):
        batch_rows = [rows[index] for index in batch]
        longest = lengths[batch[-1]]

        def score(
            first: int,
            last: int,
            batch_rows: list[TargetRow] = batch_rows,
            longest: int = longest,
        ) -> list[torch.Tensor]:
            with size.measure((last - first) * longest):
                return _score_endings(
                    decoder, batch_rows[first:last], shared, states, value
                )

        values_of_rows = run_in_halves(score, len(batch), _chain)
        scores |= dict(zip(batch, values_of_rows, strict=True))
    return [scores[index] for index in range(len(rows))]


def _concatenate(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat(list(parts))


def _chain(parts: Sequence[list[torch.Tensor]]) -> list[torch.Tensor]:
    return list(chain.from_iterable(parts))


def _count_shared_positions(rows: Sequence[TargetRow]) -> int:
    """Return the number of first positions that all rows share, the image and no first step among
    them; 0 if the image is not.
    """
    columns = zip(*(row.ids for row in rows), strict=False)
    alike = sum(1 for _ in takewhile(lambda ids: len(set(ids)) == 1, columns))
    shared = min(alike, *(row.first_step for row in rows))
    # An image is read in one stretch, since its embeddings may see each other.
    image = rows[0].prompt.image
    if image is not None and shared <= max(image.positions, default=0):
        return 0
    return shared


def _score_endings(
    decoder: Decoder,
    rows: Sequence[TargetRow],
    start: int,
    states: States,
    value: str,
) -> list[torch.Tensor]:
    """Return the outcomes of rows that are read from a position on.

    Args:
        states: Keys and values of the positions before `start`, which the rows share; empty without
            any.
    """
    # Shorter rows are filled up behind their end, which no earlier position sees.
    longest = max(len(row.ids) for row in rows)
    ids, positions = [], []
    for row in rows:
        missing = longest - len(row.ids)
        last_position = row.prompt.positions[..., -1:]
        fill = last_position.expand(*last_position.shape[:-1], missing)
        ids.append([*row.ids[start:], *row.ids[-1:] * missing])
        positions.append(torch.cat([row.prompt.positions[..., start:], fill], dim=-1))
    # Logits are wanted from the first step of the shortest prompt on.
    last_count = longest - min(row.first_step for row in rows)
    request = ForwardRequest(
        torch.tensor(ids, device=decoder.device),
        torch.stack(positions, dim=-2),
        select_rows(states, [0] * len(rows)) or None,
        last_count,
        () if start else [row.prompt.image for row in rows],
    )
    logits, _ = decoder.network.compute_logits(request)
    scores = []
    for row, row_logits in zip(rows, logits, strict=True):
        # `logits` begin at position longest - last_count.
        first = row.first_step - (longest - last_count)
        steps = row_logits[first : first + len(row.preceding) + 1]
        scores.append(compute_outcomes(steps[None], row.targets, value)[0])
    return scores


def _build_served_prompt(prompt: Prompt, picture: PreparedImage | None) -> ServedPrompt:
    image = encode_png(picture.image) if picture else ""
    return ServedPrompt(list(prompt.ids), image)


def _score_served_targets(
    server: Server,
    prompts: Sequence[ServedPrompt],
    targets: Sequence[Sequence[int]],
    value: str,
) -> list[np.ndarray]:
    if value != FIRST_STEP:
        return list(server.score(list(zip(prompts, targets, strict=True)), value))
    # Alternatives for one step: each is scored as the only token that follows its prompt.
    alternatives: list[Continuation] = []
    for prompt, prompt_targets in zip(prompts, targets, strict=True):
        alternatives.extend((prompt, [target]) for target in prompt_targets)
    scores = iter(server.score(alternatives, "log-probability"))
    return [
        np.concatenate([next(scores) for _ in prompt_targets])
        for prompt_targets in targets
    ]


@torch.inference_mode()
def score_targets_in_batches(
    decoder: Decoder, prompts: Sequence[Prompt], targets: Sequence[int], value: str
) -> np.ndarray:
    """Return the outcomes of the same targets after each of several prompts without an image.

    Prompts of similar length are read together, padded in front if the network can read padding. So
    a value depends on the other prompts by rounding only.

    Returns:
        float64 of shape (prompts, targets).
    """
    if decoder.server is not None:
        return np.stack(
            score_targets(
                decoder, prompts, [None] * len(prompts), [targets] * len(prompts), value
            )
        )
    outcomes: list[torch.Tensor] = []
    order: list[int] = []
    # With padding, rows of similar length share a pass; without it, rows of one length.
    preceding_count = len(select_preceding_targets(targets, value))
    lengths = [len(prompt.ids) + preceding_count for prompt in prompts]
    can_pad = decoder.network.can_pad(max(lengths, default=0))
    max_ratio = MAX_LENGTH_RATIO if can_pad else 1.0
    size = BatchSize(decoder.device, decoder.positions_per_batch)
    for batch in _batch_by_length(lengths, size, max_ratio):
        batch_prompts = [prompts[index] for index in batch]
        longest = lengths[batch[-1]]

        def score(
            first: int,
            last: int,
            batch_prompts: list[Prompt] = batch_prompts,
            longest: int = longest,
        ) -> torch.Tensor:
            with size.measure((last - first) * longest):
                return _score_padded(decoder, batch_prompts[first:last], targets, value)

        outcomes.append(run_in_halves(score, len(batch), _concatenate))
        order += batch
    scores = np.empty((len(prompts), len(targets)))
    if order:
        scores[order] = np.concatenate(transfer_together(outcomes))
    return scores


def _score_padded(
    decoder: Decoder, prompts: Sequence[Prompt], targets: Sequence[int], value: str
) -> torch.Tensor:
    """Return the outcomes of targets after prompts without an image, padded in front and read in
    one pass: of shape (prompts, targets).
    """
    preceding = select_preceding_targets(targets, value)
    # Ids, positions and what is visible, all of shape (prompts, longest).
    rows = [torch.tensor([*prompt.ids, *preceding]) for prompt in prompts]
    layouts = [decoder.build_layout(prompt, None) for prompt in prompts]
    extended = [layout.extend_positions(len(preceding)) for layout in layouts]
    visible = torch.stack(pad_front([torch.ones_like(row) for row in rows]))
    request = ForwardRequest(
        torch.stack(pad_front(rows)).to(decoder.device),
        torch.stack(pad_front(extended), dim=-2),
        last_count=len(preceding) + 1,
        visible=visible.to(decoder.device),
    )
    logits, _ = decoder.network.compute_logits(request)
    return compute_outcomes(logits, targets, value)


def _batch_by_length(
    lengths: Sequence[int], size: BatchSize, max_ratio: float
) -> Iterator[list[int]]:
    """Yield the indices of rows in batches of a maximum number of positions, padding included.

    The lengths in a batch differ by a factor of at most `max_ratio`.
    """
    batch: list[int] = []
    # From the shortest row of a batch to the longest.
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        longest = lengths[index]
        if batch:
            is_similar = longest <= max_ratio * lengths[batch[0]]
            if not is_similar or longest * (len(batch) + 1) > size.limit:
                yield batch
                batch = []
        batch.append(index)
    if batch:
        yield batch


@dataclass(eq=False)
class Generation:
    """A generation in progress.

    Attributes:
        prompt: The prompt.
        generator: Random generator; None where the most likely token is taken.
        min_tokens: Minimum number of tokens.
        tokens: Generated tokens so far.
        is_open: Whether further tokens are generated.
        end: The token that ended the generation; empty if there is none.
    """

    prompt: ExpandedPrompt
    generator: torch.Generator | None
    min_tokens: int
    tokens: list[int] = field(default_factory=list)
    is_open: bool = True
    end: tuple[int, ...] = ()

    def start(self) -> None:
        """Drop all tokens, and begin the draws again."""
        self.tokens, self.end = [], ()
        self.is_open = self._has_room()
        if self.generator is not None:
            self.generator.manual_seed(self.generator.initial_seed())

    def _has_room(self) -> bool:
        return self.length < self.prompt.positions.shape[-1]

    @property
    def length(self) -> int:
        """Number of positions of the prompt and all tokens so far."""
        return len(self.prompt.ids) + len(self.tokens)

    def append(self, token: int, ends: frozenset[int]) -> None:
        """Append a token, or end the generation by it."""
        if token in ends:
            self.is_open, self.end = False, (token,)
            return
        self.tokens.append(token)
        self.is_open = self._has_room()


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
    """Return the tokens that a decoder generates after each prompt, each as if it were generated
    alone.

    Args:
        max_tokens: Maximum number of tokens.
        sampling: Settings of the sampling; None takes the likeliest tokens.
        seeds: Seed of each prompt's draws.
        min_tokens: Minimum number of tokens; until then end tokens have no probability.
        keep_end: Whether the end token is returned.
    """
    if decoder.server is not None:
        served = [
            _build_served_prompt(prompt, picture)
            for prompt, picture in zip(prompts, images, strict=True)
        ]
        options = asdict(sampling) if sampling else {}
        return decoder.server.generate(
            served, max_tokens, options, seeds, min_tokens, keep_end
        )
    generations = []
    for prompt, picture, seed in zip(prompts, images, seeds, strict=True):
        expanded = _expand_prompt(decoder, prompt, picture, max_tokens, decoder.window)
        generator = torch.Generator().manual_seed(seed) if sampling else None
        generations.append(Generation(expanded, generator, min_tokens))
    # Prompts of similar length share a batch; the order of the caller does not matter.
    ordered = sorted(
        generations,
        key=lambda generation: (len(generation.prompt.ids), generation.prompt.ids),
    )
    # The limit is read for each batch, and may grow after the first.
    size = BatchSize(decoder.device, decoder.positions_per_batch)
    for batch in _split_into_batches(ordered, decoder, max_tokens, size):

        def generate(first: int, last: int, batch: list[Generation] = batch) -> None:
            longest = len(batch[-1].prompt.ids) + max_tokens
            with size.measure((last - first) * longest):
                _generate_batch(decoder, batch[first:last], max_tokens, sampling)

        # A batch that does not fit into memory is halved; its texts begin again.
        run_in_halves(generate, len(batch), lambda _: None)

    if keep_end:
        return [(*generation.tokens, *generation.end) for generation in generations]
    return [tuple(generation.tokens) for generation in generations]


def _split_into_batches(
    generations: list[Generation],
    decoder: Decoder,
    max_tokens: int,
    size: BatchSize,
) -> Iterator[list[Generation]]:
    """Yield consecutive generations in batches that fit on the device, of one length if rows cannot
    be padded.
    """
    network = decoder.network
    pending: list[Generation] = []
    for generation in generations:
        # All rows of a batch get the room of its longest row: generations come in ascending length.
        longest = generation.length + max_tokens
        fits = (len(pending) + 1) * longest <= size.limit
        can_pad = network.can_reuse(longest) and network.can_pad(longest)
        if pending:
            can_join = can_pad or generation.length == pending[0].length
            if not (fits and can_join):
                yield pending
                pending = []
        pending.append(generation)
    if pending:
        yield pending


def _generate_batch(
    decoder: Decoder,
    generations: list[Generation],
    max_tokens: int,
    sampling: Sampling | None,
) -> None:
    """Generate the tokens of a batch from the first on, until each generation ends."""
    for generation in generations:
        generation.start()
    open_generations = [generation for generation in generations if generation.is_open]
    if not open_generations:
        return
    longest = max(generation.length for generation in open_generations) + max_tokens
    reuses_prefixes = decoder.network.can_reuse(longest)
    logits, states, visible = _read_generations(
        decoder, open_generations, reuses_prefixes
    )
    for _ in range(max_tokens):
        _append_tokens(decoder, open_generations, logits, sampling)
        open_rows = [
            row for row, generation in enumerate(open_generations) if generation.is_open
        ]
        if not open_rows:
            return
        has_ended = len(open_rows) < len(open_generations)
        open_generations = [open_generations[row] for row in open_rows]
        if not reuses_prefixes:
            logits, states, visible = _read_generations(
                decoder, open_generations, reuses_prefixes
            )
            continue

        # Rows that ended leave the batch; one more position, that of the new token, is visible in
        # the others.
        if has_ended:
            states, visible = select_rows(states, open_rows), visible[open_rows]
        visible = torch.cat([visible, visible.new_ones(len(open_rows), 1)], dim=1)
        logits, states = _read_last_tokens(decoder, open_generations, states, visible)


def _read_last_tokens(
    decoder: Decoder,
    generations: list[Generation],
    states: States,
    visible: torch.Tensor,
) -> tuple[torch.Tensor, States]:
    """Read the last token of each generation; return logits of shape (rows, vocabulary) and the new
    states.
    """
    last_tokens = [generation.tokens[-1:] for generation in generations]
    positions = [
        generation.prompt.positions[..., generation.length - 1]
        for generation in generations
    ]
    # ids (rows, 1); positions (rows, 1), or (axes, rows, 1) if the network has several axes.
    request = ForwardRequest(
        torch.tensor(last_tokens, device=decoder.device),
        torch.stack(positions, dim=-1)[..., None],
        states,
        visible=visible,
    )
    logits, states = decoder.network.compute_logits(request)
    return logits[:, -1], states


def _read_generations(
    decoder: Decoder, generations: list[Generation], reuses_prefixes: bool
) -> tuple[torch.Tensor, States, torch.Tensor]:
    """Read the prompts and all tokens so far, rows of one length together, and join the rows with
    padding.

    Rows that are read together also have equally many positions of an image.

    Returns:
        Logits of shape (rows, vocabulary), the states, and which positions are not padding.
    """
    logits, parts = [], []
    for _, group in groupby(
        generations,
        key=lambda generation: (generation.length, generation.prompt.image_length),
    ):
        batch = list(group)
        prompts = [generation.prompt for generation in batch]
        batch_logits, states = _read_rows(
            decoder, prompts, [generation.tokens for generation in batch]
        )
        logits.append(batch_logits[:, -1])
        parts.append(states)
    if not reuses_prefixes:
        return torch.cat(logits), (), torch.empty(0)
    # Groups differ in length: their keys and values are padded in front to one length.
    return torch.cat(logits), *join_padded_rows(parts)


def _append_tokens(
    decoder: Decoder,
    generations: Sequence[Generation],
    logits: torch.Tensor,
    sampling: Sampling | None,
) -> None:
    """Append the next token of each generation, or end it; logits are of shape (rows, vocabulary)."""
    noise = None if sampling is None else _draw_noise(generations, logits)
    allowed_logits = _forbid_early_ends(decoder, generations, logits)
    precision = getattr(torch, decoder.spec.dtype)
    tokens, is_certain = choose_tokens(allowed_logits, sampling, noise, precision)
    uncertain = [row for row, certain in enumerate(is_certain) if not certain]
    if uncertain:
        # Rounding could decide between two tokens, so these rows are read alone, as if they were
        # not in a batch.
        alone = [generations[row] for row in uncertain]
        exact_logits = []
        for generation in alone:
            row_logits, _ = _read_rows(
                decoder, [generation.prompt], [generation.tokens]
            )
            exact_logits.append(row_logits[:, -1])
        exact_tokens, _ = choose_tokens(
            _forbid_early_ends(decoder, alone, torch.cat(exact_logits)),
            sampling,
            None if noise is None else noise[uncertain],
            precision,
        )
        for row, token in zip(uncertain, exact_tokens, strict=True):
            tokens[row] = token
    for generation, token in zip(generations, tokens, strict=True):
        generation.append(token, decoder.ends)


def _draw_noise(
    generations: Sequence[Generation], logits: torch.Tensor
) -> torch.Tensor:
    """Return standard Gumbel noise of each generation's random generator: float64 of the logits'
    shape.
    """
    # The numbers are those of the host's generators, one for each generation, so that a draw depends
    # neither on the device nor on the batch.
    rows = []
    for generation in generations:
        row = torch.rand(
            logits.shape[-1], generator=generation.generator, dtype=torch.float64
        )
        rows.append(row)
    uniform = torch.stack(rows)
    # -ln(-ln u): the highest logit plus noise is a draw from the softmax.
    tiny = torch.finfo(torch.float64).tiny
    return -torch.log(-torch.log(uniform.to(logits.device).clamp_min(tiny)))


def _forbid_early_ends(
    decoder: Decoder, generations: Sequence[Generation], logits: torch.Tensor
) -> torch.Tensor:
    """Return the logits, with end tokens at negative infinity in generations that are too short."""
    short_rows = []
    for row, generation in enumerate(generations):
        if len(generation.tokens) < generation.min_tokens:
            short_rows.append(row)
    if not short_rows or not decoder.ends:
        return logits
    allowed = logits.clone()
    # Of shape (rows, 1), so that each row has all end tokens.
    rows = torch.tensor(short_rows, device=logits.device)
    allowed[rows[:, None], sorted(decoder.ends)] = -torch.inf
    return allowed


def choose_tokens(
    logits: torch.Tensor,
    sampling: Sampling | None,
    noise: torch.Tensor | None,
    precision: torch.dtype = torch.float32,
) -> tuple[list[int], list[bool]]:
    """Return the next token of each row: the most likely token, or a token sampled by adding Gumbel
    noise to the logits.

    All is computed on the device of the logits; one transfer to the host brings the tokens.

    Args:
        logits: Of shape (rows, vocabulary); negative infinity for tokens that cannot be generated.
        sampling: Tokens that can be sampled; None takes the likeliest token.
        noise: Standard Gumbel noise, float64 of shape (rows, vocabulary), for samples.
        precision: Precision of the network, which may be lower than that of its logits.
    Returns:
        The tokens, and whether each is certain: rounding of the logits cannot have led to another
        token.
    Raises:
        UserError: A logit is not a number, or the highest one of a row is infinite.
    """
    # Rounding errors of logits grow with the largest of them: so many units in its last place.
    highest = logits.masked_fill(logits.isneginf(), 0).abs().amax(dim=-1)
    rounding = compute_relative_rounding(logits.dtype, precision) * highest.double()
    scores = logits.double()
    is_certain = torch.ones_like(rounding, dtype=torch.bool)
    if sampling is not None and noise is not None:
        scores = scores / sampling.temperature
        rounding = rounding / sampling.temperature
        candidates, is_certain = _keep_likeliest(scores, sampling, rounding)
        scores = candidates + noise

    # The choice is certain if the runner-up is further away than rounding could bring it.
    best = scores.topk(min(2, scores.shape[-1]))
    if scores.shape[-1] > 1:
        is_certain = is_certain & (best.values[:, 0] - best.values[:, 1] > rounding)
    # Tokens and both marks of all rows are one tensor, so that they are transferred together.
    is_finite = logits.amax(dim=-1).isfinite()
    columns = torch.stack([best.indices[:, 0], is_certain.long(), is_finite.long()])
    tokens, certain, finite = columns.tolist()
    if not all(finite):
        raise UserError(
            "the model's logits are not finite, so that no token is the likeliest; load it in dtype float32"
        )
    return tokens, [bool(value) for value in certain]


def compute_relative_rounding(*precisions: torch.dtype) -> float:
    """Return the rounding of logits as a share of the largest one, for the lowest precision in
    which they were computed.
    """
    return max(
        ROUNDING_UNITS[precision] * torch.finfo(precision).eps
        for precision in precisions
    )


def _keep_likeliest(
    scores: torch.Tensor, sampling: Sampling, rounding: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scores of the tokens that can be sampled, negative infinity for all others.

    Args:
        scores: Logits over the temperature, float64 of shape (rows, vocabulary).
        rounding: Differences of scores up to these may come from rounding, of shape (rows,).
    Returns:
        Scores of the same shape, and whether those of a row are certain: rounding cannot have
        changed the tokens to sample from.
    """
    vocabulary = scores.shape[-1]
    count = min(sampling.top_k or vocabulary, vocabulary)
    is_certain = torch.ones_like(rounding, dtype=torch.bool)
    if count == vocabulary and sampling.top_p >= 1:
        return scores, is_certain

    ranked, order = scores.sort(dim=-1, descending=True, stable=True)
    counts = torch.full_like(rounding, count, dtype=torch.int64)
    if sampling.top_p < 1:
        # The fewest likeliest tokens whose probability reaches top_p: those before it have less,
        # and one more.
        cumulated = torch.softmax(ranked[:, :count], dim=-1).cumsum(dim=-1)
        before = (cumulated < sampling.top_p).sum(dim=-1)
        counts = (1 + before).clamp(max=count)
        is_certain = (cumulated - sampling.top_p).abs().amin(dim=-1) > rounding
    # Distance of the last token that is kept from the first that is not.
    last = ranked.gather(-1, counts[:, None] - 1)[:, 0]
    following = counts.clamp(max=vocabulary - 1)
    distance = last - ranked.gather(-1, following[:, None])[:, 0]
    is_certain = is_certain & ((counts == vocabulary) | (distance > rounding))

    is_kept = torch.arange(vocabulary, device=scores.device) < counts[:, None]
    kept_scores = ranked.masked_fill(~is_kept, -torch.inf)
    return torch.empty_like(scores).scatter(-1, order, kept_scores), is_certain


def samples_text(decoder: Decoder) -> bool:
    """Return whether a model samples its explanations and chains of thought.

    The released code samples with every VL decoder, and with language models whose own generation
    settings sample.
    """
    if decoder.reads_images:
        return True
    settings = decoder.network.model.generation_config
    return settings is not None and bool(settings.do_sample)


def get_published_sampling(decoder: Decoder) -> Sampling:
    """Return the checkpoint's sampling settings, with the defaults of transformers 4 that the
    published code used.
    """
    settings = decoder.network.model.generation_config
    # A network without generation settings has the defaults.
    if settings is None:
        return Sampling(top_k=PUBLISHED_TOP_K)
    top_k = PUBLISHED_TOP_K if settings.top_k is None else int(settings.top_k)
    return Sampling(
        temperature=float(settings.temperature or 1.0),
        top_k=top_k,
        top_p=float(settings.top_p or 1.0),
    )
