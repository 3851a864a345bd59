"""The command `waltz models`: list of the load_registry models."""

import typer
from rich.table import Table

from waltz.cli.output import create_console
from waltz.model_registry import ModelSpec, load_registry

app = typer.Typer(add_completion=False)


@app.command()
def models_command() -> None:
    """List the models that a study can name."""
    table = Table("name", "kind", "parameters", "licence", "weights", "revision", "note")
    for spec in load_registry().values():
        size = _render_size(spec)
        table.add_row(spec.name, spec.kind, size, spec.licence, spec.weights, spec.revision[:12], spec.note)
    create_console().print(table)


def _render_size(spec: ModelSpec) -> str:
    return f"{spec.parameters / 1e6:,.0f} M" if spec.parameters else "unknown"
