"""Values of coalitions: one image with some texts, where no masked text, masked image or pair is computed twice."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from waltz.models.encoders.encoder import Encoder, States
from waltz.models.encoders.players import Players

Outcome = Callable[[torch.Tensor], torch.Tensor]
"""From logits of shape (k,) to the explained value of the same shape."""
Key = tuple[int, bytes]
"""A game (of a text) or a grid (of an image), with a mask of that side."""


class Coalitions:
    """The games of one image with its texts (caption, foil), and what is known of them so far.

    What is computed together depends on what is asked alone, so that a budget of two rounds gives, for the first, the
    very numbers of a budget of one.

    Attributes:
        encoder: The model.
        image: The prepared image.
        games: Players of each text.
        known: For each game, value by coalition (as bytes of what is left visible).
        looks: Masked images that passed the encoder.
        readings: Masked texts that did.
    """

    def __init__(self, encoder: Encoder, image: torch.Tensor, games: Sequence[Players], outcome: Outcome) -> None:
        """Prepare the games, with nothing known.

        Args:
            encoder: The model.
            image: What `encoder.image` made.
            games: Players of each text with this image.
            outcome: What is explained of a logit.
        """
        self.encoder, self.image, self.games = encoder, image, list(games)
        self.known: list[dict[bytes, float]] = [{} for _ in games]
        self.looks = self.readings = 0
        self._outcome = outcome
        self._texts: dict[Key, States] = {}
        self._images: dict[Key, States] = {}

    @torch.inference_mode()
    def values(self, asked: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The value of each coalition of each game.

        Args:
            asked: For each game, bool of shape (k, players).
        Returns:
            For each game, float64 of shape (k, 1).
        """
        wanted = [[row.tobytes() for row in masks | game.kept] for game, masks in zip(self.games, asked, strict=True)]
        new = {(index, key): None for index, keys in enumerate(wanted) for key in keys if key not in self.known[index]}
        self._evaluate(list(new))
        return [
            np.array([self.known[index][key] for key in keys], dtype=np.float64).reshape(-1, 1)
            for index, keys in enumerate(wanted)
        ]

    def _evaluate(self, pairs: list[tuple[int, bytes]]) -> None:
        """Add the values of new coalitions, image by image."""
        split = [((index, key[: self.games[index].words]), self._look(index, key)) for index, key in pairs]
        self._read([text for text, _ in split])
        by_image: dict[Key, list[int]] = {}
        for place, (_, image) in enumerate(split):
            by_image.setdefault(image, []).append(place)
        for images in _cut(list(by_image), self.encoder.images_per_batch):
            states = self._see(images)
            places = [place for image in images for place in by_image[image]]
            for game in range(len(self.games)):
                for batch in _cut([place for place in places if pairs[place][0] == game], self.encoder.pairs_per_batch):
                    text = _stacked([self._texts[split[place][0]] for place in batch])
                    logits = self.encoder.fuse(text, _stacked([states[split[place][1]] for place in batch]))
                    found = self._outcome(logits).double().cpu().tolist()
                    self.known[game].update({pairs[place][1]: value for place, value in zip(batch, found, strict=True)})

    def _look(self, index: int, key: bytes) -> Key:
        return self.games[index].grid, key[self.games[index].words :]

    def _read(self, texts: list[Key]) -> None:
        """Read the masked texts that are new; what is read stays, since it is small."""
        new = [text for text in dict.fromkeys(texts) if text not in self._texts]
        for index, game in enumerate(self.games):
            for batch in _cut([text for text in new if text[0] == index], self.encoder.texts_per_batch):
                ids = game.ids(_masks(batch, game.words)).to(self.encoder.device)
                self._texts.update(zip(batch, _rows(self.encoder.read(ids)), strict=True))
                self.readings += len(batch)

    def _see(self, images: list[Key]) -> dict[Key, States]:
        """See a batch of masked images; vectors of late fusion stay, states of patches are dropped."""
        new = [image for image in images if image not in self._images]
        found: dict[Key, States] = {image: self._images[image] for image in images if image in self._images}
        for grid in dict.fromkeys(grid for grid, _ in new):
            batch = [image for image in new if image[0] == grid]
            game = next(game for game in self.games if game.grid == grid)
            states = self.encoder.see(game.hidden(self.image, _masks(batch, game.patches)))
            found.update(zip(batch, _rows(states), strict=True))
            self.looks += len(batch)
        if self.encoder.late:
            self._images.update(found)
        return found


def _masks(keys: Sequence[Key], width: int) -> np.ndarray:
    return np.frombuffer(b"".join(mask for _, mask in keys), dtype=bool).reshape(len(keys), width)


def _rows(states: States) -> Iterator[States]:
    return zip(*states, strict=True)


def _stacked(rows: Sequence[States]) -> States:
    return tuple(torch.stack(parts) for parts in zip(*rows, strict=True))


def _cut(rows: list, size: int) -> Iterator[list]:  # type: ignore[type-arg]
    for first in range(0, len(rows), size):
        yield rows[first : first + size]
