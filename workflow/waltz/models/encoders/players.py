"""The players of an encoder: text tokens and image patches, under the rules of either profile."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from waltz.models import games
from waltz.models.encoders.encoder import Encoder, TokenizedText

PUBLISHED_MASK = 0
"""Token id of a masked token in the published code, whatever it means to the model."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Players(games.Players):
    """The players of one text and image of an encoder, text first; `cells` is of shape (height, width).

    Attributes:
        text_input: The text.
    """

    text_input: TokenizedText

    def mask_text(self, masks: np.ndarray) -> torch.Tensor:
        """Return the token ids of text masks: from bool (k, words) to int64 of shape (k, length)."""
        ids = np.tile(np.asarray(self.text_input.ids, dtype=np.int64), (len(masks), 1))
        positions = np.asarray(self.positions, dtype=np.int64)
        ids[:, positions] = np.where(masks | self.always_visible[: self.words], ids[:, positions], self.masked_id)
        return torch.from_numpy(ids)

    def mask_image(self, image: torch.Tensor, masks: np.ndarray) -> torch.Tensor:
        """Return the prepared image with patches set to zero: from bool (k, patches) to (k, *image.shape)."""
        seen = np.concatenate([masks | self.always_visible[self.words :], np.ones((len(masks), 1), dtype=bool)], axis=1)
        table = torch.from_numpy(seen).to(image.device, image.dtype)
        return image * table[:, self.cells].unsqueeze(1)


def build_published_players(encoder: Encoder, text: TokenizedText, image: torch.Tensor) -> Players:
    """Return the players of the published code: all ids, and patches of `side // p` pixels; other pixels stay visible.

    The first token is a player that nothing masks, and so is the last where it is an end token: ALBEF has none.

    Source:
        MM-SHAP's released scripts for CLIP, LXMERT and ALBEF; thesis 4.3 describes another mask.
    """
    grid = math.ceil(math.sqrt(len(text.ids)))
    always_visible = np.zeros(len(text.ids) + grid**2, dtype=bool)
    always_visible[0] = True
    always_visible[len(text.ids) - 1] |= text.special[-1]
    cells = _number_patches([side // grid * np.arange(grid + 1) for side in image.shape[-2:]], image, grid)
    return Players(
        text_input=text,
        positions=tuple(range(len(text.ids))),
        masked_id=PUBLISHED_MASK,
        grid=grid,
        cells=cells,
        always_visible=always_visible,
    )


def build_equations_players(encoder: Encoder, text: TokenizedText, image: torch.Tensor) -> Players:
    """Return the players of the thesis's definitions: no special tokens, every pixel in some patch.

    Source:
        Thesis 4.3: p = ceil(sqrt(n)), here with n the number of text players.
    """
    positions = tuple(position for position, special in enumerate(text.special) if not special)
    grid = max(1, math.ceil(math.sqrt(len(positions))))
    edges = [np.round(np.linspace(0, side, grid + 1)).astype(int) for side in image.shape[-2:]]
    return Players(
        text_input=text,
        positions=positions,
        masked_id=encoder.masked_id,
        grid=grid,
        cells=_number_patches(edges, image, grid),
        always_visible=np.zeros(len(positions) + grid**2, dtype=bool),
    )


PROFILES = {"published": build_published_players, "equations": build_equations_players}


def _number_patches(edges: list[np.ndarray], image: torch.Tensor, grid: int) -> torch.Tensor:
    """Return the patch number of each pixel, given the edges of rows and columns."""
    cells = torch.full(tuple(image.shape[-2:]), grid**2, dtype=torch.int64, device=image.device)
    rows, columns = edges
    for patch in range(grid**2):
        row, column = divmod(patch, grid)
        cells[rows[row] : rows[row + 1], columns[column] : columns[column + 1]] = patch
    return cells
