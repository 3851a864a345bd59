"""Players of an encoder, which are text tokens and image patches, and the values of their
coalitions.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from waltz.models import games
from waltz.models.batch_size import BatchSize
from waltz.models.batches import run_in_halves
from waltz.models.encoders.encoder import (
    Encoder,
    HidingEncoder,
    States,
    TokenizedText,
)
from waltz.models.games import CoalitionValues, decode_masks

Outcome = Callable[[torch.Tensor], torch.Tensor]
"""Function from the logits of k coalitions, of shape (k,), to their explained values, of the same
shape.
"""
MAX_STATE_BYTES = 2**29
"""Maximum bytes of image states of early fusion that are kept for later rounds; further images are
encoded again.
"""
PUBLISHED_MASK = 0
"""Token id of a masked token in the published code, whatever it means to the model."""


@dataclass(frozen=True, eq=False, kw_only=True)
class EncoderPlayers(games.Players):
    """The players of one text and image of an encoder, text first; `cells` is of shape (height,
    width).

    Attributes:
        text_input: The text.
        hidden_image: What hidden pixels show, of the shape of the image; None for zero, which is
            the mean colour of training images in most prepared images.
    """

    text_input: TokenizedText
    hidden_image: torch.Tensor | None = None

    def mask_text(self, masks: np.ndarray) -> torch.Tensor:
        """Return the token ids of masked texts.

        Args:
            masks: Visible text players: bool of shape (k, text players).
        Returns:
            int64 of shape (k, length).
        """
        # (k, length): one row of ids for each coalition.
        ids = np.tile(np.asarray(self.text_input.ids, dtype=np.int64), (len(masks), 1))
        positions = np.asarray(self.positions, dtype=np.int64)
        visible = self.spread_text(masks | self.always_visible[: self.n_text_players])
        ids[:, positions] = np.where(visible, ids[:, positions], self.masked_id)
        return torch.from_numpy(ids)

    def mask_image(self, image: torch.Tensor, masks: np.ndarray) -> torch.Tensor:
        """Return masked images, whose hidden patches show `hidden_image`, or zero.

        Args:
            image: The prepared image, of shape (channels, height, width).
            masks: Visible image players: bool of shape (k, image players).
        Returns:
            Shape (k, channels, height, width).
        """
        visible = masks | self.always_visible[self.n_text_players :]
        # A last column of ones: pixels in no patch have this number in `cells`, and are always
        # visible.
        visible = np.concatenate(
            [visible, np.ones((len(masks), 1), dtype=bool)], axis=1
        )
        factors = torch.from_numpy(visible).to(image.device, image.dtype)
        # (k, 1, height, width): whether a pixel is visible.
        shown = factors[:, self.cells].unsqueeze(1)
        if self.hidden_image is None:
            return image * shown
        return torch.where(shown > 0, image, self.hidden_image)

    def can_mask_text(self) -> bool:
        """Return whether masking changes the text; False if every token is the masked token."""
        hidden = self.mask_text(np.zeros((1, self.n_text_players), dtype=bool))
        visible = self.mask_text(np.ones((1, self.n_text_players), dtype=bool))
        return not torch.equal(hidden, visible)

    def can_mask_image(self, image: torch.Tensor) -> bool:
        """Return whether masking changes the prepared image; False if every pixel has the masked
        value.
        """
        hidden = self.mask_image(image, np.zeros((1, self.n_image_players), dtype=bool))
        visible = self.mask_image(image, np.ones((1, self.n_image_players), dtype=bool))
        return not torch.equal(hidden, visible)


def build_published_players(
    encoder: Encoder, text: TokenizedText, image: torch.Tensor, grid: int | None = None
) -> EncoderPlayers:
    """Return the players of the published code: all ids, and patches of `side // p` pixels; other
    pixels stay visible.

    The first token is a player that is always visible, and so is the last if it is an end token:
    ALBEF has none.

    Args:
        encoder: The encoder.
        text: The text.
        image: The prepared image.
        grid: Patches in each direction; None for p = ceil(sqrt(n)) of n ids.
    Source:
        MM-SHAP's released scripts for CLIP, LXMERT and ALBEF; thesis 4.3 describes another mask.
    """
    n_ids = len(text.ids)
    grid = grid or math.ceil(math.sqrt(n_ids))
    always_visible = np.zeros(n_ids + grid**2, dtype=bool)
    # The start token is never masked, and the last one only if it is a word.
    always_visible[0] = True
    always_visible[n_ids - 1] |= text.special[-1]
    # Rounded down: pixels at the right and lower edge lie in no patch.
    edges = [length // grid * np.arange(grid + 1) for length in image.shape[-2:]]
    cells = _number_patches(edges, image, grid)
    return EncoderPlayers(
        text_input=text,
        positions=tuple(range(n_ids)),
        masked_id=PUBLISHED_MASK,
        grid=grid,
        cells=cells,
        always_visible=always_visible,
    )


def build_equations_players(
    encoder: Encoder, text: TokenizedText, image: torch.Tensor, grid: int | None = None
) -> EncoderPlayers:
    """Return the players of the thesis's definitions: no special tokens, every pixel in some patch.

    Args:
        encoder: The encoder.
        text: The text.
        image: The prepared image.
        grid: Patches in each direction; None for p = ceil(sqrt(n)).
    Source:
        Thesis 4.3: p = ceil(sqrt(n)), here with n the number of text players.
    """
    positions = tuple(
        position for position, special in enumerate(text.special) if not special
    )
    grid = grid or max(1, math.ceil(math.sqrt(len(positions))))
    # Rounded: patches differ by at most one pixel, and every pixel lies in one.
    edges = [
        np.round(np.linspace(0, length, grid + 1)).astype(int)
        for length in image.shape[-2:]
    ]
    return EncoderPlayers(
        text_input=text,
        positions=positions,
        masked_id=encoder.masked_id,
        grid=grid,
        cells=_number_patches(edges, image, grid),
        always_visible=np.zeros(len(positions) + grid**2, dtype=bool),
        hidden_image=encoder.hide_image(image)
        if isinstance(encoder, HidingEncoder)
        else None,
    )


PROFILES = {"published": build_published_players, "equations": build_equations_players}
"""Function that builds the players, by fidelity."""


def _number_patches(
    edges: list[np.ndarray], image: torch.Tensor, grid: int
) -> torch.Tensor:
    """Return for each pixel the number of its patch, or grid ** 2 if it lies in no patch.

    Args:
        edges: Edges of the rows of patches, then of their columns, in pixels; both of length grid +
            1.
        image: The prepared image.
        grid: Patches in each direction.
    Returns:
        int64 of shape (height, width).
    """
    cells = torch.full(
        tuple(image.shape[-2:]), grid**2, dtype=torch.int64, device=image.device
    )
    # Row by row, as image players are ordered.
    rows, columns = edges
    for patch in range(grid**2):
        row, column = divmod(patch, grid)
        cells[rows[row] : rows[row + 1], columns[column] : columns[column + 1]] = patch
    return cells


@dataclass(frozen=True, slots=True)
class _NewCoalitions:
    """Coalitions of one game whose values are to be computed.

    Attributes:
        game: Index of the game.
        keys: The coalitions, as bytes.
        text_rows: Row of each coalition's masked text among the states of the game's texts.
        images: Image players of each coalition, as bytes.
    """

    game: int
    keys: list[bytes]
    text_rows: list[int]
    images: list[bytes]

    def select(self, positions: list[int]) -> "_NewCoalitions":
        return _NewCoalitions(
            self.game,
            [self.keys[position] for position in positions],
            [self.text_rows[position] for position in positions],
            [self.images[position] for position in positions],
        )


class EncoderCoalitions(CoalitionValues[EncoderPlayers]):
    """The games of one image with its texts (caption, foil), and the values that are known so far.

    The inputs that are computed together depend on the requested coalitions only. So the first of
    two rounds gives exactly the numbers of a single round. Memory is bounded by the batch and by
    `MAX_STATE_BYTES`, except for the vector of each masked image of late fusion, the states of
    masked texts, and the values.

    Attributes:
        encoder: The model.
        image: The prepared image.
        image_count: Number of masked images that passed the encoder.
        text_count: Number of masked texts that passed the encoder.
        pair_count: Number of pairs of a masked image and a masked text that were fused.
    """

    def __init__(
        self,
        encoder: Encoder,
        image: torch.Tensor,
        players: Sequence[EncoderPlayers],
        outcome: Outcome,
    ) -> None:
        """Prepare the games, with no values known."""
        super().__init__(players, [1] * len(players))
        self.encoder, self.image = encoder, image
        self.image_count = self.text_count = self.pair_count = 0
        self._outcome = outcome
        self._texts = [_MaskedStates() for _ in players]
        device = encoder.device
        self._image_batch = BatchSize(device, encoder.images_per_batch)
        self._text_batch = BatchSize(device, encoder.texts_per_batch)
        self._pair_batch = BatchSize(device, encoder.pairs_per_batch)
        # Games with the same grid share their masked images.
        self._images = {game_players.grid: _MaskedStates() for game_players in players}

    def _evaluate(self, new: list[list[bytes]]) -> None:
        for grid, image_states in self._images.items():
            keys_of_grid = []
            for players, keys in zip(self.players, new, strict=True):
                keys_of_grid.append(keys if players.grid == grid else [])
            if any(keys_of_grid):
                self._evaluate_grid(image_states, grid, keys_of_grid)

    def _evaluate_grid(
        self, image_states: "_MaskedStates", grid: int, new: list[list[bytes]]
    ) -> None:
        """Add the values of new coalitions of the games with one grid."""
        coalitions = []
        for game, keys in enumerate(new):
            n_text = self.players[game].n_text_players
            # The key of a coalition is its text players, then its image players.
            text_rows = self._encode_texts(game, [key[:n_text] for key in keys])
            coalitions.append(
                _NewCoalitions(game, keys, text_rows, [key[n_text:] for key in keys])
            )
        if self.encoder.late:
            self._evaluate_late(image_states, grid, coalitions)
        else:
            self._evaluate_early(image_states, grid, coalitions)

    def _evaluate_late(
        self, image_states: "_MaskedStates", grid: int, coalitions: list[_NewCoalitions]
    ) -> None:
        """Add values of late fusion, and keep the vectors of all masked images, which are small."""
        missing = image_states.list_missing(_list_images(coalitions))
        for batch in self._image_batch.cut(missing):
            image_states.add(batch, self._encode_images(grid, batch))
        for of_game in coalitions:
            image_rows = [image_states.rows[image] for image in of_game.images]
            self._fuse(of_game, image_rows, image_states.states)

    def _evaluate_early(
        self, image_states: "_MaskedStates", grid: int, coalitions: list[_NewCoalitions]
    ) -> None:
        """Add values of early fusion, one batch of images after another, and keep their states up
        to `MAX_STATE_BYTES`.
        """
        images = _list_images(coalitions)
        missing = image_states.list_missing(images)
        stored = [image for image in images if image in image_states.rows]
        for batch in self._image_batch.cut(stored):
            self._fuse_images(coalitions, batch, image_states.select(batch))
        for batch in self._image_batch.cut(missing):
            states = self._encode_images(grid, batch)
            self._fuse_images(coalitions, batch, states)
            # States of an image encoder are large: beyond the limit they are computed again for
            # later rounds.
            if image_states.size + _count_bytes(states) <= MAX_STATE_BYTES:
                image_states.add(batch, states)

    def _fuse_images(
        self, coalitions: list[_NewCoalitions], images: Sequence[bytes], states: States
    ) -> None:
        """Add the values of the coalitions with some masked images, whose states are the rows of
        `states`.
        """
        row_of_image = {image: row for row, image in enumerate(images)}
        for of_game in coalitions:
            positions = [
                position
                for position, image in enumerate(of_game.images)
                if image in row_of_image
            ]
            selected = of_game.select(positions)
            self._fuse(
                selected, [row_of_image[image] for image in selected.images], states
            )

    def _encode_images(self, grid: int, images: Sequence[bytes]) -> States:
        """Return the states of some masked images."""
        players = next(players for players in self.players if players.grid == grid)
        masks = decode_masks(images, players.n_image_players)
        self.image_count += len(images)

        def encode(first: int, last: int) -> States:
            with self._image_batch.measure(last - first):
                return self.encoder.encode_image(
                    players.mask_image(self.image, masks[first:last])
                )

        return run_in_halves(encode, len(images), join_states)

    def _encode_texts(self, game: int, texts: list[bytes]) -> list[int]:
        """Return the rows of masked texts among the states of a game's texts, after encoding the
        missing ones.
        """
        players, text_states = self.players[game], self._texts[game]
        # Many coalitions share a masked text: each distinct text is encoded once in all rounds.
        missing = text_states.list_missing(list(dict.fromkeys(texts)))
        for batch in self._text_batch.cut(missing):
            ids = players.mask_text(decode_masks(batch, players.n_text_players)).to(
                self.encoder.device
            )

            def encode(first: int, last: int, ids: torch.Tensor = ids) -> States:
                with self._text_batch.measure(last - first):
                    return self.encoder.encode_text(ids[first:last])

            text_states.add(batch, run_in_halves(encode, len(batch), join_states))
            self.text_count += len(batch)
        return [text_states.rows[text] for text in texts]

    def _fuse(
        self, coalitions: _NewCoalitions, image_rows: list[int], image_states: States
    ) -> None:
        """Add the values of coalitions whose texts and images are encoded.

        Args:
            coalitions: The coalitions.
            image_rows: Row of each coalition's masked image among the states of images.
            image_states: States of images.
        """
        keys = coalitions.keys
        if not keys:
            return
        text_states = self._texts[coalitions.game].states
        # Row of each pair's text and image among the distinct states, both of shape (coalitions,).
        text_index = torch.tensor(coalitions.text_rows, device=self.encoder.device)
        image_index = torch.tensor(image_rows, device=self.encoder.device)
        first = 0
        while first < len(keys):
            last = min(first + self._pair_batch.limit, len(keys))

            def fuse(start: int, end: int, first: int = first) -> States:
                rows = slice(first + start, first + end)
                with self._pair_batch.measure(end - start):
                    text = _select_rows(text_states, text_index[rows])
                    image = _select_rows(image_states, image_index[rows])
                    return (self.encoder.fuse(text, image),)

            (logits,) = run_in_halves(fuse, last - first, join_states)
            # (last - first, 1): an encoder's game has one output.
            values = self._outcome(logits).double()[:, None]
            rows = [[key] for key in keys[first:last]]
            self._add_values(coalitions.game, rows, values)
            first = last
        self.pair_count += len(keys)


def _list_images(coalitions: list[_NewCoalitions]) -> list[bytes]:
    """Return the distinct masked images of coalitions, in their order."""
    images: dict[bytes, None] = {}
    for of_game in coalitions:
        images.update(dict.fromkeys(of_game.images))
    return list(images)


class _MaskedStates:
    """States of masked texts or images, in the order in which they were computed.

    Attributes:
        rows: Row of a mask among the states.
        size: Bytes of the states.
    """

    def __init__(self) -> None:
        self.rows: dict[bytes, int] = {}
        self.size = 0
        self._parts: list[States] = []
        # Of each row: the part that holds it, and its row there.
        self._locations: list[tuple[int, int]] = []

    def add(self, masks: Sequence[bytes], states: States) -> None:
        for row, mask in enumerate(masks):
            self.rows[mask] = len(self._locations)
            self._locations.append((len(self._parts), row))
        self._parts.append(states)
        self.size += _count_bytes(states)

    def list_missing(self, masks: Sequence[bytes]) -> list[bytes]:
        return [mask for mask in masks if mask not in self.rows]

    @property
    def states(self) -> States:
        """All states in one tensor; used for late fusion and texts, whose states are small."""
        if len(self._parts) > 1:
            # Joined once; later rows are appended as further parts.
            self._parts = [join_states(self._parts)]
            self._locations = [(0, row) for row in range(len(self._locations))]
        return self._parts[0]

    def select(self, masks: Sequence[bytes]) -> States:
        """Return the states of some masks, without a copy of the others."""
        rows = []
        for mask in masks:
            part, row = self._locations[self.rows[mask]]
            rows.append(tuple(tensor[row] for tensor in self._parts[part]))
        return tuple(torch.stack(tensors) for tensors in zip(*rows, strict=True))


def join_states(parts: Sequence[States]) -> States:
    """Return the states of consecutive batches as one."""
    return tuple(torch.cat(tensors) for tensors in zip(*parts, strict=True))


def _count_bytes(states: States) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in states)


def _select_rows(states: States, rows: torch.Tensor) -> States:
    return tuple(tensor.index_select(0, rows) for tensor in states)
