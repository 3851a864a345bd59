"""Players of an encoder, which are text tokens and image patches, and the values of their coalitions."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

from waltz.models import games
from waltz.models.batches import run_in_halves
from waltz.models.encoders.encoder import Encoder, States, TokenizedText
from waltz.models.games import CoalitionValues, join_rows

Row = TypeVar("Row")
Outcome = Callable[[torch.Tensor], torch.Tensor]
"""From logits of shape (k,) to the explained value of the same shape."""
MAX_STATE_BYTES = 2**29
"""Most bytes of image states of early fusion that stay for later rounds; images beyond are encoded again."""
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
        visible = self.spread_text(masks | self.always_visible[: self.words])
        ids[:, positions] = np.where(visible, ids[:, positions], self.masked_id)
        return torch.from_numpy(ids)

    def mask_image(self, image: torch.Tensor, masks: np.ndarray) -> torch.Tensor:
        """Return the prepared image with patches set to zero: from bool (k, patches) to (k, *image.shape)."""
        seen = np.concatenate([masks | self.always_visible[self.words :], np.ones((len(masks), 1), dtype=bool)], axis=1)
        table = torch.from_numpy(seen).to(image.device, image.dtype)
        return image * table[:, self.cells].unsqueeze(1)


def build_published_players(
    encoder: Encoder, text: TokenizedText, image: torch.Tensor, grid: int | None = None
) -> Players:
    """Return the players of the published code: all ids, and patches of `side // p` pixels; other pixels stay visible.

    The first token is a player that nothing masks, and so is the last where it is an end token: ALBEF has none.

    Args:
        grid: Patches a side; p = ceil(sqrt(n)) of n ids where None.
    Source:
        MM-SHAP's released scripts for CLIP, LXMERT and ALBEF; thesis 4.3 describes another mask.
    """
    grid = grid or math.ceil(math.sqrt(len(text.ids)))
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


def build_equations_players(
    encoder: Encoder, text: TokenizedText, image: torch.Tensor, grid: int | None = None
) -> Players:
    """Return the players of the thesis's definitions: no special tokens, every pixel in some patch.

    Args:
        grid: Patches a side; p where None.
    Source:
        Thesis 4.3: p = ceil(sqrt(n)), here with n the number of text players.
    """
    positions = tuple(position for position, special in enumerate(text.special) if not special)
    grid = grid or max(1, math.ceil(math.sqrt(len(positions))))
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


class Coalitions(CoalitionValues[Players]):
    """The games of one image with its texts (caption, foil), and the values that are known so far.

    Which inputs are computed together depends on the requested coalitions alone, so that the first of two rounds gives
    the very numbers of a budget of one. Memory is bounded by the batch and by `MAX_STATE_BYTES`, but for one vector for
    each masked image of late fusion, the states of masked texts, and the values.

    Attributes:
        encoder: The model.
        image: The prepared image.
        image_count: Masked images that passed the encoder.
        text_count: Masked texts that did.
        pair_count: Pairs of both that were fused.
    """

    def __init__(self, encoder: Encoder, image: torch.Tensor, players: Sequence[Players], outcome: Outcome) -> None:
        """Prepare the games, with no values known."""
        super().__init__(players, [1] * len(players))
        self.encoder, self.image = encoder, image
        self.image_count = self.text_count = self.pair_count = 0
        self._outcome = outcome
        self._texts = [_SideStates() for _ in players]
        self._images = {game.grid: _SideStates() for game in players}

    def _evaluate(self, new: list[list[bytes]]) -> None:
        for grid, side in self._images.items():
            of_grid = [keys if game.grid == grid else [] for game, keys in zip(self.players, new, strict=True)]
            if any(of_grid):
                self._evaluate_grid(side, grid, of_grid)

    def _evaluate_grid(self, side: "_SideStates", grid: int, new: list[list[bytes]]) -> None:
        """Add the values of new coalitions of the games with one grid, one batch of images after another."""
        words = [game.words for game in self.players]
        texts = [self._encode_texts(index, [key[: words[index]] for key in keys]) for index, keys in enumerate(new)]
        image_keys = [[key[words[index] :] for key in keys] for index, keys in enumerate(new)]
        distinct = list(dict.fromkeys(image_key for game_keys in image_keys for image_key in game_keys))
        waiting = [image_key for image_key in distinct if image_key not in side.rows]
        if self.encoder.late:
            for batch in cut_evenly(waiting, self.encoder.images_per_batch):
                side.add(batch, self._encode_images(grid, batch))
            for index, keys in enumerate(new):
                self._fuse(
                    index, keys, texts[index], [side.rows[image_key] for image_key in image_keys[index]], side.states
                )
            return
        encoded = [image_key for image_key in distinct if image_key in side.rows]
        batches = [(batch, True) for batch in cut_evenly(encoded, self.encoder.images_per_batch)]
        batches += [(batch, False) for batch in cut_evenly(waiting, self.encoder.images_per_batch)]
        for batch, has_states in batches:
            states = side.select(batch) if has_states else self._encode_images(grid, batch)
            rows = {image_key: row for row, image_key in enumerate(batch)}
            for index, keys in enumerate(new):
                places = [place for place, image_key in enumerate(image_keys[index]) if image_key in rows]
                images = [rows[image_keys[index][place]] for place in places]
                with_image = [keys[place] for place in places]
                self._fuse(index, with_image, [texts[index][place] for place in places], images, states)
            if not has_states and side.size + _count_bytes(states) <= MAX_STATE_BYTES:
                side.add(batch, states)

    def _encode_images(self, grid: int, image_keys: Sequence[bytes]) -> States:
        """Return the states of some masked images."""
        game = next(game for game in self.players if game.grid == grid)
        masks = join_rows(image_keys, game.patches)
        self.image_count += len(image_keys)
        return run_in_halves(
            lambda first, last: self.encoder.encode_image(game.mask_image(self.image, masks[first:last])),
            len(image_keys),
            join_states,
        )

    def _encode_texts(self, index: int, texts: list[bytes]) -> list[int]:
        """Return the rows of masked texts among the states of a game's texts, after encoding those that are new."""
        game, side = self.players[index], self._texts[index]
        waiting = [text for text in dict.fromkeys(texts) if text not in side.rows]
        for batch in cut_evenly(waiting, self.encoder.texts_per_batch):
            ids = game.mask_text(join_rows(batch, game.words)).to(self.encoder.device)

            def encode(first: int, last: int, ids: torch.Tensor = ids) -> States:
                return self.encoder.encode_text(ids[first:last])

            side.add(batch, run_in_halves(encode, len(batch), join_states))
            self.text_count += len(batch)
        return [side.rows[text] for text in texts]

    def _fuse(self, index: int, keys: list[bytes], texts: list[int], images: list[int], states: States) -> None:
        """Add the values of coalitions whose texts and images are encoded."""
        if not keys:
            return
        words = self._texts[index].states
        text, image = (torch.tensor(rows, device=self.encoder.device) for rows in (texts, images))
        for first in range(0, len(keys), self.encoder.pairs_per_batch):
            last = min(first + self.encoder.pairs_per_batch, len(keys))

            def logits(start: int, end: int, first: int = first) -> States:
                rows = slice(first + start, first + end)
                return (self.encoder.fuse(_select_rows(words, text[rows]), _select_rows(states, image[rows])),)

            values = self._outcome(run_in_halves(logits, last - first, join_states)[0]).double().cpu().numpy()
            self.known[index].update(zip(keys[first:last], values[:, None], strict=True))
            self.progress(last - first)
        self.pair_count += len(keys)


class _SideStates:
    """States of masked texts or images, in the order in which they were computed.

    Attributes:
        rows: Row of a mask among the states.
        size: Bytes of the states.
    """

    def __init__(self) -> None:
        self.rows: dict[bytes, int] = {}
        self.size = 0
        self._parts: list[States] = []
        self._places: list[tuple[int, int]] = []

    def add(self, masks: Sequence[bytes], states: States) -> None:
        self.rows.update(zip(masks, range(len(self.rows), len(self.rows) + len(masks)), strict=True))
        self._places += [(len(self._parts), row) for row in range(len(masks))]
        self._parts.append(states)
        self.size += _count_bytes(states)

    @property
    def states(self) -> States:
        """All states, in one piece: those of late fusion and of texts are small."""
        if len(self._parts) > 1:
            self._parts = [join_states(self._parts)]
            self._places = [(0, row) for row in range(len(self._places))]
        return self._parts[0]

    def select(self, masks: Sequence[bytes]) -> States:
        """Return the states of some masks, without a copy of the others."""
        places = [self._places[self.rows[mask]] for mask in masks]
        rows = [tuple(tensor[row] for tensor in self._parts[part]) for part, row in places]
        return tuple(torch.stack(tensors) for tensors in zip(*rows, strict=True))


def cut_evenly(rows: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    """Cut rows into as few batches of at most `size` as possible, all of about one length: a short rest is slow."""
    batches = math.ceil(len(rows) / size)
    for number in range(batches):
        yield rows[number * len(rows) // batches : (number + 1) * len(rows) // batches]


def join_states(parts: Sequence[States]) -> States:
    """Return the states of consecutive batches as one."""
    return tuple(torch.cat(tensors) for tensors in zip(*parts, strict=True))


def _count_bytes(states: States) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in states)


def _select_rows(states: States, rows: torch.Tensor) -> States:
    return tuple(tensor.index_select(0, rows) for tensor in states)
