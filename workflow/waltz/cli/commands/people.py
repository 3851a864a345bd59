"""The commands `waltz people ...`: task files for annotators, and their answers; the last five are
of CV-Probes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waltz.cli.output import write_csv
from waltz.core.errors import UserError

if TYPE_CHECKING:
    from waltz.benchmark.people.writing import Rows
    from waltz.benchmark.votes import AnnotatorQuality
    from waltz.core.schema import ItemRecord

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Let people validate a benchmark.",
)

Items = Annotated[
    Path,
    typer.Option(help="Parquet file of an instrument in results/<study>/benchmark."),
]
Platform = Annotated[str, typer.Option(help="One of mturk, label-studio, doccano.")]
Folder = Annotated[Path, typer.Option(help="Folder for the task files.")]
ImagePrefix = Annotated[
    str,
    typer.Option(
        help="Text before an image's name in its URL, including the final /; by default the address"
        " of python -m http.server 8765 --directory IMAGES, for annotators on this machine."
    ),
]
PORT = 8765
"""Port of the images; doccano and Label Studio have 8000 and 8080."""
SERVER = f"http://localhost:{PORT}/"
"""Address of the images for annotators on this machine."""
Seed = Annotated[
    int,
    typer.Option(
        help="Seed of the order of tasks and captions; the same for export and import."
    ),
]
Annotators = Annotated[int, typer.Option(help="Number of answers for each item.")]
Output = Annotated[
    Path,
    typer.Option(help="CSV to write; skipped answers go to a second file next to it."),
]
Exports = Annotated[
    Path, typer.Argument(help="Folder of doccano's exports, one file per person.")
]
Captions = Annotated[
    Path,
    typer.Option(
        help="Contextual captions of the study, results/<study>/foils/cv-probes.parquet."
    ),
]
ProbeItems = Annotated[
    Path,
    typer.Option(
        "--items",
        help="Items of the study, results/<study>/benchmark/cv-probes.parquet.",
    ),
]


@app.command("export")
def export_command(
    items: Items,
    platform: Platform,
    folder: Folder,
    image_prefix: ImagePrefix = SERVER,
    seed: Seed = 0,
    annotators: Annotators = 3,
) -> None:
    """Write the task files of a benchmark's kept items."""
    from waltz.benchmark.people.platforms import export_tasks

    # Rejected candidates are in the file as well; people see only items.
    kept_items = [item for item in _read_benchmark(items) if item.kept]
    files = export_tasks(kept_items, platform, folder, image_prefix, seed, annotators)
    _list_files(files)


@app.command("import")
def import_command(
    results: Annotated[
        list[Path],
        typer.Argument(
            help="Files of results; for doccano a folder with one file per person."
        ),
    ],
    items: Items,
    platform: Platform,
    output: Output,
    seed: Seed = 0,
    annotators: Annotators = 3,
    valid_votes: Annotated[
        int, typer.Option(help="Votes for the caption that make an item valid.")
    ] = 2,
    gold: Annotated[
        Path | None,
        typer.Option(help="Text file with the id of a gold item in each line."),
    ] = None,
    drop_poor: Annotated[
        bool, typer.Option(help="Skip annotators who fail on the gold items.")
    ] = False,
) -> None:
    """Read a platform's results and report their quality."""
    from waltz.benchmark import votes
    from waltz.benchmark.people.platforms import import_annotations

    if drop_poor and gold is None:
        raise UserError(
            "--drop-poor needs --gold, the ids of items whose caption is known to be right"
        )
    benchmark = _read_benchmark(items)
    imported = import_annotations(results, platform, benchmark, seed)
    gold_ids: set[str] = set()
    if gold:
        gold_ids = _read_gold_ids(gold, {item.item_id for item in benchmark})
    annotations = imported.annotations
    # Answers may be skipped by the import, and below because their annotator is unreliable.
    skipped = list(imported.skipped)
    poor_annotators = _print_annotators(
        votes.compute_annotator_quality(annotations, gold_ids)
    )
    if drop_poor:
        reason = f"the annotator prefers less than {votes.MIN_PREFERRED_SHARE:.0%} of gold captions"
        annotations, dropped = votes.drop_annotators(
            annotations, poor_annotators, reason
        )
        skipped += dropped
    _write_answers(
        output,
        votes.ANNOTATION_COLUMNS,
        list(map(asdict, annotations)),
        ("item_id", "annotator", "reason"),
        list(map(asdict, skipped)),
    )

    # Agreement and votes are reported on the answers that are left.
    kept_ids = {item.item_id for item in benchmark if item.kept}
    incomplete = votes.count_missing_answers(annotations, kept_ids, annotators)
    agreement = votes.compute_agreement(annotations)
    alpha = f"no alpha: {agreement.alpha.reason}"
    if agreement.alpha.value is not None:
        alpha = f"alpha {agreement.alpha.value:.3f}"
    counted_votes = votes.count_votes(annotations, valid_votes).values()
    valid = sum(vote.valid for vote in counted_votes)
    typer.echo(
        f"{len(annotations)} answers to {agreement.items} items, {len(skipped)} skipped; {alpha}"
    )
    typer.echo(
        f"{valid} items valid, {agreement.unanimous} unanimous; {len(incomplete)} items lack answers"
    )


def _print_annotators(records: Iterable[AnnotatorQuality]) -> list[str]:
    """Print for each annotator the share of gold captions preferred, and return the names of
    unreliable annotators.
    """
    poor_annotators = []
    for record in records:
        share = "no gold item"
        if record.share is not None:
            share = (
                f"{record.share:.0%} of {record.gold_answers} gold captions preferred"
            )
        if record.reliable is False:  # None where there is no gold item
            share += ", too few"
            poor_annotators.append(record.annotator)
        typer.echo(f"annotator {record.annotator}: {record.answers} answers, {share}")
    return poor_annotators


@app.command("export-captions")
def export_captions_command(
    captions: Captions,
    folder: Folder,
    image_prefix: ImagePrefix = SERVER,
    seed: Seed = 0,
    annotators: Annotators = 4,
) -> None:
    """Write doccano's task: describe the images of CV-Probes without their verbs."""
    from waltz.benchmark.people.writing import CAPTION_TASK, export_doccano_task

    rows = _read_images_to_describe(captions)
    files = export_doccano_task(
        CAPTION_TASK, rows, folder, image_prefix, seed, annotators
    )
    _list_files(files)


@app.command("import-captions")
def import_captions_command(
    results: Exports, captions: Captions, output: Output, seed: Seed = 0
) -> None:
    """Read the captions that people wrote; plain_image and simplified are still empty."""
    from waltz.benchmark.cv_probes import SIMPLIFIED_COLUMN, WRITTEN_COLUMNS
    from waltz.benchmark.people.writing import import_captions

    imported = import_captions(results, _read_images_to_describe(captions), seed)
    # plain_image and simplified stay empty here; people or `find-images` fill them in.
    columns = (*WRITTEN_COLUMNS, SIMPLIFIED_COLUMN)
    skipped_columns = ("image", "annotator", "reason")
    _write_answers(output, columns, imported.rows, skipped_columns, imported.skipped)
    images = {row["image"] for row in imported.rows}
    typer.echo(f"{len(imported.rows)} captions of {len(images)} images: {output}")


@app.command("find-images")
def find_images_command(
    written: Annotated[
        Path,
        typer.Argument(
            help="CSV of written captions; empty cells of plain_image are filled in."
        ),
    ],
    images: Annotated[
        Path, typer.Option(help="Folder, zip or tar of images to choose from.")
    ],
    model: Annotated[
        str,
        typer.Option(
            help="Hub id or folder of a CLIP, or of another encoder of late fusion."
        ),
    ],
    revision: Annotated[
        str, typer.Option(help="Full commit hash of the hub id.")
    ] = "local",
) -> None:
    """Fill in the plain image of each caption: the image without a contextual verb to which CLIP
    gives most.
    """
    from waltz.benchmark.cv_probes import SIMPLIFIED_COLUMN, WRITTEN_COLUMNS

    rows = _read_written_captions(written)
    _fill_in_images(rows, images, model, revision)
    write_csv(written, (*WRITTEN_COLUMNS, SIMPLIFIED_COLUMN), rows)
    typer.echo(f"{len(rows)} captions with a plain image: {written}")


@app.command("export-checks")
def export_checks_command(
    items: ProbeItems,
    folder: Folder,
    image_prefix: ImagePrefix = SERVER,
    seed: Seed = 0,
    annotators: Annotators = 3,
) -> None:
    """Write doccano's task: which captions describe a plain image? Plain ones shall, contextual
    ones shall not.
    """
    from waltz.benchmark.people.writing import CHECK_TASK, export_doccano_task

    rows = _read_images_to_check(items)
    files = export_doccano_task(
        CHECK_TASK, rows, folder, image_prefix, seed, annotators
    )
    _list_files(files)


@app.command("import-checks")
def import_checks_command(
    results: Exports, items: ProbeItems, output: Output, seed: Seed = 0
) -> None:
    """Read the answers of people about plain images."""
    from waltz.benchmark.cv_probes import CHECK_COLUMNS
    from waltz.benchmark.people.writing import import_checks

    imported = import_checks(results, _read_images_to_check(items), seed)
    columns = ("image", "caption", "annotator", "reason")
    _write_answers(output, CHECK_COLUMNS, imported.rows, columns, imported.skipped)
    typer.echo(f"{len(imported.rows)} answers: {output}")


def _list_files(files: Sequence[Path]) -> None:
    for path in files:
        typer.echo(path)


def _read_benchmark(path: Path) -> list[ItemRecord]:
    from waltz.core.records import read_records
    from waltz.core.schema import ItemRecord

    if not path.is_file():
        raise UserError(
            f"{path}: no such file; build the benchmark, or name one of results/<study>/benchmark"
        )
    return list(read_records(path, ItemRecord))


def _read_gold_ids(path: Path, item_ids: set[str]) -> set[str]:
    """Return the ids of gold items in a text file with one id in each line.

    Raises:
        UserError: The file cannot be read, or an id is not in the benchmark.
    """
    from waltz.sources.raw_files import read_text_lines

    gold_ids = {line.strip() for line in read_text_lines(path)} - {""}
    unknown = sorted(gold_ids - item_ids)
    if unknown:
        raise UserError(
            f"{path}: item {unknown[0]!r} is not in the benchmark; remove the line"
        )
    return gold_ids


def _read_images_to_describe(path: Path) -> Rows:
    from waltz.core.records import read_records
    from waltz.core.schema import ProbeCaptionRecord
    from waltz.foils.english.wordnet import read_swig_verbs

    verbs = read_swig_verbs()
    captions_by_image: dict[tuple[str, str], dict[str, None]] = {}
    for record in read_records(path, ProbeCaptionRecord):
        # A dict instead of a list: each caption of an image is shown once, in order.
        captions = captions_by_image.setdefault((record.image, record.verb), {})
        if record.caption:
            captions[record.caption] = None
    return [
        {"image": image, "verb": verbs[verb].base, "captions": "\n".join(captions)}
        for (image, verb), captions in captions_by_image.items()
    ]


def _read_images_to_check(path: Path) -> Rows:
    """Return each pair of a plain image and an original caption once."""
    from waltz.core.records import read_records
    from waltz.core.schema import ProbeRecord

    rows: dict[tuple[str, str], dict[str, str]] = {}
    for record in read_records(path, ProbeRecord):
        # Simplified captions are derived from original ones, so only the latter are checked.
        if record.image_kind == "plain" and record.form == "original":
            row = {"image": record.image, "caption": record.caption}
            rows[record.image, record.caption] = row
    return list(rows.values())


def _read_written_captions(path: Path) -> Rows:
    from waltz.benchmark.cv_probes import SIMPLIFIED_COLUMN, WRITTEN_COLUMNS
    from waltz.sources.raw_files import read_csv_records

    return [
        {name: row.get(name, "") for name in (*WRITTEN_COLUMNS, SIMPLIFIED_COLUMN)}
        for _, row in read_csv_records(path, required=WRITTEN_COLUMNS)
    ]


def _fill_in_images(rows: Rows, images: Path, model: str, revision: str) -> None:
    """Fill in the empty plain images of written captions with an encoder of late fusion.

    Each caption gets the image to which the encoder gives the highest score, of all images that no
    caption describes.

    Args:
        rows: Rows of written captions, which are changed in place.
        images: Folder, zip or tar of images.
        model: Hub id or folder of the encoder.
        revision: Full commit hash of the hub id, or `local`.
    """
    import numpy as np

    from waltz.core.jobs.devices import lease_device
    from waltz.model_registry import ModelSpec
    from waltz.models.encoders import load_encoder
    from waltz.models.encoders.base import compute_image_vector, compute_text_vector
    from waltz.models.resolve_name import detect_encoder_kind
    from waltz.sources.images import load_image, open_images

    # Images with written captions show the contextual verb, so they cannot be plain images.
    contextual_images = {row["image"] for row in rows}
    with lease_device(0, 1) as device, open_images(images) as source:
        names = sorted(
            {Path(path).name for paths in source.members.values() for path in paths}
            - contextual_images
        )
        if not names:
            raise UserError(
                f"{images}: contains no image but those of the captions; name another folder"
            )
        spec = ModelSpec(
            "retriever",
            kind=detect_encoder_kind(model, revision),
            weights=model,
            revision=revision,
        )
        encoder = load_encoder(spec, device)
        if not encoder.late:
            raise UserError(
                f"{model}: a {spec.kind} gives no vectors of images; name an encoder of late fusion"
            )
        # vectors: (images, dimensions). One pass for each image, and one for each caption below.
        vectors = np.stack(
            [compute_image_vector(encoder, load_image(source, name)) for name in names]
        )
        for row in rows:
            if not row["plain_image"]:
                # scores: (images,)
                scores = vectors @ compute_text_vector(encoder, row["caption"])
                # The highest score; of equal ones, the first name.
                row["plain_image"] = min(zip((-scores).tolist(), names, strict=True))[1]


def _write_answers(
    output: Path,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, str]],
    skipped_columns: Sequence[str],
    skipped: Sequence[Mapping[str, str]],
) -> None:
    """Write answers as CSV, and skipped answers with their reasons to a second file next to it."""
    write_csv(output, columns, rows)
    write_csv(output.with_suffix(".skipped.csv"), skipped_columns, skipped)
