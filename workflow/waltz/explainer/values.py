"""Shapley values of one modality as an array that knows its players, and as rows of a table."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from waltz.attribution.shapley.estimate import to_null
from waltz.core.text_diff import Span
from waltz.model_registry import ModelSpec

STRONGEST_PAIRS = 5
"""Pairs of a text and an image player that a summary names."""


class PlayerValues(np.ndarray):
    """Shapley values of the players of one modality: a float64 array whose first axis is the players.

    Arrays that are computed from it have no players.

    Attributes:
        tokens: What each text player spells; None for the image.
        spans: First character and end of each text player in the text; an empty range for a special token.
        boxes: Left, top, right and bottom of each image player in pixels of the image that the model sees: int64 of
            shape (players, 4); None for the text.
    """

    tokens: tuple[str, ...] | None = None
    spans: tuple[tuple[int, int], ...] | None = None
    boxes: np.ndarray | None = None


def build_text_values(phi: np.ndarray, text: str, tokens: Sequence[str], spans: Sequence[Span]) -> PlayerValues:
    """Return the values of text players; a token that stands for characters is spelled as in the text."""
    values = np.asarray(phi, dtype=np.float64).view(PlayerValues)
    values.tokens = tuple(
        text[span["start"] : span["end"]].strip() or token for token, span in zip(tokens, spans, strict=True)
    )
    values.spans = tuple((span["start"], span["end"]) for span in spans)
    return values


def build_image_values(phi: np.ndarray, cells: np.ndarray | None) -> PlayerValues:
    """Return the values of image players.

    Args:
        cells: Number of the player that each pixel lies in, of shape (height, width); None without an image.
    """
    values = np.asarray(phi, dtype=np.float64).view(PlayerValues)
    values.boxes = np.array([_find_box(cells, player) for player in range(len(values))], dtype=np.int64).reshape(-1, 4)
    return values


def _find_box(cells: np.ndarray | None, player: int) -> tuple[int, int, int, int]:
    rows, columns = np.nonzero(cells == player) if cells is not None else (np.zeros(0), np.zeros(0))
    if not len(rows):
        return 0, 0, 0, 0
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


def name_image_players(count: int, grid: int, cells: np.ndarray | None) -> list[str]:
    """Return the names of image players: row and column of a grid, else numbers.

    Args:
        grid: Patches a side of the profile's square grid, 0 for players of the user's own.
        cells: Number of the player that each pixel lies in, of shape (height, width); None without an image.
    """
    columns = grid
    if not grid and cells is not None:
        width = int(cells[0].max()) + 1
        rows = cells[:, 0] // width
        columns = width if np.array_equal(cells, rows[:, None] * width + cells[0]) and rows[-1] < count else 0
    if columns and count % columns == 0:
        return [f"patch {number // columns},{number % columns}" for number in range(count)]
    return [f"region {number}" for number in range(count)]


def list_rows(text: PlayerValues, image: PlayerValues, names: Sequence[str], **common: Any) -> Iterator[dict[str, Any]]:
    """Yield a row for each player (and output, where there are several): modality, name, value and place.

    Args:
        text: Values of shape (players,) or (players, outputs).
        image: Values of the same number of outputs.
        names: Names of the image players.
        common: Columns that all rows have.
    """
    places: list[tuple[str, str, dict[str, int]]] = [
        ("text", token, {"start": start, "end": end})
        for token, (start, end) in zip(text.tokens or (), text.spans or (), strict=True)
    ]
    boxes = [] if image.boxes is None else image.boxes.tolist()
    places += [
        ("image", name, dict(zip(("left", "top", "right", "bottom"), box, strict=True)))
        for name, box in zip(names, boxes, strict=True)
    ]
    values = np.concatenate([np.asarray(text), np.asarray(image)]).reshape(len(places), -1)
    for output in range(values.shape[1]):
        numbered = common | ({"output": output} if text.ndim > 1 else {})
        for (modality, player, place), value in zip(places, values[:, output], strict=True):
            yield {**numbered, "modality": modality, "player": player, "phi": float(value), **place}


def shorten_model_name(spec: ModelSpec) -> str:
    """Return the name of a model, of a folder its last part."""
    return Path(spec.name).name if spec.revision in ("local", "loaded") else spec.name


def describe_share(name: str, value: float, error: float = math.nan, reason: str | None = None) -> str:
    """Return a share between 0 and 1 in percent, with its standard error, or why there is none."""
    if math.isnan(value):
        return f"{name} not defined ({reason})"
    return f"{name} {100 * value:.2f} %" + ("" if math.isnan(error) else f" ± {100 * error:.2f}")


def describe_strongest_pairs(interactions: np.ndarray, tokens: Sequence[str], names: Sequence[str]) -> str:
    """Return the `STRONGEST_PAIRS` pairs of a text and an image player whose interactions are largest, on one line.

    Args:
        interactions: Of shape (text players, image players).
        tokens: Names of the text players.
        names: Names of the image players.
    """
    order = np.argsort(-np.abs(np.nan_to_num(interactions)), axis=None, kind="stable")[:STRONGEST_PAIRS]
    pairs = [np.unravel_index(place, interactions.shape) for place in order.tolist()]
    return "strongest pairs: " + ", ".join(
        f"{tokens[text]} × {names[image]} {interactions[text, image]:+.3g}" for text, image in pairs
    )


def record_interactions(interactions: np.ndarray | None, joint_share: float) -> dict[str, Any]:
    """Return the fields of a JSON record that interactions have; none where they were not requested."""
    if interactions is None:
        return {}
    numbers = interactions.astype(object)
    numbers[~np.isfinite(interactions)] = None
    return {"joint_share": to_null(joint_share), "interactions": numbers.tolist()}
