"""What is explained of the logits of target tokens, and the same for prompts as they are."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt

FIRST_STEP = "first-step-logit"
"""The published code's value for models that see: every target's logit where the first one is said."""
LIKE = 1.5
"""Prompts that are read together differ in length by at most this factor."""


def _log_probability(logits: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return at.double() - torch.logsumexp(logits.float(), dim=-1).double()


def _probability(logits: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return _log_probability(logits, at).exp()


def _logit(logits: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return at.double()


def _log_odds(logits: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """ln(q / (1 - q)), the rest of the vocabulary summed without the target, so that nothing cancels near 1."""
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


VALUES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "log-probability": _log_probability,
    "probability": _probability,
    "logit": _logit,
    "log-odds": _log_odds,
    FIRST_STEP: _logit,
}
"""Values by name: from logits (rows, targets, vocabulary) and those of the targets to float64 (rows, targets)."""


def said_before(targets: Sequence[int], value: str) -> tuple[int, ...]:
    """The targets that stand behind the prompt: all but the last, or none where only the first step counts."""
    return () if value == FIRST_STEP else tuple(targets[:-1])


def read_off(logits: torch.Tensor, targets: Sequence[int], value: str) -> np.ndarray:
    """The values of targets: float64 of shape (rows, targets).

    Args:
        logits: After the prompt and each of `said_before`, of shape (rows, steps, vocabulary).
        targets: Token ids.
        value: One of `VALUES`.
    """
    wanted = torch.tensor(targets, device=logits.device)
    if value == FIRST_STEP:
        return logits[:, 0, wanted].double().cpu().numpy()
    at = logits.gather(-1, wanted.expand(len(logits), -1)[..., None])[..., 0]
    return VALUES[value](logits, at).cpu().numpy()


@torch.inference_mode()
def scores(
    decoder: Decoder,
    prompts: Sequence[Prompt],
    images: Sequence[PreparedImage | None],
    targets: Sequence[Sequence[int]],
    value: str = "log-probability",
) -> list[np.ndarray]:
    """What a decoder gives to targets after prompts, each prompt read alone: float64 of shape (targets,) each.

    Args:
        decoder: A loaded decoder.
        prompts: Prompts.
        images: The prepared image of each, or None.
        targets: Token ids that follow each prompt; with `first-step-logit`, alternatives for its first one.
        value: One of `VALUES`.
    """
    found = []
    for prompt, picture, wanted in zip(prompts, images, targets, strict=True):
        layout = decoder.build_layout(prompt, picture)
        behind = said_before(wanted, value)
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
        found.append(read_off(logits, wanted, value)[0])
    return found


@torch.inference_mode()
def scores_after(decoder: Decoder, prompts: Sequence[Prompt], targets: Sequence[int], value: str) -> np.ndarray:
    """What a decoder gives to the same targets after each of some prompts without an image.

    Prompts of like length are read together, padded in front, so that a value depends on which prompts it is asked
    with, by rounding.

    Args:
        decoder: A loaded decoder.
        prompts: Prompts.
        targets: Token ids that follow each of them.
        value: One of `VALUES`.
    Returns:
        float64 of shape (prompts, targets).
    """
    behind = said_before(targets, value)
    found = np.empty((len(prompts), len(targets)))
    for batch in _of_like_length([len(prompt.ids) + len(behind) for prompt in prompts], decoder.positions_per_batch):
        rows = [torch.tensor([*prompts[place].ids, *behind]) for place in batch]
        followed = [decoder.build_layout(prompts[place], None).extend_positions(len(behind)) for place in batch]
        ids, visible = torch.stack(_padded(rows)), torch.stack(_padded([torch.ones_like(row) for row in rows]))
        positions = torch.stack(_padded(followed), dim=-2)
        logits, _ = decoder.network.compute_logits(
            ids.to(decoder.device), positions, last_count=len(behind) + 1, visible=visible.to(decoder.device)
        )
        found[batch] = read_off(logits, targets, value)
    return found


def _of_like_length(lengths: Sequence[int], positions: int) -> list[list[int]]:
    """Places of rows in batches, whose longest is at most `LIKE` times the shortest and fits into so many positions."""
    batches: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        longest = lengths[place]
        fits = batches and longest <= LIKE * lengths[batches[-1][0]] and longest * (len(batches[-1]) + 1) <= positions
        if fits:
            batches[-1].append(place)
        else:
            batches.append([place])
    return batches


def _padded(rows: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Rows with zeros in front, of one length."""
    longest = max(row.shape[-1] for row in rows)
    return [torch.nn.functional.pad(row, (longest - row.shape[-1], 0)) for row in rows]
