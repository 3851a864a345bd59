"""The command `waltz eval`: accuracy and T-SHAP of models on foils, through a study that Snakemake runs."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from waltz.cli.output import check_outputs, create_console, report_errors, write_csv
from waltz.cli.run.checkout import find_checkout, start_snakemake
from waltz.core.errors import UserError, build_name_error
from waltz.core.files.atomic import write_text

if TYPE_CHECKING:
    from waltz.model_registry import ModelSpec

app = typer.Typer(add_completion=False, rich_markup_mode=None)
PAIR_FORMATS = (".csv", ".json", ".parquet")
NAMED_DATA = ("valse", "scenes")
SETTINGS = ("alignment", "perplexity", "pairwise")
"""Settings of accuracies that are shown: encoders, language models, decoders that see."""


@app.command()
def eval_command(
    model: Annotated[
        list[str],
        typer.Option(
            help="Registered model, folder in transformers format, .gguf file, or hub id[@revision]; may be repeated."
        ),
    ],
    on: Annotated[
        str,
        typer.Option(
            help="valse (the released benchmark), scenes (the embedded world, without network),"
            " or a CSV, JSON or Parquet file of image, caption and foil."
        ),
    ],
    attribute: Annotated[
        bool, typer.Option("--attribute", help="Compute T-SHAP as well, of at most 100 items a data set.")
    ] = False,
    limit: Annotated[int | None, typer.Option(help="Most items of a data set.", show_default="all", min=1)] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Folder, zip or tar of the images.", show_default="the folder of the file of pairs"),
    ] = None,
    profile: Annotated[str, typer.Option(help="Fidelity profile: equations or published.")] = "equations",
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, or cuda:N.", show_default="a free GPU, else the CPU")
    ] = None,
    cores: Annotated[int | None, typer.Option(help="CPU cores.", show_default="all", min=1)] = None,
    name: Annotated[str | None, typer.Option(help="Name of the study.", show_default="eval-MODEL-DATA")] = None,
    output: Annotated[Path | None, typer.Option(help="Write the results here, too: .csv or .json.")] = None,
    report: Annotated[bool, typer.Option("--report", help="Build the report page as well.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the study, and write and run nothing.")] = False,
) -> None:
    """Score models on foils: write a study, run it with Snakemake, and print accuracy and T-SHAP by data set."""
    with report_errors():
        _check_options(on, profile, output)
        variables = _choose_device(device)
        checkout = find_checkout()
        from waltz.plan.foil_study import build_study, choose_model_names, render_study, write_study
        from waltz.plan.read_study import load_yaml

        specs = [_resolve_model(each, checkout) for each in model]
        if attribute and all(spec.kind == "text" for spec in specs):
            raise UserError("--attribute: T-SHAP needs a model that reads images; leave it out, or name one")
        data_name, data = _choose_data(on, images, specs, checkout)
        taken = load_yaml(checkout / "config" / f"{data['extends']}.yaml")["models"] if "extends" in data else ()
        models = choose_model_names(specs, taken)
        name = name or "-".join(["eval", *(each.replace(".", "-") for each in models), data_name])
        study = build_study(name, models, data, profile=profile, limit=limit, attribute=attribute)
        _check_study(study, checkout)
        text = render_study(study, shlex.join(["waltz", *sys.argv[1:]]))
        file = checkout / "config" / f"{name}.yaml"
        verdict = "not written" if dry_run else write_study(file, text)
        targets = ["all"] if report else ["metrics", *(["shares"] if attribute else [])]
        arguments = ["--cores", str(cores or "all"), "--config", f"study={name}", "--", *targets]
        typer.echo(f"study:   {file} ({verdict})", err=True)
        command = [*(f"{key}={value}" for key, value in variables.items()), "snakemake", *arguments]
        typer.echo(f"command: {' '.join(command)}", err=True)
        if dry_run:
            typer.echo(f"\n{text}", nl=False)
            return
        if start_snakemake(arguments, checkout, variables).returncode:
            raise UserError(f"study {name} did not end: {file}; see: waltz status {name}")
        rows = _read_results(checkout / "results" / name, list(models), attribute)
        _print_results(rows)
        _print_warnings(checkout / "results" / name)
        if output:
            _write_results(output, rows)


def _check_options(on: str, profile: str, output: Path | None) -> None:
    """Refuse what can be seen to be wrong before anything is imported."""
    if profile not in ("equations", "published"):
        raise build_name_error("--profile", "profile", profile, ("equations", "published"))
    if output and output.suffix not in (".csv", ".json"):
        raise build_name_error(f"--output {output}", "format", output.suffix, (".csv", ".json"))
    check_outputs(output=output)
    if on in NAMED_DATA or Path(on).is_file():
        return
    if Path(on).suffix in PAIR_FORMATS:
        raise UserError(f"--on {on}: no such file; check the path")
    raise build_name_error("--on", "data", on, (*NAMED_DATA, "a .csv, .json or .parquet file"))


def _choose_device(device: str | None) -> dict[str, str]:
    """Return the environment variables that give a device to the jobs."""
    if device is None:
        return {}
    if device == "cpu":
        return {"CUDA_VISIBLE_DEVICES": ""}
    kind, _, index = device.partition(":")
    if kind != "cuda" or not (index.isdecimal() or device == "cuda"):
        raise UserError(f"--device: unknown device (got {device!r}, expected cpu, cuda or cuda:N)")
    import torch

    count = torch.cuda.device_count()
    if int(index or 0) >= count:
        raise UserError(f"--device: there is no {device} here (got {count} GPUs); leave it out, or take cpu")
    return {"CUDA_VISIBLE_DEVICES": index} if index else {}


def _resolve_model(name: str, checkout: Path) -> ModelSpec:
    """Return a model that scores foils, with the path of a folder as the study names it."""
    from waltz.models.resolve_name import resolve_decoder, resolve_encoder

    spec = resolve_decoder(name) or resolve_encoder(name)
    if spec.kind.endswith("-answering"):
        raise UserError(f"--model {name}: answers questions and scores no texts (got kind {spec.kind}); name another")
    if spec.revision == "local":
        return replace(spec, weights=_shorten(Path(spec.weights), checkout))
    return spec


def _shorten(path: Path, checkout: Path) -> str:
    """Return a path as a study of the checkout names it: relative if it is inside."""
    path = path.resolve()
    return str(path.relative_to(checkout) if path.is_relative_to(checkout) else path)


def _choose_data(
    on: str, images: Path | None, specs: Sequence[ModelSpec], checkout: Path
) -> tuple[str, dict[str, Any]]:
    """Return a short name of the data, and their keys of the study."""
    from waltz.plan.foil_study import choose_dataset_name, describe_pairs, extend_world, select_release
    from waltz.plan.read_study import load_yaml

    seeing = [spec.name for spec in specs if spec.kind != "text"]
    if images and not images.exists():
        raise UserError(f"--images {images}: no such folder or archive; check the path")
    if on in NAMED_DATA:
        study = load_yaml(checkout / "config" / f"{on}.yaml")
        if on == "scenes":
            return on, extend_world(study)
        if seeing and not images:
            raise UserError(
                f"--images is missing: {seeing[0]} reads images, which the released benchmark does not hold;"
                " name a folder of them (docs/how-to/evaluating-a-model.md)"
            )
        return on, select_release(study, _shorten(images, checkout) if images and seeing else None)
    file = Path(on)
    folder = (images or file.parent) if seeing else None
    _check_pairs(file, folder)
    dataset = choose_dataset_name(file)
    return dataset, describe_pairs(dataset, _shorten(file, checkout), _shorten(folder, checkout) if folder else None)


def _check_pairs(file: Path, images: Path | None) -> None:
    """Refuse a file of pairs that cannot be read, or whose images are not there."""
    from waltz.sources.formats.pairs import read_pairs
    from waltz.sources.images import find_image_path, open_images

    names = dict.fromkeys(row["image"] for row in read_pairs(file, "pairs", "own"))
    if images is None:
        return
    with open_images(images) as source:
        for name in names:
            if Path(name).is_absolute():
                raise UserError(f"{file}: image {name!r}: the path is absolute; write it as below --images FOLDER")
            try:
                find_image_path(source, name)
            except UserError as error:
                raise UserError(f"{file}: {error}; name images by their paths below --images FOLDER") from None


def _check_study(study: Mapping[str, Any], checkout: Path) -> None:
    """Refuse a study that Snakemake would refuse."""
    from waltz.evaluation.prompting.prompt_files import check_prompts
    from waltz.plan.plan import Plan
    from waltz.plan.read_study import merge_study, read_study

    with chdir(checkout):
        plan = Plan.from_study(read_study(merge_study(study, Path("config"))))
        for model in dict.fromkeys(run.model for run in plan.decoded):
            check_prompts(plan.models[model], plan.study.profiles)


def _read_results(results: Path, models: Sequence[str], attribute: bool) -> list[dict[str, Any]]:
    """Return accuracy and T-SHAP of captions by model and data set, with intervals, in percent."""
    from statistics import mean

    from waltz.core.files import parquet
    from waltz.core.schema import METRICS, SHARES
    from waltz.evaluation.metrics.summary import AVERAGE

    shares = {
        (row["model"], row["dataset"], row["setting"]): row
        for row in (parquet.read_rows(results / "attribution" / "shares.parquet", SHARES) if attribute else ())
        if row["role"] == "caption"
    }
    metrics = parquet.read_rows(results / "evaluation" / "metrics.parquet", METRICS)
    accuracies = [row for row in metrics if row["metric"] == "acc_r" and row["setting"] in SETTINGS]
    if len({row["dataset"] for row in accuracies} - {AVERAGE}) == 1:
        accuracies = [row for row in accuracies if row["dataset"] != AVERAGE]
    rows: list[dict[str, Any]] = []
    for row in sorted(accuracies, key=lambda row: models.index(row["model"])):
        share = shares.get((row["model"], row["dataset"], row["setting"]), {})
        columns = {"model": row["model"], "dataset": row["dataset"], "items": row["n"]}
        rows.append({**columns, **_select_measure("accuracy", row), **_select_measure("t_shap", share)})
        values = [each["t_shap"] for each in rows[:-1] if each["model"] == row["model"]]
        if row["dataset"] == AVERAGE and values and None not in values:
            rows[-1]["t_shap"] = mean(values)
    return rows


def _select_measure(name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of a row, its interval, and the reason why it is missing."""
    columns = {"": "value", "_low": "ci_low", "_high": "ci_high", "_reason": "reason"}
    return {f"{name}{ending}": row.get(column) for ending, column in columns.items()}


def _print_results(rows: Sequence[Mapping[str, Any]]) -> None:
    from rich.table import Table

    attributed = any(row["t_shap"] is not None for row in rows)
    table = Table("model", "data set", "items", "accuracy (%)", *(["T-SHAP (%)"] if attributed else []))
    for row in rows:
        cells = [_format_measure(row, name) for name in ("accuracy", "t_shap")[: 1 + attributed]]
        table.add_row(row["model"], row["dataset"], str(row["items"]), *cells)
    create_console().print(table)
    typer.echo("accuracy: how often the caption scores higher than its foil (50 is chance); in brackets 95 % intervals")
    if attributed:
        typer.echo("T-SHAP: the text's share in the score of the caption; the rest is the image's")


def _print_warnings(results: Path) -> None:
    """Print what could not be scored or attributed, and why."""
    from waltz.reporting.run_records import list_warnings, read_records

    files = [file for stage in ("evaluation", "attribution") for file in sorted(results.glob(f"{stage}/*/*.run.json"))]
    for record in read_records(files, results):
        for kind, count, reasons in list_warnings(record):
            if reasons:
                typer.echo(f"{record.name}: {count} {kind} ({reasons})")


def _format_measure(row: Mapping[str, Any], name: str) -> str:
    if row[name] is None:
        return row[f"{name}_reason"] or "–"
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{row[name]:.1f}" + ("" if low is None or high is None else f" [{low:.1f}, {high:.1f}]")


def _write_results(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    if file.suffix == ".json":
        write_text(file, json.dumps(rows, indent=1) + "\n")
    else:
        write_csv(file, list(rows[0]), rows)
