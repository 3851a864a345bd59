"""States of masked texts that several images share."""

from typing import Any

import torch

from waltz.models.encoders.encoder import Encoder, States


class TextStatesCache:
    """Wrap an encoder, so that it encodes each masked text once for several images with the same
    texts.

    All other methods and attributes come from the encoder.
    """

    def __init__(self, encoder: Encoder) -> None:
        """Begin without stored states."""
        self._encoder = encoder
        self._rows: dict[tuple[int, ...], States] = {}

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the encoder."""
        return getattr(self._encoder, name)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return the states of masked texts, of which only new ones are encoded; see
        `encoder.Encoder`.
        """
        # States are stored for each text: every tensor of a batch, (texts, ...), is cut into rows.
        keys = [tuple(row) for row in ids.tolist()]
        new_positions = [
            position for position, key in enumerate(keys) if key not in self._rows
        ]
        if new_positions:
            states = self._encoder.encode_text(ids[new_positions])
            for row, position in enumerate(new_positions):
                self._rows[keys[position]] = tuple(tensor[row] for tensor in states)
        rows = [self._rows[key] for key in keys]
        return tuple(torch.stack(tensors) for tensors in zip(*rows, strict=True))
