"""States of masked texts that several images share."""

from typing import Any

import torch

from waltz.models.encoders.encoder import Encoder, States


class TextStatesCache:
    """An encoder that encodes each masked text once, for the explanations of several images with the same texts.

    All else is the encoder's own.
    """

    def __init__(self, encoder: Encoder) -> None:
        """Wrap an encoder."""
        self._encoder = encoder
        self._rows: dict[tuple[int, ...], States] = {}

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the encoder."""
        return getattr(self._encoder, name)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return the states of masked texts; see `encoder.Encoder`."""
        keys = [tuple(row) for row in ids.tolist()]
        new = [place for place, key in enumerate(keys) if key not in self._rows]
        if new:
            states = self._encoder.encode_text(ids[new])
            self._rows.update((keys[place], tuple(tensor[row] for tensor in states)) for row, place in enumerate(new))
        return tuple(torch.stack(tensors) for tensors in zip(*(self._rows[key] for key in keys), strict=True))
