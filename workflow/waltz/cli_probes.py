"""CV-Probes' commands among `waltz people …`: plain captions written by people, and their plain images checked."""

from pathlib import Path
from typing import Annotated, Any

import typer

from waltz.benchmark.people.writing import (
    Rows,
    export_checks,
    export_writing,
    import_checks,
    import_writing,
)
from waltz.benchmark.probes import CHECKED, WRITTEN
from waltz.cli_people import refused, write_csv
from waltz.core import parquet
from waltz.core.errors import UserError
from waltz.core.schema import CONDITIONS, PROBE_CAPTIONS, Layout
from waltz.foils.wordnet import read_verbs

app = typer.Typer()

Captions = Annotated[
    Path, typer.Option(help="Contextual captions of the study, results/<study>/foils/cv-probes.parquet.")
]
Items = Annotated[Path, typer.Option(help="Items of the study, results/<study>/benchmark/cv-probes.parquet.")]
Folder = Annotated[Path, typer.Option(help="Where the task files go.")]
Prefix = Annotated[str, typer.Option(help="What stands before an image's name in its URL, final / included.")]
Results = Annotated[Path, typer.Argument(help="Folder of doccano's exports, one file a person.")]
Output = Annotated[Path, typer.Option(help="CSV to write; what is left out goes beside it.")]
Seed = Annotated[int, typer.Option(help="Seed of the tasks' names; the same for export and import.")]
Annotators = Annotated[int, typer.Option(help="Answers wanted for each image.")]


@app.command("export-captions")
def export_captions_command(
    captions: Captions, folder: Folder, image_prefix: Prefix, seed: Seed = 0, annotators: Annotators = 4
) -> None:
    """Write doccano's task: describe the images of CV-Probes without their verbs."""
    try:
        written = export_writing(_to_describe(captions), folder, image_prefix, seed, annotators)
    except UserError as error:
        raise refused(error) from None
    for path in written:
        typer.echo(path)


@app.command("import-captions")
def import_captions_command(results: Results, captions: Captions, output: Output, seed: Seed = 0) -> None:
    """Read the captions that people wrote; the column plain_image is then to be filled in."""
    try:
        returned = import_writing(results, _to_describe(captions), seed)
    except UserError as error:
        raise refused(error) from None
    rows = [
        {"image": row["image"], "annotator": row["annotator"], "caption": row["text"], "plain_image": ""}
        for row in returned.rows
    ]
    _write(output, WRITTEN, rows, ("image", "annotator", "reason"), returned.left_out)
    typer.echo(f"{len(rows)} captions of {len({row['image'] for row in rows})} images: {output}")


@app.command("export-checks")
def export_checks_command(
    items: Items, folder: Folder, image_prefix: Prefix, seed: Seed = 0, annotators: Annotators = 3
) -> None:
    """Write doccano's task: which captions describe a plain image? Plain ones shall, contextual ones shall not."""
    try:
        written = export_checks(_to_check(items), folder, image_prefix, seed, annotators)
    except UserError as error:
        raise refused(error) from None
    for path in written:
        typer.echo(path)


@app.command("import-checks")
def import_checks_command(results: Results, items: Items, output: Output, seed: Seed = 0) -> None:
    """Read what people answered about plain images."""
    try:
        returned = import_checks(results, _to_check(items), seed)
    except UserError as error:
        raise refused(error) from None
    _write(output, CHECKED, returned.rows, ("image", "caption", "annotator", "reason"), returned.left_out)
    typer.echo(f"{len(returned.rows)} answers: {output}")


def _to_describe(path: Path) -> Rows:
    verbs = read_verbs()
    images = {row["image"]: row["verb"] for row in _read(path, PROBE_CAPTIONS)}
    return [{"image": image, "verb": verbs[verb].base} for image, verb in images.items()]


def _to_check(path: Path) -> Rows:
    """Whole captions beside plain images, each once."""
    pairs = dict.fromkeys(
        (row["image"], row["caption"])
        for row in _read(path, CONDITIONS)
        if row["image_kind"] == "plain" and row["form"] == "original"
    )
    return [{"image": image, "caption": caption} for image, caption in pairs]


def _read(path: Path, layout: Layout) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = parquet.read(path, layout).to_pylist()
    return rows


def _write(output: Path, columns: tuple[str, ...], rows: Rows, lost: tuple[str, ...], left_out: Rows) -> None:
    write_csv(output, columns, rows)
    write_csv(output.with_suffix(".left-out.csv"), lost, [{name: row[name] for name in lost} for row in left_out])
