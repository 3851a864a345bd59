"""The command `waltz models`: the registered models."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from waltz.cli.output import create_console
from waltz.core.files.resources import shorten_path

if TYPE_CHECKING:
    from waltz.model_registry import ModelSpec

app = typer.Typer(add_completion=False, rich_markup_mode=None)
MILLION = 1_000_000


@app.command()
def models_command() -> None:
    """List the models that a study can name."""
    from rich.table import Table

    from waltz.model_registry import load_registry, load_scene_models

    table = Table(
        "name", "kind", "parameters", "licence", "weights", "revision", "note"
    )
    for spec in (*load_registry().values(), *load_scene_models().values()):
        size = _render_size(spec)
        table.add_row(
            spec.name,
            spec.kind,
            size,
            spec.licence,
            _render_weights(spec),
            spec.revision[:12],
            spec.note,
        )
    create_console().print(table)


def _render_size(spec: ModelSpec) -> str:
    """Return the number of parameters, which a checkpoint on this machine states itself."""
    number = spec.parameters
    file = Path(spec.weights) / "model.safetensors"
    if not number and file.is_file():
        number = _count_parameters(file)
    if not number:
        return "unknown"
    if number < MILLION:
        return f"{number / 1000:,.0f} k"
    return f"{number / MILLION:,.0f} M"


def _count_parameters(file: Path) -> int:
    """Return the number of values in a safetensors file, from its header."""
    with file.open("rb") as checkpoint:
        # The first 8 bytes are the length of the header.
        size = int.from_bytes(checkpoint.read(8), "little")
        header = json.loads(checkpoint.read(size))
    header.pop("__metadata__", None)
    return sum(math.prod(tensor["shape"]) for tensor in header.values())


def _render_weights(spec: ModelSpec) -> str:
    """Return the weights of a model; those in the current folder by their short path."""
    if spec.revision == "local":
        return str(shorten_path(Path(spec.weights), Path.cwd()))
    return spec.weights
