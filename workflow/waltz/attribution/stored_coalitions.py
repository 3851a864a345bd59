"""Values of coalitions that are stored, so that a larger budget begins where a smaller one ended."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from waltz.core.files import result_cache
from waltz.models.games import pack_values, unpack_values


class StoredCoalitions:
    """The coalitions of one item's games in a folder of stored results."""

    def __init__(self, folder: Path, content: Mapping[str, Any]) -> None:
        """Name the item.

        Args:
            folder: Folder of stored results.
            content: Everything that decides the values but the number of evaluations; see `result_cache`.
        """
        self._folder, self._key = folder, result_cache.compute_key(**content)

    def load(self, games: int) -> list[dict[bytes, np.ndarray]]:
        """Return the stored values of each game by coalition; none where none are stored."""
        packed = [result_cache.load(self._folder, f"{self._key}-{game}") for game in range(games)]
        return [{} if values is None else unpack_values(values) for values in packed]

    def save(self, known_values: Sequence[Mapping[bytes, np.ndarray]]) -> None:
        """Store the values of each game that has any."""
        for game, values in enumerate(known_values):
            if values:
                result_cache.save(self._folder, f"{self._key}-{game}", pack_values(values))
