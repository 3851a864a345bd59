"""Figures of decoders' answers above their explanations, from the files of the consistency stage.

Items without an edit: thesis 5.6, C.5, C.6, C.9, C.10, C.26, C.28, C.30, C.32. Before and after a counterfactual edit:
thesis 5.3, 5.4, C.13 to C.22.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.figure import Figure
from PIL import Image

from waltz.models.decoders.decoder import Decoder
from waltz.models.decoders.players import Players, build_equations_players, build_published_players
from waltz.models.visible_image import render_decoder_view
from waltz.reporting.figures.answer_and_explanation import ExplainedText, draw_answer_and_explanation
from waltz.reporting.figures.example_folders import NamedFigure, select_items

Row = Mapping[str, Any]
ImageWithPatches = tuple[np.ndarray, np.ndarray]
"""The image as a model sees it, RGB in [0, 1] of shape (height, width, 3), and the patch of each pixel."""
LoadImage = Callable[[str, Row], ImageWithPatches | None]
"""Returns the image as the model sees it, by data set and row of contributions; None without an image."""

POST_HOC, AFTER_EDIT = "post-hoc", "post-hoc-edited"
SIDES = ("answer", "explanation")
PLAYERS: Mapping[str, Callable[..., Players]] = {
    "equations": build_equations_players,
    "published": build_published_players,
}


@dataclass(frozen=True, eq=False)
class ExplanationTables:
    """Tables of the consistency stage for one decoder and data set.

    Attributes:
        contributions: Contributions, of the attribution layout.
        cc_shap: CC-SHAP values, of the layout `CC_SHAP`.
        edited: Edited items, of the layout `EDITED`; None in a study without edits.
        edited_contributions: Contributions to edited items, of the attribution layout.
    """

    contributions: pa.Table
    cc_shap: pa.Table
    edited: pa.Table | None = None
    edited_contributions: pa.Table | None = None


def draw_explanations(
    tables: Mapping[str, ExplanationTables], model: str, profile: str, n: int, seed: int, load_image: LoadImage
) -> Iterator[NamedFigure]:
    """Yield a figure for each kind of explanation of a few items.

    Args:
        tables: Tables by data set.
        model: Name of the decoder.
        profile: The fidelity profile.
        n: Largest number of items.
        seed: The study's seed.
        load_image: Returns the image as the decoder sees it.
    """
    contributions = {dataset: entry.contributions for dataset, entry in tables.items()}
    for number, (dataset, item_id) in enumerate(select_items(contributions, profile, n, seed), 1):
        rows = _index_by_setting(tables[dataset].contributions, item_id, profile)
        shaps = _select_rows(tables[dataset].cc_shap, item_id, profile)
        for kind in dict.fromkeys(setting.partition(":")[0] for setting in rows):
            sides = [rows[f"{kind}:{side}"] for side in SIDES]
            (shap,) = (row for row in shaps if (row["kind"], row["seed"]) == (kind, sides[0]["seed"]))
            title = f"{model}, {dataset}, {profile}: {item_id}, {kind}, {_format_cc_shap(shap)}"
            yield (
                f"{dataset}-{profile}-{number}-{kind}",
                title,
                _draw_item(dataset, title, [("", sides, shap)], load_image),
            )


def draw_edits(
    tables: Mapping[str, ExplanationTables], model: str, profile: str, n: int, seed: int, load_image: LoadImage
) -> Iterator[NamedFigure]:
    """Yield figures of a few items before and after an edit; the arguments are those of `draw_explanations`."""
    edited_contributions = {
        dataset: entry.edited_contributions
        for dataset, entry in tables.items()
        if entry.edited_contributions is not None
    }
    for number, (dataset, item_id) in enumerate(select_items(edited_contributions, profile, n, seed), 1):
        after = _index_by_setting(edited_contributions[dataset], item_id, profile)
        before = _index_by_setting(tables[dataset].contributions, item_id, profile)
        seed_of_item = after[f"{AFTER_EDIT}:answer"]["seed"]
        if f"{POST_HOC}:answer" not in before or (edited := tables[dataset].edited) is None:
            continue
        (shap,) = (
            row
            for row in _select_rows(tables[dataset].cc_shap, item_id, profile)
            if (row["kind"], row["seed"]) == (POST_HOC, seed_of_item)
        )
        (edit,) = (row for row in _select_rows(edited, item_id, profile) if row["seed"] == seed_of_item)
        generated_texts = {"answer": edit["edited_answer"], "explanation": edit["edited_explanation"]}
        parts = [
            ("", [before[f"{POST_HOC}:{side}"] for side in SIDES], shap),
            (f" with “{edit['inserted']}”", [after[f"{AFTER_EDIT}:{side}"] for side in SIDES], generated_texts),
        ]
        values = (shap["value"], edit["cc_shap"], edit["answer"], edit["explanation"])
        before_edit, after_edit, answer, explanation = map(_format_number, values)
        title = (
            f"{model}, {dataset}, {profile}: {item_id}, “{edit['inserted']}” inserted,"
            f" CC-SHAP {before_edit} → {after_edit}; moved: answer {answer}, explanation {explanation}"
        )
        yield f"{dataset}-{profile}-{number}-edit", title, _draw_item(dataset, title, parts, load_image)


def make_image_loader(decoder: Decoder | None, load: Callable[[str, str], Image.Image]) -> LoadImage:
    """Return a function that renders images as a decoder sees them.

    Args:
        decoder: The decoder; None for a language model.
        load: Returns an image of a data set by its name.
    """

    def load_image(dataset: str, row: Row) -> ImageWithPatches | None:
        if decoder is None or row["image"] is None or not row["grid"]:
            return None
        prepared = decoder.prepare_image(load(dataset, row["image"]))
        players = PLAYERS[row["profile"]](decoder, decoder.build_prompt(row["text"]), prepared, grid=row["grid"])
        return render_decoder_view(decoder, prepared, players)

    return load_image


def _draw_item(
    dataset: str, title: str, parts: Sequence[tuple[str, Sequence[Row], Row]], load_image: LoadImage
) -> Figure:
    """Draw answers and explanations; each part has a suffix of its names, rows, and generated texts."""
    sides, image = [], None
    for suffix, rows, generated_texts in parts:
        for name, row in zip(SIDES, rows, strict=True):
            view = load_image(dataset, row)
            image = view[0] if view is not None else image
            sides.append(
                _make_explained_text(name + suffix, generated_texts[name], row, None if view is None else view[1])
            )
    return draw_answer_and_explanation(sides, title, image)


def _make_explained_text(name: str, generated_text: str, row: Row, cells: np.ndarray | None) -> ExplainedText:
    return ExplainedText(
        name=name,
        generated_text=generated_text,
        prompt=row["text"],
        tokens=row["tokens"],
        spans=row["spans"],
        phi=np.array(row["phi"], dtype=np.float64),
        cells=cells,
        t_shap=None if cells is None else row["t_shap"],
        t_shap_se=None if cells is None else row["t_shap_se"],
    )


def _select_rows(table: pa.Table, item_id: str, profile: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.filter(
        (pc.field("item_id") == item_id) & (pc.field("profile") == profile)
    ).to_pylist()
    return rows


def _index_by_setting(table: pa.Table, item_id: str, profile: str) -> dict[str, dict[str, Any]]:
    return {row["setting"]: row for row in _select_rows(table, item_id, profile)}


def _format_cc_shap(row: Row) -> str:
    if row["value"] is None:
        return f"CC-SHAP not defined ({row['reason']})"
    error = "" if row["standard_error"] is None else f" ± {row['standard_error']:.3f}"
    return f"CC-SHAP {_format_number(row['value'])}{error}"


def _format_number(value: float | None) -> str:
    return "not defined" if value is None or math.isnan(value) else f"{value:.3f}".replace("-", "−")
