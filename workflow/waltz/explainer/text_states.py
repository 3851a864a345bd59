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
        is_new = torch.tensor([key not in self._rows for key in keys])
        if is_new.any():
            new_ids = ids[is_new]
            states = self._encoder.encode_text(new_ids)
            for key, *row in zip(new_ids.tolist(), *states, strict=True):
                self._rows[tuple(key)] = tuple(row)
        rows = [self._rows[key] for key in keys]
        return tuple(map(torch.stack, zip(*rows, strict=True)))
