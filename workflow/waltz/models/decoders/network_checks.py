"""Tests of the ways to read a network: with shared prefixes, in whole rows, or by its own forward
pass.

A way is used if it gives the logits of the network's own forward pass on test rows. Nothing is
concluded from the signature of the forward pass or from a version.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import torch

from waltz.core.errors import UserError
from waltz.models.decoders.network import (
    ForwardRequest,
    Network,
    OwnForward,
    RowImage,
    States,
    join_padded_rows,
    pad_front,
    select_rows,
)
from waltz.models.forward_checks import (
    FORWARD_ERRORS,
    LATER_TOKENS_SEEN,
    Reference,
    choose_probe_length,
    compute_reference,
    count_compared,
    draw_probe_ids,
    find_checked_length,
    read_alone,
    sees_last_token,
)
from waltz.models.pretrained import META, get_causal_window

OPTION_NAMES = ("attention_mask", "position_ids", "logits_to_keep", "use_cache")
"""Optional arguments of a forward pass, which are passed if it takes them."""
CACHE_NAMES = ("cache", "past_key_values")
"""Names of the argument for keys and values in the versions of transformers, newest first."""
PROBE_TOKENS = 12
"""Minimum number of tokens of a test row."""
PROBE_ROWS = 2
"""Number of test rows, which share no token."""
PADDED_TOKENS = 3
"""Number of tokens by which each test row is shorter than the row before it."""


@dataclass(frozen=True, eq=False)
class ProbeRows:
    """Test rows of one length.

    Attributes:
        ids: int64 of shape (rows, positions).
        positions: Positions as the network counts them, of shape (rows, positions) or (axes, rows,
            positions).
        images: The image of each row; empty without any.
        cuts: Positions at which a new stretch begins, in order.
        compared_count: Number of last positions whose logits are compared.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    images: Sequence[RowImage]
    cuts: Sequence[int]
    compared_count: int


def wrap_network(model: Any, device: str) -> Network:
    """Return a network of transformers that is read in the fastest way that gives the logits of its
    own forward pass.

    A network on the meta device has no values, so that nothing is tested.

    Raises:
        UserError: A token's logits depend on later tokens, so that a target would be read before it
            is predicted.
    """
    model = model.eval()
    if device == META:
        return Network(model, device, frozenset(OPTION_NAMES), False)
    probe = build_probe(model, device)
    with torch.inference_mode():
        # First what the forward pass takes and whether it is causal, on one short row.
        short_ids = probe.ids[:1, :PROBE_TOKENS]
        argument_names = find_options(model, {"input_ids": short_ids})
        if sees_last_token(
            model,
            short_ids,
            lambda ids: read_alone(model, argument_names, ids, PROBE_TOKENS),
        ):
            raise UserError(f"{type(model).__name__}: {LATER_TOKENS_SEEN}")

        # Then the ways to read it, from the slowest to the fastest: alone, rows together, prefixes
        # read once, padding.
        reference = compute_reference(
            model,
            lambda: read_alone(model, argument_names, probe.ids, probe.compared_count),
        )
        network = Network(
            model,
            device,
            argument_names,
            False,
            checked_length=find_checked_length(model.config),
        )
        fault = reference.find_fault(lambda: read_whole(network, probe))
        if fault:
            reason = f"several rows in one pass: {fault}"
            return OwnForward(
                model, device, argument_names, False, pads_rows=True, reason=reason
            )
        network = find_reusing(network, lambda: probe, reference)
        return replace(network, pads_rows=_can_pad(network, probe, reference))


def build_probe(model: Any, device: str) -> ProbeRows:
    """Return test rows of text, which are longer than the network's sliding windows if its maximum
    length allows it.
    """
    config = model.config.get_text_config(decoder=True)
    length = choose_probe_length(
        model.config, PROBE_TOKENS, get_causal_window(model.config)
    )
    ids = (
        draw_probe_ids(config.vocab_size, PROBE_ROWS * length)
        .reshape(PROBE_ROWS, length)
        .to(device)
    )
    positions = torch.arange(length, device=device).expand_as(ids)
    # Stretches of many tokens, of a few and of one, as coalitions and generations have them.
    cuts = [length // 2, length - PADDED_TOKENS, length - 1]
    return ProbeRows(
        ids, positions, (), cuts, count_compared(length, config.vocab_size)
    )


def find_options(model: Any, inputs: Mapping[str, torch.Tensor]) -> frozenset[str]:
    """Return the options that a forward pass takes; each option is tried alone."""
    values: dict[str, object] = {"logits_to_keep": 1, "use_cache": False}
    # Without these ids, masks and positions are those of an image.
    if "input_ids" in inputs:
        ids = inputs["input_ids"]
        values["attention_mask"] = torch.ones_like(ids)
        values["position_ids"] = torch.arange(ids.shape[1], device=ids.device)[None]
    return frozenset(
        name
        for name, value in values.items()
        if _is_taken(model, {**inputs, name: value})
    )


def _is_taken(model: Any, inputs: Mapping[str, object]) -> bool:
    try:
        model(**inputs)
    except torch.OutOfMemoryError:
        raise
    except FORWARD_ERRORS:
        return False
    return True


def read_whole(network: Network, probe: ProbeRows) -> torch.Tensor:
    """Return the logits of test rows that are read together."""
    request = ForwardRequest(
        probe.ids, probe.positions, last_count=probe.compared_count, images=probe.images
    )
    return network.compute_logits(request)[0]


def find_reusing(
    network: Network, build_rows: Callable[[], ProbeRows], reference: Reference
) -> Network:
    """Return a network that reads prefixes once if this gives the same logits, else the network
    with the reason why not.

    Args:
        build_rows: Returns the test rows of the reference, images embedded in the precision of the
            check.
    """
    faults = []
    names = [network.cache_name] if network.cache_name else CACHE_NAMES
    for name in names:
        reusing = replace(network, reuses_prefixes=True, cache_name=name)
        fault = reference.find_fault(partial(_read_in_stretches, reusing, build_rows))
        if not fault:
            return reusing
        faults.append(f"{name}: {fault}")
    reason = f"keys and values of a prefix cannot be used again ({'; '.join(faults)})"
    return replace(network, reuses_prefixes=False, cache_name="", reason=reason)


def _read_in_stretches(
    network: Network, build_rows: Callable[[], ProbeRows]
) -> torch.Tensor:
    """Return the logits of test rows that are read in stretches, from one cut to the next.

    The order of the rows changes at each cut, and a stretch of text is read twice, so that the
    logits would differ if a pass changed stored keys and values.
    """
    probe = build_rows()
    # Row of the probe that each row of the batch holds.
    rows = list(range(len(probe.ids)))
    states: States = ()
    stretches = []
    ends = [*probe.cuts, probe.ids.shape[1]]
    for start, stop in zip([0, *probe.cuts], ends, strict=True):
        rows = rows[::-1]
        # States are in the order of the last stretch, which is the reverse of this one's.
        past = select_rows(states, range(len(rows) - 1, -1, -1)) if start else None
        images = (
            _cut_images([probe.images[row] for row in rows], start, stop)
            if probe.images
            else []
        )
        ids = probe.ids[rows, start:stop]
        positions = probe.positions[..., rows, start:stop]
        request = ForwardRequest(ids, positions, past, stop - start, images)
        logits, states = network.compute_logits(request)
        if not images:
            logits, states = network.compute_logits(request)
        if not states or not states[0][0].numel():
            raise ValueError("no keys and values are returned")
        # In the order of the probe.
        stretches.append(logits[[rows.index(row) for row in range(len(rows))]])
    return torch.cat(stretches, dim=1)[:, -probe.compared_count :]


def _cut_images(images: Sequence[RowImage], start: int, stop: int) -> list[RowImage]:
    """Return the images that lie in a stretch, with their positions in it; no images if they lie
    elsewhere.
    """
    positions = list(chain.from_iterable(image.positions for image in images))
    if positions and not start <= min(positions) <= max(positions) < stop:
        return []
    return [_shift_image(image, -start) for image in images]


def _shift_image(image: RowImage, offset: int) -> RowImage:
    """Return an image whose positions are moved by an offset."""
    return replace(image, positions=[position + offset for position in image.positions])


def _can_pad(network: Network, probe: ProbeRows, reference: Reference) -> bool:
    """Return whether test rows of different lengths have the same logits when they are padded in
    front.
    """
    # Rows that are shorter by some tokens lack as many of the last logits.
    stops = [
        probe.compared_count - PADDED_TOKENS * row for row in range(len(probe.ids))
    ]
    expected = [
        logits[:stop] for logits, stop in zip(reference.logits, stops, strict=True)
    ]
    shorter = replace(reference, logits=torch.cat(expected))
    return not shorter.find_fault(lambda: _read_padded(network, probe))


def _read_padded(network: Network, probe: ProbeRows) -> torch.Tensor:
    """Return the logits of the padded rows, one row after another, at the positions that are
    compared.

    If the network uses keys and values again, the last token of a row is read in a second pass, as
    in a generation.
    """
    lengths = [
        probe.ids.shape[1] - PADDED_TOKENS * row for row in range(len(probe.ids))
    ]
    rows = [ids[:length] for ids, length in zip(probe.ids, lengths, strict=True)]
    positions = [
        row_positions[:length]
        for row_positions, length in zip(probe.positions, lengths, strict=True)
    ]

    # All of shape (rows, longest), with zeros in front of the shorter rows.
    padded_ids = torch.stack(pad_front(rows))
    padded_positions = torch.stack(pad_front(positions))
    visible = torch.stack(pad_front([torch.ones_like(row) for row in rows]))
    request = ForwardRequest(
        padded_ids, padded_positions, last_count=probe.compared_count, visible=visible
    )
    logits, _ = network.compute_logits(request)

    if network.reuses_prefixes:
        states = []
        for row, row_positions in zip(rows, positions, strict=True):
            beginning = ForwardRequest(row[None, :-1], row_positions[None, :-1])
            states.append(network.compute_logits(beginning)[1])
        joined_states, _ = join_padded_rows(states)
        last_token = ForwardRequest(
            padded_ids[:, -1:], padded_positions[:, -1:], joined_states, visible=visible
        )
        last_logits, _ = network.compute_logits(last_token)
        logits[:, -1] = last_logits[:, -1]

    # The first logits of a shorter row belong to padding or to positions that are not compared.
    return torch.cat(
        [row_logits[PADDED_TOKENS * row :] for row, row_logits in enumerate(logits)]
    )
