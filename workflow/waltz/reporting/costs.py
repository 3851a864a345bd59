"""Costs of a run from its run records, scaled to a larger one: the tables of docs/how-to/running-the-thesis.md.

`PYTHONPATH=workflow python -m waltz.reporting.costs results/thesis --items attribution:encoder=700`.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from waltz.core.errors import UserError
from waltz.model_registry import load_registry
from waltz.reporting.run_records import SUFFIX, Record, read_records

RATE = 1e14
"""Effective operations per second of a GPU in half precision: a third of an A100's peak."""
FLOAT32_SHARE = 0.065
"""Rate in single precision as a share of `RATE`, as the peaks of an A100 without TF32 (19.5e12 of 3e14)."""
DETECTOR_OPERATIONS = {"vg-frcnn": 2.05e12, "vilbert-x152": 1.6e12}
"""Operations of each detector on an image of 800 x 1,066 to 1,333 pixels. Those of `vg-frcnn` were counted by
`torch.utils.flop_counter`: 1.76e12 of them are the last stage on 300 proposals, the others the map of the image. Those
of `vilbert-x152` were computed from the sizes of its layers."""
INPUT_LENGTHS = {"text": 100, "masked": 30, "classifier": 60, "vision": 700}
"""Positions of one forward pass by kind; `ENCODER_LENGTH` for an encoder of image and text."""
ENCODER_LENGTH = 300
STAGES = ("evaluation", "attribution", "consistency")
"""Stages whose records are counted: they run one model on items."""
TILED_LENGTHS = {"llava-next-mistral": 2900, "llava-next-vicuna": 2900}
"""Positions of models that split an image into tiles."""


@dataclass(frozen=True)
class Cost:
    """Cost of one model in one stage.

    Attributes:
        stage: Name of the stage.
        model: Name of the model.
        runs: Number of run records.
        items: Number of different items of a profile.
        passes: Forward passes: the evaluations that the records count, else rows written.
        seconds: Wall time.
        memory_mb: Largest memory of a job.
        scaled: Passes scaled to the requested number of items for each data set.
        gpu_hours: Time of the scaled passes at `RATE`; None for a model that is not registered.
    """

    stage: str
    model: str
    runs: int
    items: int
    passes: int
    seconds: float
    memory_mb: int
    scaled: float
    gpu_hours: float | None


def compute_costs(
    records: Sequence[Record], items: Mapping[str, int], requested: Mapping[str, int], rate: float = RATE
) -> list[Cost]:
    """Compute the costs by stage and model, in the order of the records, for the stages in `STAGES`.

    Args:
        records: Run records: one for each data set, or one for each shard with the data set's name.
        items: Number of different items of a profile, by the name of the records.
        requested: Number of items for each data set to scale to, by stage (`attribution`), or by stage and kind
            (`attribution:encoder`), which comes first.
        rate: Operations per second in half precision.
    """
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in filter(_is_counted, records):
        groups.setdefault((record.stage, str(record.models[0]["name"])), []).append(record)
    return [
        _compute_cost(stage, model, members, items, _get_requested(requested, stage, model), rate)
        for (stage, model), members in groups.items()
    ]


def count_items(records: Sequence[Record], results: Path) -> dict[str, int]:
    """Return the number of different items in the file next to each counted record, by the record's name.

    Profiles may select different items of a data set; the larger number counts.
    """
    names = dict.fromkeys(record.name for record in filter(_is_counted, records))
    return {name: _count_file_items(results / f"{name}.parquet") for name in names}


def _is_counted(record: Record) -> bool:
    """Return whether a record is of one model in one of `STAGES`."""
    return record.stage in STAGES and len(record.models) == 1


def _count_file_items(file: Path) -> int:
    """Return the largest number of different items of a profile."""
    rows = (
        pq.read_table(file, columns=["profile", "item_id"])
        .group_by("profile")
        .aggregate([("item_id", "count_distinct")])
    )
    return max(rows["item_id_count_distinct"].to_pylist(), default=0)


def estimate_seconds(model: str, passes: float, rate: float) -> float | None:
    """Estimate the seconds of forward passes, 2 x parameters x positions operations each; None if unregistered.

    An encoder whose regions a detector finds pays for one pass of the detector with each of its own. This is an upper
    limit, because a masked image is looked at once with all of its masked texts.

    Args:
        rate: Operations per second in half precision; a model in single precision has `FLOAT32_SHARE` of it.
    """
    spec = load_registry().get(model)
    if spec is None:
        return None
    positions = TILED_LENGTHS.get(model, INPUT_LENGTHS.get(spec.kind, ENCODER_LENGTH))
    operations = 2.0 * spec.parameters * positions
    operations += DETECTOR_OPERATIONS.get(spec.detector, 0)
    return passes * operations / (rate * FLOAT32_SHARE if spec.dtype == "float32" else rate)


def _get_requested(requested: Mapping[str, int], stage: str, model: str) -> int | None:
    """Return the number of items to scale a model's runs to, None for those of the records."""
    spec = load_registry().get(model)
    kind = "decoder" if spec is None or spec.kind in INPUT_LENGTHS else "encoder"
    return requested.get(f"{stage}:{kind}", requested.get(stage))


def format_costs(costs: Sequence[Cost]) -> str:
    """Format costs as a Markdown table."""
    header = ("stage", "model", "runs", "items", "passes", "seconds", "MB", "passes, scaled", "GPU hours, scaled")
    rows = [
        (
            cost.stage,
            cost.model,
            f"{cost.runs:,}",
            f"{cost.items:,}",
            f"{cost.passes:,}",
            f"{cost.seconds:,.1f}",
            f"{cost.memory_mb:,}",
            f"{cost.scaled:,.0f}",
            "-" if cost.gpu_hours is None else f"{cost.gpu_hours:,.2f}",
        )
        for cost in costs
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, ("---",) * len(header), *rows))


def _compute_cost(
    stage: str, model: str, records: Sequence[Record], items: Mapping[str, int], requested: int | None, rate: float
) -> Cost:
    """Compute the cost of one model in one stage."""
    passes = [int(record.facts.get("evaluations") or record.facts["rows_out"]) for record in records]
    counts = [items[record.name] for record in records]
    scaled = sum(n * requested / count if requested and count else n for n, count in zip(passes, counts, strict=True))
    seconds = estimate_seconds(model, scaled, rate)
    return Cost(
        stage,
        model,
        len(records),
        sum({record.name: items[record.name] for record in records}.values()),
        sum(passes),
        sum(float(record.facts["wall_seconds"]) for record in records),
        max(int(record.facts["peak_memory_mb"]) for record in records),
        scaled,
        None if seconds is None else seconds / 3600,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the costs of a run."""
    parser = argparse.ArgumentParser(prog="waltz.reporting.costs", description=main.__doc__)
    parser.add_argument("results", type=Path, help="results of a study, such as results/thesis")
    parser.add_argument(
        "--items",
        action="append",
        default=[],
        metavar="STAGE[:KIND]=N",
        help="items per data set to scale to, KIND encoder or decoder",
    )
    parser.add_argument("--rate", type=float, default=RATE, help="operations per second of the GPU in half precision")
    options = parser.parse_args(arguments)
    requested = dict(part.split("=", 1) for part in options.items)
    files = [file for file in sorted(options.results.rglob(f"*{SUFFIX}")) if "shards" not in file.parts]
    if not files:
        raise SystemExit(f"{options.results}: no run records; name the results folder of a finished study")
    try:
        records = read_records(files, options.results)
    except UserError as error:
        raise SystemExit(str(error)) from None
    sizes = {stage: int(n) for stage, n in requested.items()}
    costs = compute_costs(records, count_items(records, options.results), sizes, options.rate)
    print(format_costs(costs), end="")


if __name__ == "__main__":
    main()
