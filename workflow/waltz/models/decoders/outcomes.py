"""Outcomes: the explained values of target tokens, computed from logits, and scores of targets after prompts."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt

FIRST_STEP = "first-step-logit"
"""The outcome of the published code for models that read images: each target's logit where the first one stands."""
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
        logits: After the prompt and each of `said_before`, of shape (rows, steps, vocabulary).
        targets: Token ids.
        value: One of `VALUES`.
    """
    ids = torch.tensor(targets, device=logits.device)
    if value == FIRST_STEP:
        return logits[:, 0, ids].double().cpu().numpy()
    at = logits.gather(-1, ids.expand(len(logits), -1)[..., None])[..., 0]
    return OUTCOMES[value](logits, at).cpu().numpy()


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
        decoder: A loaded decoder.
        prompts: Prompts.
        images: The prepared image of each, or None.
        targets: Token ids that follow each prompt; with `first-step-logit`, alternatives for its first one.
        value: One of `VALUES`.
    """
    scores = []
    for prompt, picture, own_targets in zip(prompts, images, targets, strict=True):
        layout = decoder.build_layout(prompt, picture)
        behind = select_preceding_targets(own_targets, value)
        at = prompt.image_position if layout.block and prompt.image_position is not None else len(prompt.ids)
        ids = torch.tensor([[*prompt.ids[:at], *layout.block, *prompt.ids[at + 1 :], *behind]], device=decoder.device)
        embeds = None
        if picture is not None:
            embeds = decoder.network.embed(ids)
            embeds[0, [at + place for place in layout.features]] = decoder.encode_image(picture, picture.pixels[None])[
                0
            ].to(embeds.dtype)
        positions = layout.extend_positions(len(behind)).unsqueeze(-2)
        logits, _ = decoder.network.compute_logits(ids, positions, last_count=len(behind) + 1, embeddings=embeds)
        scores.append(compute_outcomes(logits, own_targets, value)[0])
    return scores


@torch.inference_mode()
def score_targets_in_batches(
    decoder: Decoder, prompts: Sequence[Prompt], targets: Sequence[int], value: str
) -> np.ndarray:
    """Return the outcomes of the same targets after each of several prompts without an image.

    Prompts of similar length are read together, padded in front, so that a value depends on the other prompts by
    rounding.

    Args:
        decoder: A loaded decoder.
        prompts: Prompts.
        targets: Token ids that follow each of them.
        value: One of `VALUES`.
    Returns:
        float64 of shape (prompts, targets).
    """
    behind = select_preceding_targets(targets, value)
    scores = np.empty((len(prompts), len(targets)))
    for batch in _batch_by_length([len(prompt.ids) + len(behind) for prompt in prompts], decoder.positions_per_batch):
        rows = [torch.tensor([*prompts[place].ids, *behind]) for place in batch]
        followed = [decoder.build_layout(prompts[place], None).extend_positions(len(behind)) for place in batch]
        ids, visible = torch.stack(_pad_front(rows)), torch.stack(_pad_front([torch.ones_like(row) for row in rows]))
        positions = torch.stack(_pad_front(followed), dim=-2)
        logits, _ = decoder.network.compute_logits(
            ids.to(decoder.device), positions, last_count=len(behind) + 1, visible=visible.to(decoder.device)
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
