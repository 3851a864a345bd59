"""Shapley values of one modality as an array that knows its players, and as rows of a table."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from waltz.attribution.shapley.estimate import to_null
from waltz.core.text_diff import Span
from waltz.model_registry import ModelSpec

JsonRecord = dict[str, Any]
"""Fields of the record that `waltz explain --json` writes, or columns of a row of a table."""
STRONGEST_PAIRS = 5
"""Number of pairs of a text player and an image player that a summary names."""


class PlayerValues(np.ndarray):
    """Hold the Shapley values of one modality: a float64 array whose first axis is the players.

    The attributes belong to this array only; an array that is computed from it has None instead.

    Attributes:
        tokens: Spelling of each text player; None for the image.
        spans: First character and end of each text player in the text; an empty range for a special
            token.
        boxes: Left, top, right and bottom of each image player in pixels of the image that the
            model sees: int64 of shape (players, 4); None for the text.
    """

    tokens: tuple[str, ...] | None = None
    spans: tuple[tuple[int, int], ...] | None = None
    boxes: np.ndarray | None = None


def build_text_values(
    phi: np.ndarray, text: str, tokens: Sequence[str], spans: Sequence[Span]
) -> PlayerValues:
    """Return the values of text players, with their spellings and spans.

    A player that covers characters of the text is spelled as in the text, any other by its token.
    """
    values = np.asarray(phi, dtype=np.float64).view(PlayerValues)
    spelled_tokens = []
    for token, span in zip(tokens, spans, strict=True):
        characters = text[span["start"] : span["end"]].strip()
        spelled_tokens.append(characters or token)
    values.tokens = tuple(spelled_tokens)
    values.spans = tuple((span["start"], span["end"]) for span in spans)
    return values


def build_image_values(phi: np.ndarray, cells: np.ndarray | None) -> PlayerValues:
    """Return the values of image players, with their boxes.

    Args:
        cells: Number of the player of each pixel, of shape (height, width); None without an image.
    """
    values = np.asarray(phi, dtype=np.float64).view(PlayerValues)
    boxes = [_find_box(cells, player) for player in range(len(values))]
    values.boxes = np.array(boxes, dtype=np.int64).reshape(-1, 4)
    return values


def _find_box(cells: np.ndarray | None, player: int) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of the box around a player's pixels; zeros if it has no
    pixel.
    """
    if cells is None:
        return 0, 0, 0, 0
    rows, columns = np.nonzero(cells == player)
    if not len(rows):
        return 0, 0, 0, 0
    return (
        int(columns.min()),
        int(rows.min()),
        int(columns.max()) + 1,
        int(rows.max()) + 1,
    )


def name_image_players(count: int, grid: int, cells: np.ndarray | None) -> list[str]:
    """Return the names of image players: by row and column if they form a grid, else by number.

    Args:
        count: Number of image players.
        grid: Number of patches on a side of the profile's square grid; 0 for players that the user
            chose.
        cells: Number of the player of each pixel, of shape (height, width); None without an image.
    """
    columns = grid
    if not grid and cells is not None:
        columns = _count_columns(cells, count)
    if columns and count % columns == 0:
        return [
            f"patch {number // columns},{number % columns}" for number in range(count)
        ]
    return [f"region {number}" for number in range(count)]


def _count_columns(cells: np.ndarray, count: int) -> int:
    """Return the number of columns of the grid that image players form; 0 if they do not form a
    grid.
    """
    # In a grid, the first row of pixels belongs to players 0 to columns - 1, and each further row
    # of players has numbers that are larger by the number of columns.
    columns = int(cells[0].max()) + 1
    first_row = cells[0]
    first_column = cells[:, 0] // columns
    is_grid = np.array_equal(cells, first_column[:, None] * columns + first_row)
    if is_grid and first_column[-1] < count:
        return columns
    return 0


def list_rows(
    text: PlayerValues, image: PlayerValues, names: Sequence[str], **common: Any
) -> Iterator[JsonRecord]:
    """Yield a row for each player, or for each player and output: modality, name, value and
    position.

    Args:
        text: Values of the text players, of shape (players,) or (players, outputs).
        image: Values of the image players, with the same outputs.
        names: Names of the image players.
        common: Columns that all rows have.
    """
    # Modality, name and position of each player.
    players: list[tuple[str, str, dict[str, int]]] = []
    for token, (start, end) in zip(text.tokens or (), text.spans or (), strict=True):
        players.append(("text", token, {"start": start, "end": end}))
    boxes: list[list[int]] = []
    if image.boxes is not None:
        boxes = image.boxes.tolist()
    for name, (left, top, right, bottom) in zip(names, boxes, strict=True):
        players.append(
            (
                "image",
                name,
                {"left": left, "top": top, "right": right, "bottom": bottom},
            )
        )

    # (players, outputs)
    values = np.concatenate([np.asarray(text), np.asarray(image)]).reshape(
        len(players), -1
    )
    for output in range(values.shape[1]):
        columns = dict(common)
        if text.ndim > 1:
            columns["output"] = output
        for (modality, player, position), value in zip(
            players, values[:, output], strict=True
        ):
            yield {
                **columns,
                "modality": modality,
                "player": player,
                "phi": float(value),
                **position,
            }


def shorten_model_name(spec: ModelSpec) -> str:
    """Return the name of a model; for a model in a folder, the last part of its path."""
    if spec.revision in ("local", "loaded"):
        return Path(spec.name).name
    return spec.name


def describe_share(
    name: str, value: float, error: float = math.nan, reason: str | None = None
) -> str:
    """Return a share between 0 and 1 as text, in percent with its standard error; or the reason why
    it is undefined.
    """
    if math.isnan(value):
        return f"{name} not defined ({reason})"
    share = f"{name} {100 * value:.2f} %"
    if math.isnan(error):
        return share
    return f"{share} ± {100 * error:.2f}"


def describe_strongest_pairs(
    interactions: np.ndarray, tokens: Sequence[str], names: Sequence[str]
) -> str:
    """Return one line with the `STRONGEST_PAIRS` pairs of players that have the largest
    interactions.

    Args:
        interactions: Shapley interaction indices of shape (text players, image players).
        tokens: Names of the text players.
        names: Names of the image players.
    """
    # Ties keep the order of the players; NaN counts as 0. `order` holds positions in the flattened
    # array.
    magnitudes = np.abs(np.nan_to_num(interactions))
    order = np.argsort(-magnitudes, axis=None, kind="stable")
    pairs = []
    for position in order[:STRONGEST_PAIRS].tolist():
        text, image = np.unravel_index(position, interactions.shape)
        pairs.append(
            f"{tokens[text]} × {names[image]} {interactions[text, image]:+.3g}"
        )
    return "strongest pairs: " + ", ".join(pairs)


def record_interactions(
    interactions: np.ndarray | None, joint_share: float
) -> JsonRecord:
    """Return the fields of a JSON record about interactions; no fields if they were not requested."""
    if interactions is None:
        return {}
    # JSON has no NaN, so that numbers that are not finite become None.
    numbers = interactions.astype(object)
    numbers[~np.isfinite(interactions)] = None
    return {"joint_share": to_null(joint_share), "interactions": numbers.tolist()}
