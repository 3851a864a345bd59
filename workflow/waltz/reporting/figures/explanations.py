"""Figures of decoders' answers above their explanations, from what stage consistency left.

Items as they are: thesis 5.6, C.5, C.6, C.9, C.10, C.26, C.28, C.30, C.32. Before and after a counterfactual edit:
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
"""What a model sees, RGB in [0, 1] of shape (height, width, 3), and the patch of each pixel."""
LoadImage = Callable[[str, Row], ImageWithPatches | None]
"""From a data set and a row of contributions to what the model saw, None where it saw nothing."""

POST_HOC, AFTER_EDIT = "post-hoc", "post-hoc-edited"
SIDES = ("answer", "explanation")
PLAYERS: Mapping[str, Callable[..., Players]] = {
    "equations": build_equations_players,
    "published": build_published_players,
}


@dataclass(frozen=True, eq=False)
class ExplanationTables:
    """What stage consistency left of one decoder on one data set.

    Attributes:
        contributions: Of the attribution layout.
        cc_shap: Of the layout `CC_SHAP`.
        edited: Of the layout `EDITED`; None where the study asks for no edits.
        edited_contributions: Of the attribution layout, of edited items.
    """

    contributions: pa.Table
    cc_shap: pa.Table
    edited: pa.Table | None = None
    edited_contributions: pa.Table | None = None


def draw_explanations(
    found: Mapping[str, ExplanationTables], model: str, profile: str, n: int, seed: int, see: LoadImage
) -> Iterator[NamedFigure]:
    """A figure for each kind of explanation of a few items.

    Args:
        found: By data set.
        model: Name of the decoder.
        profile: A fidelity profile.
        n: Most items.
        seed: The study's seed.
        see: What the decoder saw.
    """
    tables = {dataset: one.contributions for dataset, one in found.items()}
    for number, (dataset, item_id) in enumerate(select_items(tables, profile, n, seed), 1):
        rows = _index_by_setting(found[dataset].contributions, item_id, profile)
        shaps = _select_rows(found[dataset].cc_shap, item_id, profile)
        for kind in dict.fromkeys(setting.partition(":")[0] for setting in rows):
            of = [rows[f"{kind}:{side}"] for side in SIDES]
            (shap,) = (row for row in shaps if (row["kind"], row["seed"]) == (kind, of[0]["seed"]))
            title = f"{model}, {dataset}, {profile}: {item_id}, {kind}, {_format_cc_shap(shap)}"
            yield f"{dataset}-{profile}-{number}-{kind}", title, _draw_item(dataset, title, [("", of, shap)], see)


def draw_edits(
    found: Mapping[str, ExplanationTables], model: str, profile: str, n: int, seed: int, see: LoadImage
) -> Iterator[NamedFigure]:
    """Figures of a few items, each before and after the edit that changed the answer; arguments as above."""
    tables = {
        dataset: one.edited_contributions for dataset, one in found.items() if one.edited_contributions is not None
    }
    for number, (dataset, item_id) in enumerate(select_items(tables, profile, n, seed), 1):
        after = _index_by_setting(tables[dataset], item_id, profile)
        before = _index_by_setting(found[dataset].contributions, item_id, profile)
        seed_of_item = after[f"{AFTER_EDIT}:answer"]["seed"]
        if f"{POST_HOC}:answer" not in before or (edited := found[dataset].edited) is None:
            continue
        (shap,) = (
            row
            for row in _select_rows(found[dataset].cc_shap, item_id, profile)
            if (row["kind"], row["seed"]) == (POST_HOC, seed_of_item)
        )
        (moved,) = (row for row in _select_rows(edited, item_id, profile) if row["seed"] == seed_of_item)
        said = {"answer": moved["edited_answer"], "explanation": moved["edited_explanation"]}
        parts = [
            ("", [before[f"{POST_HOC}:{side}"] for side in SIDES], shap),
            (f" with “{moved['inserted']}”", [after[f"{AFTER_EDIT}:{side}"] for side in SIDES], said),
        ]
        values = (shap["value"], moved["cc_shap"], moved["answer"], moved["explanation"])
        before_edit, after_edit, answer, explanation = map(_format_number, values)
        title = (
            f"{model}, {dataset}, {profile}: {item_id}, “{moved['inserted']}” inserted,"
            f" CC-SHAP {before_edit} → {after_edit}; moved: answer {answer}, explanation {explanation}"
        )
        yield f"{dataset}-{profile}-{number}-edit", title, _draw_item(dataset, title, parts, see)


def make_image_loader(decoder: Decoder | None, load: Callable[[str, str], Image.Image]) -> LoadImage:
    """How to tell what a decoder saw.

    Args:
        decoder: The decoder; None for one that does not see.
        load: The image of a data set by its name.
    """

    def see(dataset: str, row: Row) -> ImageWithPatches | None:
        if decoder is None or row["image"] is None or not row["grid"]:
            return None
        picture = decoder.prepare_image(load(dataset, row["image"]))
        who = PLAYERS[row["profile"]](decoder, decoder.build_prompt(row["text"]), picture, grid=row["grid"])
        return render_decoder_view(decoder, picture, who)

    return see


def _draw_item(dataset: str, title: str, parts: Sequence[tuple[str, Sequence[Row], Row]], see: LoadImage) -> Figure:
    """Sides under each other: what their names end with, their rows, and what was said."""
    sides, image = [], None
    for ending, rows, said in parts:
        for name, row in zip(SIDES, rows, strict=True):
            looked = see(dataset, row)
            image = looked[0] if looked is not None else image
            sides.append(_make_explained_text(name + ending, said[name], row, None if looked is None else looked[1]))
    return draw_answer_and_explanation(sides, title, image)


def _make_explained_text(name: str, said: str, row: Row, cells: np.ndarray | None) -> ExplainedText:
    return ExplainedText(
        name=name,
        said=said,
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
