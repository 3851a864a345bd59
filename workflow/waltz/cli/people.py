"""The commands `waltz people …`: task files out to annotators, and their answers back."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from waltz.benchmark.people.exchange import PLATFORMS, export_tasks, import_annotations
from waltz.benchmark.people.quality import (
    MIN_PREFERRED_SHARE,
    compute_agreement,
    compute_annotator_quality,
    count_missing_answers,
    drop_annotators,
)
from waltz.benchmark.votes import ANNOTATION_COLUMNS, count_votes
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.atomic import write_text
from waltz.core.schema import BENCHMARK

app = typer.Typer(no_args_is_help=True, help="Let people validate a benchmark.")

Items = Annotated[
    Path, typer.Option(help="Parquet file of a benchmark, results/<study>/benchmark/<instrument>.parquet.")
]
Platform = Annotated[str, typer.Option(help=f"One of {', '.join(PLATFORMS)}.")]
Seed = Annotated[int, typer.Option(help="Seed of the captions' positions; the same for export and import.")]
Annotators = Annotated[int, typer.Option(help="Answers wanted for each item.")]


@app.command("export")
def export_command(
    items: Items,
    platform: Platform,
    folder: Annotated[Path, typer.Option(help="Where the task files go.")],
    image_prefix: Annotated[str, typer.Option(help="What stands before an image's name in its URL, final / included.")],
    seed: Seed = 0,
    annotators: Annotators = 3,
) -> None:
    """Write the task files of a benchmark's kept items."""
    try:
        kept = [item for item in _items(items) if item["kept"]]
        written = export_tasks(kept, platform, folder, image_prefix, seed, annotators)
    except UserError as error:
        raise refused(error) from None
    for path in written:
        typer.echo(path)


@app.command("import")
def import_command(
    results: Annotated[list[Path], typer.Argument(help="Files of results; for doccano a folder, one file a person.")],
    items: Items,
    platform: Platform,
    output: Annotated[Path, typer.Option(help="CSV of annotations to write; what is left out goes beside it.")],
    seed: Seed = 0,
    annotators: Annotators = 3,
    valid_votes: Annotated[int, typer.Option(help="Votes for the caption that make an item valid.")] = 2,
    gold: Annotated[Path | None, typer.Option(help="Text file of the ids of gold items, one a line.")] = None,
    drop_poor: Annotated[bool, typer.Option(help="Leave annotators out who fail on the gold items.")] = False,
) -> None:
    """Read a platform's results, and say how good they are."""
    if drop_poor and gold is None:
        raise refused(UserError("--drop-poor needs --gold, the ids of items whose caption is known to be right"))
    try:
        known = _items(items)
        imported = import_annotations(results, platform, known, seed)
        gold_ids = _gold(gold, {item["item_id"] for item in known}) if gold else set()
    except UserError as error:
        raise refused(error) from None
    annotations: Sequence[Mapping[str, str]] = imported.annotations
    left_out = list(imported.skipped)
    poor = []
    for record in compute_annotator_quality(annotations, gold_ids):
        share = (
            "no gold item" if record.share is None else f"{record.share:.0%} of {record.gold} gold captions preferred"
        )
        verdict = ", too few" if record.enough is False else ""
        typer.echo(f"annotator {record.annotator}: {record.answered} answers, {share}{verdict}")
        if record.enough is False:
            poor.append(record.annotator)
    if drop_poor:
        reason = f"the annotator prefers less than {MIN_PREFERRED_SHARE:.0%} of gold captions"
        annotations, dropped = drop_annotators(annotations, poor, reason)
        left_out += dropped
    write_csv(output, ANNOTATION_COLUMNS, annotations)
    write_csv(output.with_suffix(".skipped.csv"), ("item_id", "annotator", "reason"), left_out)
    lacking = count_missing_answers(annotations, {item["item_id"] for item in known if item["kept"]}, annotators)
    found = compute_agreement(annotations)
    valid = sum(vote["valid"] for vote in count_votes(annotations, valid_votes).values())
    alpha = f"alpha {found.alpha:.3f}" if found.alpha is not None else f"no alpha: {found.reason}"
    typer.echo(f"{len(annotations)} answers to {found.items} items, {len(left_out)} left out; {alpha}")
    typer.echo(f"{valid} items valid, {found.unanimous} unanimous; {len(lacking)} items lack answers")


def _items(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise UserError(f"{path}: no such file; build the benchmark, or name one of results/<study>/benchmark")
    rows: list[dict[str, Any]] = parquet.read(path, BENCHMARK).to_pylist()
    return rows


def _gold(path: Path, known: set[str]) -> set[str]:
    try:
        ids = {line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()}
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    if unknown := sorted(ids - known):
        raise UserError(f"{path}: item {unknown[0]!r} is not in the benchmark")
    return ids


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    """Write rows under a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def refused(error: UserError) -> typer.Exit:
    """Print what is wrong in one line; raise what comes back."""
    typer.echo(f"waltz: {error}", err=True)
    return typer.Exit(1)
