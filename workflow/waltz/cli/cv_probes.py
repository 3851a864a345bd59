"""CV-Probes' commands among `waltz people …`: plain captions written by people, and their plain images checked."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from waltz.benchmark.cv_probes import CHECK_COLUMNS, WRITTEN_COLUMNS
from waltz.benchmark.people.writing import Rows, export_caption_tasks, export_checks, import_captions, import_checks
from waltz.cli.people import refused, write_csv
from waltz.core.devices import lease_device
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.schema import CONDITIONS, PROBE_CAPTIONS, Layout
from waltz.foils.cv_probes.conditions import ranked_images
from waltz.foils.english.wordnet import read_verbs
from waltz.models.encoders import load_encoder
from waltz.models.encoders.late_fusion import compute_image_vector, compute_text_vector
from waltz.models.registry import ModelSpec
from waltz.models.resolve_name import detect_encoder_kind
from waltz.sources.images import load_image, open_images
from waltz.sources.raw_files import read_csv_records

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
        written = export_caption_tasks(_to_describe(captions), folder, image_prefix, seed, annotators)
    except UserError as error:
        raise refused(error) from None
    for path in written:
        typer.echo(path)


@app.command("import-captions")
def import_captions_command(results: Results, captions: Captions, output: Output, seed: Seed = 0) -> None:
    """Read the captions that people wrote; the column plain_image is then to be filled in."""
    try:
        returned = import_captions(results, _to_describe(captions), seed)
    except UserError as error:
        raise refused(error) from None
    rows = [
        {"image": row["image"], "annotator": row["annotator"], "caption": row["text"], "plain_image": ""}
        for row in returned.rows
    ]
    _write(output, WRITTEN_COLUMNS, rows, ("image", "annotator", "reason"), returned.skipped)
    typer.echo(f"{len(rows)} captions of {len({row['image'] for row in rows})} images: {output}")


@app.command("find-images")
def find_images_command(
    written: Annotated[Path, typer.Argument(help="CSV of written captions; its empty plain_image are filled in.")],
    images: Annotated[Path, typer.Option(help="Folder, zip or tar of images to choose from.")],
    model: Annotated[str, typer.Option(help="Hub id or folder of a CLIP, or of another encoder of late fusion.")],
    revision: Annotated[str, typer.Option(help="Full commit hash of the hub id.")] = "local",
) -> None:
    """Fill in the plain image of each caption: of those without a contextual verb, the one that CLIP likes best."""
    try:
        rows = [
            {name: row[name] for name in WRITTEN_COLUMNS}
            for _, row in read_csv_records(written, required=WRITTEN_COLUMNS)
        ]
        shown = {row["image"] for row in rows}
        with lease_device(0, 1) as device, open_images(images) as source:
            names = sorted({Path(path).name for paths in source.members.values() for path in paths} - shown)
            if not names:
                raise UserError(f"{images}: there is no image beside those of the captions; name another folder")
            spec = ModelSpec("retriever", kind=detect_encoder_kind(model, revision), weights=model, revision=revision)
            encoder = load_encoder(spec, device)
            if not encoder.late:
                raise UserError(f"{model}: a {spec.kind} gives no vectors of images; name an encoder of late fusion")
            vectors = np.stack([compute_image_vector(encoder, load_image(source, name)) for name in names])
            for row in rows:
                if not row["plain_image"]:
                    scores = vectors @ compute_text_vector(encoder, row["caption"])
                    row["plain_image"] = ranked_images(names, scores.tolist(), 1)[0][0]
    except UserError as error:
        raise refused(error) from None
    write_csv(written, WRITTEN_COLUMNS, rows)
    typer.echo(f"{len(rows)} captions with a plain image: {written}")


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
    _write(output, CHECK_COLUMNS, returned.rows, ("image", "caption", "annotator", "reason"), returned.skipped)
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
    write_csv(output.with_suffix(".skipped.csv"), lost, [{name: row[name] for name in lost} for row in left_out])
