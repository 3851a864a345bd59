"""The command `waltz eval`: accuracy and T-SHAP of models on foils, through a study that Snakemake
runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waltz.cli.eval_comparisons import print_comparisons, read_comparisons
from waltz.cli.eval_results import (
    OUTPUT_FORMATS,
    print_files,
    print_group_scores,
    print_results,
    print_warnings,
    read_result_rows,
    write_results,
)
from waltz.cli.output import check_outputs
from waltz.cli.run.checkout import find_checkout
from waltz.cli.run.written_study import (
    check_images_exist,
    plan_study,
    run_written_study,
    shorten,
)
from waltz.core.errors import (
    UserError,
    advise_on_missing_file,
    build_name_error,
    check_name,
)
from waltz.core.files.user_modules import find_module_file

if TYPE_CHECKING:
    from waltz.model_registry import ModelSpec
    from waltz.plan.foil_study import PairFile
    from waltz.plan.study import Settings

app = typer.Typer(add_completion=False, rich_markup_mode=None)
NAMED_DATA = ("valse", "scenes")
Columns = dict[str, str]
"""Columns of a file of pairs that have other names, by the part of the pair that they hold."""


@app.command()
def eval_command(
    model: Annotated[
        list[str],
        typer.Option(
            help="Registered model, folder in transformers format, .gguf file, or hub id[@revision]; may be repeated."
        ),
    ],
    on: Annotated[
        list[str],
        typer.Option(
            help="valse (the released benchmark), scenes (the embedded world, without network),"
            " a study of waltz build, or a file of image, caption and foil: CSV, TSV, JSON,"
            " JSON lines, Parquet, a saved data set; may be repeated for several files."
        ),
    ],
    attribute: Annotated[
        bool,
        typer.Option(
            "--attribute",
            help="Compute T-SHAP as well, of at most 100 items a data set.",
        ),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            help="Most items of a data set; groups stay whole.",
            show_default="all",
            min=1,
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            help="Folder, zip or tar of the images.",
            show_default="in the file of pairs, or in its folder",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Columns of the file that have other names: image=filename,foil=negative_caption.",
            show_default="those of the file, or of a published set",
        ),
    ] = None,
    profile: Annotated[
        str, typer.Option(help="Fidelity profile: equations or published.")
    ] = "equations",
    device: Annotated[
        str | None,
        typer.Option(
            help="cpu, cuda, or cuda:N.", show_default="a free GPU, else the CPU"
        ),
    ] = None,
    cores: Annotated[
        int | None, typer.Option(help="CPU cores.", show_default="all", min=1)
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the study.", show_default="eval-MODEL-DATA"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the results here, too: .csv, .json or .tex."),
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Build the report page as well.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show the study, and write and run nothing."),
    ] = False,
) -> None:
    """Score models on foils: write a study, run it with Snakemake, and print accuracy and T-SHAP by
    data set.
    """
    # First everything that can be wrong without importing torch or finding a model.
    mapping = _parse_columns(columns)
    checkout = find_checkout()
    _check_options(model, on, images, mapping, profile, output, checkout)
    variables = _choose_device(device)
    from waltz.plan.foil_study import build_study, check_study_name, choose_model_names
    from waltz.plan.read_study import load_yaml

    if name is not None:
        check_study_name(name)

    # Then the models, the data and the study made from them, still without writing anything.
    specs = [_resolve_model(model_name, checkout) for model_name in model]
    if attribute and all(spec.kind == "text" for spec in specs):
        raise UserError(
            "--attribute: T-SHAP needs a model that reads images; leave it out, or name one"
        )
    data_name, data = _choose_data(on, images, mapping, specs, checkout)
    taken = ()
    # A study that extends another one has its models as well, so new models need other names.
    if "extends" in data:
        taken = load_yaml(checkout / "config" / f"{data['extends']}.yaml")["models"]
    models = choose_model_names(specs, taken)
    if name is None:
        model_part = "-".join(models).replace(".", "-")
        name = f"eval-{model_part}-{data_name}"
    study = build_study(
        name, models, data, profile=profile, limit=limit, attribute=attribute
    )
    plan = plan_study(study, checkout)
    cost = ""
    if study.get("attribution"):
        cost = _describe_cost(study, on, mapping, checkout)
    notes = {"cost": f"{cost}; for the time left: waltz status {name}"} if cost else {}
    if not run_written_study(
        study,
        _choose_targets(report, attribute),
        checkout,
        cores=cores,
        variables=variables,
        notes=notes,
        dry_run=dry_run,
    ):
        return
    # The results are read from the study's files, as those of any other study.
    results = checkout / "results" / name
    rows = read_result_rows(results, list(models), attribute)
    print_results(rows)
    print_group_scores(rows)
    comparisons = read_comparisons(plan, checkout, list(models))
    print_comparisons(comparisons)
    print_warnings(results)
    if output:
        write_results(output, rows, comparisons)
    print_files(results, output)


def _choose_targets(report: bool, attribute: bool) -> list[str]:
    """Return the rules that Snakemake is asked for: all rules for the report page, else the rules
    of the numbers.
    """
    if report:
        return ["all"]
    return ["metrics", "shares"] if attribute else ["metrics"]


def _check_options(
    models: Sequence[str],
    on: Sequence[str],
    images: Path | None,
    columns: Columns,
    profile: str,
    output: Path | None,
    checkout: Path,
) -> None:
    """Refuse options that are wrong for reasons which can be seen without torch and transformers.

    Importing these takes seconds, so such errors are reported before it.

    Raises:
        UserError: A model name, profile, output, folder of images or name of data is wrong.
    """
    from waltz.model_registry import check_model_name

    for name in models:
        check_model_name(name)
    check_name("--profile", "profile", profile, ("equations", "published"))
    if output:
        check_name(f"--output {output}", "format", output.suffix, OUTPUT_FORMATS)
    check_outputs(output=output)
    if images and not images.exists():
        raise UserError(f"--images {images}: no such folder or archive; check the path")
    # Named data need no file; any other name is a file of pairs.
    named = [data for data in on if _is_named(data, checkout)]
    if named and len(on) > 1:
        raise UserError(
            f"--on {named[0]}: is a study of its own; name it alone, or only files of pairs"
        )
    if named and columns:
        raise UserError(
            f"--columns: {named[0]} is no file of pairs; leave it out, or name a file with --on"
        )
    if named:
        return
    for data in on:
        _check_file(data, images, columns)


def _check_file(name: str, images: Path | None, columns: Columns) -> None:
    """Refuse a name of `--on` that is no file of pairs."""
    from waltz.sources.tables import TABLE_SUFFIXES

    path = Path(name)
    if name and path.exists():
        _check_pairs(path, images, columns)
        return
    advice = advise_on_missing_file(name)
    # A name without its end is meant for the file next to it.
    for suffix in TABLE_SUFFIXES:
        if name and path.with_name(f"{path.name}{suffix}").exists():
            raise UserError(f"--on {name}: no such file; did you mean {name}{suffix}?")
    if path.suffix.lower() in TABLE_SUFFIXES or "/" in name:
        raise UserError(f"--on {name}: no such file; {advice}")
    raise build_name_error("--on", "data", name, (*NAMED_DATA, "a FILE"))


def _is_named(on: str, checkout: Path) -> bool:
    """Return whether data have a name: the released benchmark, the embedded world, or a study that
    `waltz build` wrote.
    """
    from waltz.plan.built_study import PREFIX

    file = checkout / "config" / f"{on}.yaml"
    return on in NAMED_DATA or (on.startswith(PREFIX) and file.is_file())


def _parse_columns(text: str | None) -> Columns:
    """Return the column of each part of a pair, from `image=filename,foil=negative_caption`."""
    from waltz.sources.pair_layouts import OPTIONAL_COLUMNS, PAIR_COLUMNS

    names = (*PAIR_COLUMNS, *OPTIONAL_COLUMNS)
    columns: Columns = {}
    for part in filter(None, (text or "").split(",")):
        name, equals, column = map(str.strip, part.partition("="))
        if not (equals and column):
            raise UserError(
                f"--columns: {part!r} is no mapping; write image=NAME, with commas between several"
            )
        check_name("--columns", "part of a pair", name, names)
        if name in columns:
            raise UserError(f"--columns: {name} stands twice; leave one out")
        columns[name] = column
    return columns


def _choose_device(device: str | None) -> dict[str, str]:
    """Return the environment variables that give a device to the jobs; none if the jobs choose one.

    Raises:
        UserError: The device is unknown, or this machine does not have it.
    """
    if device is None:
        return {}
    if device == "cpu":
        return {"CUDA_VISIBLE_DEVICES": ""}
    match = re.fullmatch(r"cuda(?::(\d+))?", device, re.ASCII)
    if match is None:
        raise UserError(
            f"--device: unknown device (got {device!r}, expected cpu, cuda or cuda:N)"
        )
    # torch is imported only for a GPU by name, to count the GPUs.
    import torch

    index = match[1]
    count = torch.cuda.device_count()
    if int(index or 0) >= count:
        raise UserError(
            f"--device: there is no {device} here (got {count} GPUs); leave it out, or take cpu"
        )
    return {"CUDA_VISIBLE_DEVICES": index} if index else {}


def _resolve_model(name: str, checkout: Path) -> ModelSpec:
    """Return the model of a name, which must score foils; the path of a local model is as the study
    names it.
    """
    from waltz.model_registry import FUNCTION_KIND, answers_questions
    from waltz.models.resolve_name import resolve_decoder, resolve_encoder

    spec = resolve_decoder(name) or resolve_encoder(name)
    if answers_questions(spec):
        raise UserError(
            f"--model {name}: answers questions and scores no texts (got kind {spec.kind}); name another, or explain"
            " an answer: waltz explain --question"
        )
    # Weights in the checkout get a path relative to it.
    if spec.kind == FUNCTION_KIND:
        return replace(spec, weights=_locate_function(spec.weights, checkout))
    if spec.revision == "local":
        return replace(spec, weights=shorten(Path(spec.weights), checkout))
    return spec


def _locate_function(name: str, checkout: Path) -> str:
    """Return the name of a function as jobs find it, which run in the checkout: with its folder if
    its module is in the working directory, and this is another one.
    """
    folder, _, function = name.rpartition("/")
    directory = Path(folder).resolve()
    is_here = find_module_file(name).is_relative_to(directory)
    if not is_here or directory == checkout:
        return function
    return f"{shorten(directory, checkout)}/{function}"


def _choose_data(
    on: Sequence[str],
    images: Path | None,
    columns: Columns,
    specs: Sequence[ModelSpec],
    checkout: Path,
) -> tuple[str, Settings]:
    """Return a short name of the data, and the keys of the study that describe them.

    Args:
        on: Name of the data, or files of pairs.
        images: Folder, zip or tar of the images; None where the option is absent.
        columns: Columns of a file of pairs that have other names.
        specs: The models; images are needed only if one of them reads images.
        checkout: The checkout that runs the study.
    Raises:
        UserError: Images are needed and missing, or a file of pairs does not fit them.
    """
    from waltz.plan.foil_study import describe_pairs, extend_built, select_release
    from waltz.plan.read_study import load_yaml

    readers = [spec.name for spec in specs if spec.kind != "text"]
    name = on[0]
    if not _is_named(name, checkout):
        files = _locate_pairs(on, images, columns, checkout, bool(readers))
        return "-".join(files), describe_pairs(files, columns)
    study = load_yaml(checkout / "config" / f"{name}.yaml")
    # The embedded world draws its images itself, and a built benchmark names them.
    if name != "valse":
        return name, extend_built(study)
    # Models of text need no images of the released benchmark.
    if not readers:
        return name, select_release(study, None)
    if images is None:
        raise UserError(
            f"--images is missing: {readers[0]} reads images, which the released benchmark does not hold;"
            " name a folder of them (docs/how-to/evaluating-a-model.md)"
        )
    return name, select_release(study, shorten(images, checkout))


def _locate_pairs(
    names: Sequence[str],
    images: Path | None,
    columns: Columns,
    checkout: Path,
    reads_images: bool,
) -> dict[str, PairFile]:
    """Return the files of pairs by data set; without `images`, these are in a file or next to it.

    Raises:
        UserError: Two files give data sets of the same name, or an image is missing.
    """
    from waltz.plan.foil_study import PairFile, choose_dataset_name
    from waltz.sources.tables import find_only_file, stores_images

    files: dict[str, PairFile] = {}
    for name in names:
        dataset = choose_dataset_name(Path(name))
        if dataset in files:
            raise UserError(
                f"--on {name}: another file is called {dataset}, too; rename one of them"
            )
        file = find_only_file(Path(name))
        folder = None
        if reads_images:
            near = file if stores_images(file) else file.parent
            folder = shorten(images or near, checkout)
            # Images that were named have been checked with the options.
            if images is None:
                _check_pairs(file, near, columns)
        files[dataset] = PairFile(shorten(file, checkout), folder)
    return files


def _check_pairs(file: Path, images: Path | None, columns: Columns) -> None:
    """Refuse a file of pairs that cannot be read, or whose images do not exist."""
    from waltz.sources.formats.pairs import read_pairs

    items = read_pairs(file, "pairs", "own", columns)
    if images is not None:
        check_images_exist(file, (item.image for item in items), images)


def _describe_cost(
    study: Settings, on: Sequence[str], columns: Columns, checkout: Path
) -> str:
    """Return a sentence with the number of forward passes that each model needs at most for T-SHAP."""
    from waltz.plan.costs import compute_costs
    from waltz.sources.formats.pairs import read_pairs

    attribution = dict(study["attribution"])
    # The study asks for a sample of each data set; small files of pairs have fewer items than that.
    if not _is_named(on[0], checkout):
        counts = [len(read_pairs(Path(name), "pairs", "own", columns)) for name in on]
        attribution["sample"] = min(attribution["sample"], max(counts))
    plan = plan_study({**study, "attribution": attribution}, checkout)
    with chdir(checkout):
        costs = compute_costs(plan)
    passes = [
        f"{cost.passes:,.0f} of {cost.model}"
        for cost in costs
        if cost.step == "attribution"
    ]
    return f"T-SHAP takes at most this many forward passes: {', '.join(passes)}"
