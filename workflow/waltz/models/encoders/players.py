"""Who plays: the text tokens and image patches of one input, under the rules of either profile."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from waltz.models.encoders.encoder import Encoder, Text

PUBLISHED_MASK = 0
"""Token id of a masked token in the published code, whatever it means to the model."""


@dataclass(frozen=True, eq=False)
class Players:
    """The players of one input, text first; a coalition is a row of booleans, true where a player takes part.

    Attributes:
        text: The text.
        positions: Position in the ids of each text player.
        masked_id: Id of a masked token.
        grid: Patches a side; there are grid x grid image players, row by row.
        cells: Number of the patch that each pixel lies in, int64 of shape (height, width); `grid ** 2` where none.
        kept: Of each player, whether its input stays whatever the coalition says, as that of special tokens does.
    """

    text: Text
    positions: tuple[int, ...]
    masked_id: int
    grid: int
    cells: torch.Tensor
    kept: np.ndarray

    @property
    def words(self) -> int:
        """Number of text players."""
        return len(self.positions)

    @property
    def patches(self) -> int:
        """Number of image players."""
        return self.grid**2

    def __len__(self) -> int:
        """Number of all players."""
        return self.words + self.patches

    def ids(self, masks: np.ndarray) -> torch.Tensor:
        """Token ids of text masks: from bool (k, words) to int64 of shape (k, length)."""
        ids = np.tile(np.asarray(self.text.ids, dtype=np.int64), (len(masks), 1))
        positions = np.asarray(self.positions, dtype=np.int64)
        ids[:, positions] = np.where(masks | self.kept[: self.words], ids[:, positions], self.masked_id)
        return torch.from_numpy(ids)

    def hidden(self, image: torch.Tensor, masks: np.ndarray) -> torch.Tensor:
        """The prepared image with patches set to zero: from bool (k, patches) to (k, *image.shape)."""
        seen = np.concatenate([masks | self.kept[self.words :], np.ones((len(masks), 1), dtype=bool)], axis=1)
        table = torch.from_numpy(seen).to(image.device, image.dtype)
        return image * table[:, self.cells].unsqueeze(1)


def published(encoder: Encoder, text: Text, image: torch.Tensor) -> Players:
    """The players of the published code: all ids, patches of `side // p` pixels, the rest of the pixels always visible.

    The first token is a player that nothing masks, and so is the last where it is an end token: ALBEF has none.

    Source:
        MM-SHAP's released scripts for CLIP, LXMERT and ALBEF; thesis 4.3 describes another mask.
    """
    grid = math.ceil(math.sqrt(len(text.ids)))
    kept = np.zeros(len(text.ids) + grid**2, dtype=bool)
    kept[0] = True
    kept[len(text.ids) - 1] |= text.special[-1]
    cells = _grid([side // grid * np.arange(grid + 1) for side in image.shape[-2:]], image, grid)
    return Players(text, tuple(range(len(text.ids))), PUBLISHED_MASK, grid, cells, kept)


def equations(encoder: Encoder, text: Text, image: torch.Tensor) -> Players:
    """The players of the thesis's definitions: no special tokens, every pixel in some patch.

    Source:
        Thesis 4.3: p = ceil(sqrt(n)), here with n the number of text players.
    """
    positions = tuple(position for position, special in enumerate(text.special) if not special)
    grid = max(1, math.ceil(math.sqrt(len(positions))))
    edges = [np.round(np.linspace(0, side, grid + 1)).astype(int) for side in image.shape[-2:]]
    kept = np.zeros(len(positions) + grid**2, dtype=bool)
    return Players(text, positions, encoder.masked_id, grid, _grid(edges, image, grid), kept)


PROFILES = {"published": published, "equations": equations}


def _grid(edges: list[np.ndarray], image: torch.Tensor, grid: int) -> torch.Tensor:
    """Numbers of the patches between edges of rows and columns."""
    cells = torch.full(tuple(image.shape[-2:]), grid**2, dtype=torch.int64, device=image.device)
    rows, columns = edges
    for patch in range(grid**2):
        row, column = divmod(patch, grid)
        cells[rows[row] : rows[row + 1], columns[column] : columns[column + 1]] = patch
    return cells
