"""What a run cost, from its run records, and what a larger one would: the tables of docs/how-to/running-the-thesis.md.

`PYTHONPATH=workflow python -m waltz.reporting.costs results/thesis --items attribution=100 --items consistency=100`.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from waltz.core.errors import UserError
from waltz.models.registry import load_registry
from waltz.reporting.page.run_facts import SUFFIX, Record, read_records

RATE = 1e14
"""Operations a second that a GPU really does: a third of what an A100 states in half precision."""
INPUT_LENGTHS = {"text": 100, "masked": 30, "classifier": 60, "vision": 700}
"""Positions that one pass reads, by kind; an encoder of image and text reads `ENCODED`."""
ENCODER_LENGTH = 300
STAGES = ("evaluation", "attribution", "consistency")
"""Those that ask one model about items, whose records are counted."""
TILED_LENGTHS = {"llava-next-mistral": 2900, "llava-next-vicuna": 2900}
"""Positions of models that cut an image into tiles."""


@dataclass(frozen=True)
class Cost:
    """What one model did in one stage.

    Attributes:
        stage: Name of the stage.
        model: Name of the model.
        runs: How many records say so.
        items: Different items of a profile in what was written.
        passes: Forward passes: the evaluations that the records count, else rows written.
        seconds: Wall time.
        memory_mb: Largest memory of a job.
        scaled: Passes at as many items a data set as asked for; the same where nothing is asked.
        gpu_hours: Time of these at `RATE`; None for a model that is not registered.
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
    records: Sequence[Record], items: Mapping[str, int], wanted: Mapping[str, int], rate: float = RATE
) -> list[Cost]:
    """Costs by stage and model, in the order of the records; of `STAGES` those of one model.

    Args:
        records: Run records; one a data set, or one a shard of it under the name of the whole.
        items: Different items of a profile in each data set, by the name of its records.
        wanted: Items a data set to scale to, by stage.
        rate: Operations a second.
    """
    found: dict[tuple[str, str], list[Record]] = {}
    for record in filter(_is_counted, records):
        found.setdefault((record.stage, str(record.models[0]["name"])), []).append(record)
    return [_compute_cost(stage, model, of, items, wanted.get(stage), rate) for (stage, model), of in found.items()]


def count_items(records: Sequence[Record], results: Path) -> dict[str, int]:
    """How many different items a profile has in the file beside each record that is counted, by the record's name.

    Profiles may draw different items of a data set; the larger number counts.
    """
    names = dict.fromkeys(record.name for record in filter(_is_counted, records))
    return {name: _count_released_items(results / f"{name}.parquet") for name in names}


def _is_counted(record: Record) -> bool:
    return record.stage in STAGES and len(record.models) == 1


def _count_released_items(file: Path) -> int:
    rows = (
        pq.read_table(file, columns=["profile", "item_id"])
        .group_by("profile")
        .aggregate([("item_id", "count_distinct")])
    )
    return max(rows["item_id_count_distinct"].to_pylist(), default=0)


def estimate_operations(model: str, passes: float) -> float | None:
    """Floating-point operations of some passes: 2 x parameters x positions each; None for an unregistered model."""
    spec = load_registry().get(model)
    if spec is None:
        return None
    positions = TILED_LENGTHS.get(model, INPUT_LENGTHS.get(spec.kind, ENCODER_LENGTH))
    return 2.0 * spec.parameters * positions * passes


def format_costs(found: Sequence[Cost]) -> str:
    """The costs as a table."""
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
        for cost in found
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, ("---",) * len(header), *rows))


def _compute_cost(
    stage: str, model: str, records: Sequence[Record], items: Mapping[str, int], wanted: int | None, rate: float
) -> Cost:
    passes = [int(record.facts.get("evaluations") or record.facts["rows_out"]) for record in records]
    of = [items[record.name] for record in records]
    scaled = sum(one * wanted / count if wanted and count else one for one, count in zip(passes, of, strict=True))
    work = estimate_operations(model, scaled)
    return Cost(
        stage,
        model,
        len(records),
        sum({record.name: items[record.name] for record in records}.values()),
        sum(passes),
        sum(float(record.facts["wall_seconds"]) for record in records),
        max(int(record.facts["peak_memory_mb"]) for record in records),
        scaled,
        None if work is None else work / rate / 3600,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the costs of a run."""
    parser = argparse.ArgumentParser(prog="waltz.reporting.costs", description=main.__doc__)
    parser.add_argument("results", type=Path, help="results of a study, such as results/thesis")
    parser.add_argument("--items", action="append", default=[], metavar="STAGE=N", help="items a data set to scale to")
    parser.add_argument("--rate", type=float, default=RATE, help="operations a second of the GPU")
    given = parser.parse_args(arguments)
    wanted = dict(part.split("=", 1) for part in given.items)
    files = [file for file in sorted(given.results.rglob(f"*{SUFFIX}")) if "shards" not in file.parts]
    if not files:
        raise SystemExit(f"{given.results} holds no run records; name the results of a study that was run")
    try:
        records = read_records(files, given.results)
    except UserError as error:
        raise SystemExit(str(error)) from None
    found = compute_costs(
        records, count_items(records, given.results), {stage: int(n) for stage, n in wanted.items()}, given.rate
    )
    print(format_costs(found), end="")


if __name__ == "__main__":
    main()
