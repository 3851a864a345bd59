"""The command `waltz build`: a benchmark of captions and foils from a file of captions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waltz.cli.commands.people import PORT, SERVER, ImagePrefix
from waltz.cli.output import check_inputs, create_console
from waltz.cli.run.checkout import CONFIG, find_checkout
from waltz.cli.run.written_study import (
    check_images_exist,
    plan_study,
    run_written_study,
    shorten,
)
from waltz.core.errors import UserError, check_name
from waltz.core.files.resources import shorten_path

if TYPE_CHECKING:
    from waltz.core.schema import PairRecord
    from waltz.plan.plan import Plan
    from waltz.plan.study import Settings

app = typer.Typer(add_completion=False, rich_markup_mode=None)
EXAMPLES = 10
"""Largest number of pairs that are shown at the end."""
JUDGES = "thesis"
"""Study whose models judge candidates with `--filters`."""
NO_FILTERS = "none; --filters adds GRUEN and NLI, whose models come from a hub"
MOST_REASONS = 4
"""Largest number of reasons of a step that are shown; the funnel has all."""
NOT_BALANCED = (
    "none, so words may betray foils: {} captions are too few; --js 0.3 balances"
)
HINT = (
    "balancing left out {}, so that no word betrays a foil: more captions, or a higher --js, give more items (--js 1"
    " takes a foil of each caption)"
)
NOT_JUDGED = (
    "not judged: {}, because weights of {} could not be fetched; the messages above say where to put them, and the same"
    " command then judges"
)
"""Line about filters without models."""
NOTHING_LEFT = "no item is left: the table says at which step the pairs are lost"
TARGETS = ["benchmark", "report"]
"""Rules that Snakemake is asked for."""
PEOPLE = "people"
"""Folder of the task files in the results of a study."""


@app.command()
def build_command(
    captions: Annotated[
        Path,
        typer.Argument(
            help="Table of image and caption (CSV, TSV, JSON, JSON lines, Parquet), or COCO captions."
        ),
    ],
    images: Annotated[
        Path | None,
        typer.Option(
            help="Folder, zip or tar of the images that the file names.",
            show_default="the folder of the file",
        ),
    ] = None,
    instruments: Annotated[
        str,
        typer.Option(
            help="plurality, existence, counting, nouns, prepositions; with commas between."
        ),
    ] = "plurality,existence,counting,nouns",
    filters: Annotated[
        bool,
        typer.Option(
            "--filters", help="Judge grammar (GRUEN) and contradiction (NLI) by models."
        ),
    ] = False,
    validate: Annotated[
        str | None,
        typer.Option(help="Write tasks for people: label-studio, doccano or mturk."),
    ] = None,
    image_prefix: ImagePrefix = SERVER,
    export: Annotated[
        str | None, typer.Option(help="hf: write a data set for the Hugging Face hub.")
    ] = None,
    size: Annotated[
        int, typer.Option(help="Most items of an instrument.", min=1)
    ] = 1000,
    js: Annotated[
        float | None,
        typer.Option(
            help="Largest Jensen-Shannon distance of the exchanged words of captions and foils; 1 keeps all foils.",
            show_default="0.3; 1 for fewer than 300 captions",
            min=0,
            max=1,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all draws.", min=0)] = 0,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the study.", show_default="build-CAPTIONS"),
    ] = None,
    annotations: Annotated[
        Path | None,
        typer.Option(help="Folder with the answers of people, INSTRUMENT.csv each."),
    ] = None,
    cores: Annotated[
        int | None, typer.Option(help="CPU cores.", show_default="all", min=1)
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show the study, and write and run nothing."),
    ] = False,
) -> None:
    """Build a benchmark from captions: write a study, run it with Snakemake, and print what is left
    after each step, and examples.
    """
    checkout = find_checkout()
    check_inputs(captions)
    images = images or captions.parent
    _check_options(images, export)
    from waltz.benchmark.people.platforms import choose_platform
    from waltz.plan.built_study import (
        DEFAULT_JS,
        FEW_CAPTIONS,
        build_caption_study,
        choose_instruments,
        leave_out,
        list_judges,
        omit_filters,
    )

    if validate is not None:
        validate = choose_platform(validate, "--validate")
    chosen = choose_instruments(_split(instruments))
    source, n_captions = _describe_source(captions, images, checkout)
    notes = {} if filters else {"filters": NO_FILTERS}
    # Balancing leaves next to nothing of a small file.
    if js is None and n_captions < FEW_CAPTIONS:
        notes["balance"] = NOT_BALANCED.format(n_captions)
        js = 1
    js = DEFAULT_JS if js is None else js
    name = _choose_name(name, captions)
    study = build_caption_study(
        name,
        source,
        chosen,
        size=size,
        js=js,
        seed=seed,
        judges=_read_judges(checkout) if filters else None,
        annotations=_find_annotations(annotations, chosen, checkout),
    )
    plan = plan_study(study, checkout)
    missing: list[str] = []
    if filters and not dry_run:
        missing = _fetch_judges(study, plan, checkout, cores)
        study = omit_filters(study, missing)
    if not run_written_study(
        study,
        TARGETS,
        checkout,
        cores=cores,
        variables={},
        notes=notes,
        dry_run=dry_run,
    ):
        return
    # Paths are shown as they are named here.
    results = shorten_path(checkout / "results" / name, Path.cwd())
    _print_captions(results)
    _print_funnel(results, size, js, has_votes=annotations is not None)
    if missing:
        judges = ", ".join(list_judges(study, missing))
        typer.echo(NOT_JUDGED.format(", ".join(missing), judges))
    items = _read_items(results, chosen)
    if not items:
        raise UserError(f"{results}/benchmark: {NOTHING_LEFT}")
    _print_examples(items)
    filled = map(attrgetter("instrument"), items)
    empty = sorted(set(chosen).difference(filled))
    if empty:
        typer.echo(f"left out of the study: {', '.join(empty)}, without items")
    # Without items there is nothing to export, and nothing to evaluate models on.
    if empty or export:
        run_written_study(
            leave_out(study, empty),
            [*TARGETS, "export"] if export else TARGETS,
            checkout,
            cores=cores,
            variables={},
            notes={},
            dry_run=False,
        )
    if validate:
        _write_tasks(items, results, validate, image_prefix, seed, images)
    _print_next_steps(results, name, export)


def _choose_name(name: str | None, captions: Path) -> str:
    """Return the name of the study, which begins with `build-`."""
    from waltz.plan.built_study import PREFIX
    from waltz.plan.foil_study import check_study_name, choose_dataset_name

    if name is None:
        name = choose_dataset_name(captions)
    check_study_name(name)
    return f"{PREFIX}{name.removeprefix(PREFIX)}"


def _split(names: str) -> list[str]:
    """Return the names between commas."""
    return list(filter(None, map(str.strip, names.split(",")))) or [names]


def _check_options(images: Path, export: str | None) -> None:
    """Refuse options that are wrong, before anything is imported that takes seconds."""
    if not images.exists():
        raise UserError(f"--images {images}: no such folder or archive; check the path")
    if export is not None:
        check_name("--export", "export", export, ("hf",))


def _describe_source(
    captions: Path, images: Path, checkout: Path
) -> tuple[Settings, int]:
    """Return the entry of the source of captions, and their number, after a look at the whole file.

    Raises:
        UserError: The file cannot be read, or an image is not in the folder.
    """
    from waltz.sources.formats import captions as tables
    from waltz.sources.formats import coco

    is_coco = captions.suffix.lower() == ".json" and coco.is_coco(captions)
    form = "coco-captions" if is_coco else "captions"
    read = coco.read_captions if is_coco else tables.read_captions
    rows = list(read(str(captions), "captions", None))
    names = [row.image for row in rows if row.rejected is None]
    check_images_exist(captions, names, images)
    source = {
        "format": form,
        "files": {"captions": {"path": shorten(captions, checkout)}},
        "images": {"path": shorten(images, checkout)},
    }
    return source, len(names)


def _read_judges(checkout: Path) -> Settings:
    """Return the study whose models judge candidates."""
    from waltz.plan.read_study import load_yaml

    return load_yaml(checkout / CONFIG / f"{JUDGES}.yaml")


def _fetch_judges(
    study: Settings, plan: Plan, checkout: Path, cores: int | None
) -> list[str]:
    """Fetch the models of the filters, and return the filters whose models could not be had."""
    from waltz.plan.built_study import FILTERS, list_judges

    # A run that fetched only some of them has failed; which ones, the files say.
    with suppress(UserError):
        run_written_study(
            study,
            ["weights"],
            checkout,
            cores=cores,
            variables={},
            notes={},
            dry_run=False,
        )
    missing = []
    for name in FILTERS:
        files = plan.models.list_files(*list_judges(study, [name]))
        fetched = plan.models.fetched.intersection(files)
        if not all((checkout / file).exists() for file in fetched):
            missing.append(name)
    return missing


def _find_annotations(
    folder: Path | None, instruments: Sequence[str], checkout: Path
) -> Mapping[str, str] | None:
    """Return the files with the answers of people, by instrument."""
    if folder is None:
        return None
    files = {}
    for instrument in instruments:
        file = folder / f"{instrument}.csv"
        if file.is_file():
            files[instrument] = shorten(file, checkout)
    if not files:
        names = ", ".join(f"{instrument}.csv" for instrument in instruments)
        raise UserError(
            f"--annotations {folder}: none of {names} is there; write them with waltz people import"
        )
    return files


def _print_captions(results: Path) -> None:
    """Print the numbers of captions that were read, and why others were rejected."""
    from waltz.core.records import read_records
    from waltz.plan.built_study import CAPTIONS
    from waltz.sources.records import CaptionRecord

    captions = read_records(results / f"sources/{CAPTIONS}.parquet", CaptionRecord)
    reasons = Counter(map(attrgetter("rejected"), captions))
    typer.echo(f"captions read: {reasons.pop(None, 0):,}")
    for reason, count in reasons.most_common():
        typer.echo(f"captions rejected: {count:,} ({reason})")


def _print_funnel(results: Path, size: int, js: float, *, has_votes: bool) -> None:
    """Print the number of candidates of each instrument after each step, and why others are lost."""
    from rich.table import Table

    from waltz.core.records import read_records
    from waltz.core.schema import FunnelRecord

    few: list[str] = []
    table = Table("instrument", "step", "left", "lost")
    for row in read_records(results / "benchmark/funnel.parquet", FunnelRecord):
        is_idle = not row.lost and row.step not in ("candidates", "balanced", "valid")
        # Without votes there are no valid items yet.
        is_open = row.step == "valid" and not has_votes
        if is_idle or is_open:
            continue
        losses = sorted(row.lost, key=attrgetter("count"), reverse=True)
        lines = [f"{loss.count:,} {loss.reason}" for loss in losses[:MOST_REASONS]]
        if len(losses) > MOST_REASONS:
            lines.append(f"{len(losses) - MOST_REASONS} more reasons")
        table.add_row(row.instrument, row.step, f"{row.count:,}", "\n".join(lines))
        if row.step == "balanced" and row.count < size and row.lost:
            n_lost = sum(loss.count for loss in row.lost)
            few.append(f"{n_lost:,} of {row.count + n_lost:,} of {row.instrument}")
    create_console().print(table)
    if few and js < 1:
        typer.echo(HINT.format(", ".join(few)))


def _read_items(results: Path, instruments: Sequence[str]) -> list[PairRecord]:
    """Return the items that are left, in the order of the instruments."""
    from waltz.core.records import read_records
    from waltz.core.schema import ItemRecord

    items: list[PairRecord] = []
    for instrument in instruments:
        path = results / "benchmark" / f"{instrument}.parquet"
        items += [item for item in read_records(path, ItemRecord) if item.kept]
    return items


def _print_examples(items: Sequence[PairRecord]) -> None:
    """Print pairs of all instruments in turn."""
    by_instrument: dict[str, list[PairRecord]] = {}
    for item in items:
        by_instrument.setdefault(item.instrument, []).append(item)
    shares = max(1, EXAMPLES // max(1, len(by_instrument)))
    for instrument, selected in by_instrument.items():
        for item in selected[:shares]:
            typer.echo(f"{instrument}, {item.image}")
            typer.echo(f"  caption: {item.caption}\n  foil:    {item.foil}")


def _write_tasks(
    items: Sequence[PairRecord],
    results: Path,
    platform: str,
    image_prefix: str,
    seed: int,
    images: Path,
) -> None:
    """Write the task files of a platform, and print the commands that show images and read answers."""
    from waltz.benchmark.people.platforms import export_tasks

    folder = results / PEOPLE
    for file in export_tasks(items, platform, folder, image_prefix, seed):
        typer.echo(f"tasks:   {file}")
    if image_prefix == SERVER and platform == "mturk":
        typer.echo(
            "images:  workers cannot load them from this machine: put them on a server, and build"
            " again with --image-prefix ADDRESS/"
        )
    elif image_prefix == SERVER:
        folder = images
        if images.is_file():
            folder = Path("FOLDER")
            typer.echo(f"images:  unpack {images} into a folder, and serve it:")
        typer.echo(f"images:  python -m http.server {PORT} --directory {folder}")
    for instrument in dict.fromkeys(item.instrument for item in items):
        typer.echo(
            f"answers: waltz people import RESULTS --items {results}/benchmark/{instrument}.parquet"
            f" --platform {platform} --seed {seed} --output answers/{instrument}.csv"
        )
    typer.echo("then:    the same waltz build with --annotations answers")


def _print_next_steps(results: Path, name: str, export: str | None) -> None:
    """Print where the benchmark is, and the commands that go on."""
    typer.echo(f"items:   {results}/benchmark")
    typer.echo(f"report:  {results}/reporting/report.html")
    if export:
        typer.echo(f"export:  {results}/export/dataset")
    typer.echo(f"next:    waltz eval --model ID_OR_FOLDER --on {name}")
