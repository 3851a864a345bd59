"""The command `waltz models`: the registered models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from waltz.cli.output import create_console

if TYPE_CHECKING:
    from waltz.model_registry import ModelSpec

app = typer.Typer(add_completion=False, rich_markup_mode=None)


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
            spec.weights,
            spec.revision[:12],
            spec.note,
        )
    create_console().print(table)


def _render_size(spec: ModelSpec) -> str:
    return f"{spec.parameters / 1e6:,.0f} M" if spec.parameters else "unknown"
