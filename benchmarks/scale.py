"""CPU seconds, peak memory and sizes of files of the stages after the models, for studies of
different sizes.

    python benchmarks/scale.py [--items N ...] [--models N] [--datasets N] [--profiles NAME ...]
    [--json FILE] [--stages NAME ...]

All models have made-up scores for caption and foil of N items, of which two share an image, in one
or several data sets. Each stage runs in a process of its own: `metrics_part`, `comparisons_part`
and `metrics` are the scripts of the workflow (the last one compares models over all data sets),
`report` writes a page of the models' metrics and of 12 items, `cache` opens the results that
another job stored, one for each item, and reads 1,000 of them, `balance` selects a fifth of N
candidates, of which some share a caption.
"""

import argparse
import json
import os
import runpy
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from waltz.benchmark.balance import BalanceLimits, select_balanced
from waltz.core.files import parquet, result_cache
from waltz.core.records import write_records
from waltz.core.schema import (
    BENCHMARK,
    EVALUATION,
    CandidateRecord,
    ComparisonRecord,
    MetricRecord,
)
from waltz.evaluation.settings import ALIGNMENT
from waltz.reporting.page.example_items import read_example_items
from waltz.reporting.page.examples import read_browser_data
from waltz.reporting.page.report import ReportInputs, write_report

SCRIPTS = Path(__file__).resolve().parent.parent / "workflow" / "scripts"
INSTRUMENT = "pairs"
RESAMPLING = {"resamples": 1000, "confidence": 0.95, "seed": 0}
SHOWN, LOOKUPS = 12, 1_000


def main() -> None:
    """Run all stages for each number of items, and print a table."""
    arguments = read_arguments()
    if arguments.child:
        stage, folder = arguments.child
        run_stage(stage, Path(folder))
        return
    rows = []
    for items in arguments.items:
        with tempfile.TemporaryDirectory() as folder:
            study = {
                "items": items,
                "models": [f"model-{number}" for number in range(arguments.models)],
                "datasets": [f"pairs-{number}" for number in range(arguments.datasets)],
                "profiles": arguments.profiles,
            }
            (Path(folder) / "study.json").write_text(json.dumps(study))
            measure_stage("make", folder)
            for stage in arguments.stages:
                row = {"items": items, "stage": stage, **measure_stage(stage, folder)}
                rows.append(row)
                print(
                    "{items:>7,} {stage:16} {cpu_seconds:8.1f} CPU-s {wall_seconds:8.1f} s {peak_mb:6,} MB"
                    " {files_mb:8.1f} MB of files".format(**row),
                    flush=True,
                )
    if arguments.json:
        facts = {
            "models": arguments.models,
            "datasets": arguments.datasets,
            "profiles": arguments.profiles,
        }
        text = json.dumps({**facts, **RESAMPLING, "stages": rows}, indent=1)
        arguments.json.write_text(text + "\n")


def read_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--datasets", type=int, default=1)
    parser.add_argument("--profiles", nargs="+", default=["published", "equations"])
    parser.add_argument("--stages", nargs="+", default=list(STAGES), choices=STAGES)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def measure_stage(stage: str, folder: str) -> dict[str, float]:
    """Run a stage in a new process, and return its seconds, memory and new files."""
    before = measure_files(folder)
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, __file__, "--child", stage, folder])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{stage} failed; see above and {folder}")
    return {
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "wall_seconds": round(time.perf_counter() - start, 1),
        "peak_mb": round(usage.ru_maxrss / 1024),
        "files_mb": round((measure_files(folder) - before) / 1e6, 2),
    }


def measure_files(folder: str) -> int:
    """Return the number of bytes of all files in a folder."""
    return sum(
        path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()
    )


def run_stage(stage: str, folder: Path) -> None:
    """Run one stage on the files of a study."""
    study = json.loads((folder / "study.json").read_text())
    {"make": make_study, **STAGES}[stage](folder, study)


def make_study(folder: Path, study: Mapping[str, Any]) -> None:
    """Write the items, and the scores of all models."""
    generator = np.random.default_rng(0)
    n = study["items"]
    ids = [f"{INSTRUMENT}:made-up:{number}" for number in range(n)]
    images = [f"images/{number // 2:012}.jpg" for number in range(n)]
    # Positions of the items of each data set, as equal in number as can be.
    positions = np.array_split(np.arange(n), len(study["datasets"]))
    for dataset, group in zip(study["datasets"], positions, strict=True):
        write_items(
            get_items(folder, dataset),
            [ids[number] for number in group],
            [images[number] for number in group],
        )
    for number in range(n):
        key = result_cache.compute_key(number=number)
        result_cache.save(folder / ".store" / "other.sqlite", key, np.zeros(2))
    # Rows of one model: both texts of each item in each profile.
    columns = {
        "dataset": np.repeat(
            study["datasets"], [2 * len(group) for group in positions]
        ),
        "item_id": np.repeat(ids, 2),
        "role": ["caption", "foil"] * n,
        "setting": [ALIGNMENT] * (2 * n),
        "image": np.repeat(images, 2),
        "tokens": pa.array([12] * (2 * n), pa.int32()),
        "rounding": np.full(2 * n, 1e-6),
    }
    layout = EVALUATION.with_dataset()
    is_caption = np.tile([True, False], n)
    difficulty = generator.normal(size=n).repeat(2)
    for model in study["models"]:
        score = generator.normal(size=2 * n) + is_caption * (1 + difficulty)
        columns |= {
            "score": score,
            "probability": 1 / (1 + np.exp(-score)),
            "prediction": np.where(score > 0, "match", "mismatch"),
            "correct": (score > 0) == is_caption,
        }
        tables = [
            build_table({**columns, "profile": [profile] * (2 * n)}, layout.schema)
            for profile in study["profiles"]
        ]
        parquet.write(
            get_scores(folder, model),
            pa.concat_tables(tables),
            layout,
            model=model,
            datasets=json.dumps(study["datasets"]),
        )


def write_items(file: Path, ids: Sequence[str], images: Sequence[str]) -> None:
    """Write the items of a data set."""
    columns = {
        "item_id": ids,
        "image": images,
        "instrument": [INSTRUMENT] * len(ids),
        "piece": [INSTRUMENT] * len(ids),
        "source": ["made-up"] * len(ids),
        "caption": ["two dogs look at a cat below the table"] * len(ids),
        "foil": ["four dogs look at a cat below the table"] * len(ids),
        "caption_phrases": [["two"]] * len(ids),
        "foil_phrases": [["four"]] * len(ids),
        "kept": [True] * len(ids),
    }
    parquet.write(file, build_table(columns, BENCHMARK.schema), BENCHMARK)


def build_table(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """Return a table of a schema whose other columns are null."""
    n = len(next(iter(columns.values())))
    arrays = []
    for field in schema:
        values = columns.get(field.name)
        if values is None:
            arrays.append(pa.nulls(n, field.type))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.table(arrays, schema=schema)


def get_items(folder: Path, dataset: str) -> Path:
    """Return the file of the items of a data set."""
    return folder / "benchmark" / f"{dataset}.parquet"


def get_scores(folder: Path, model: str) -> Path:
    """Return the file of a model's scores."""
    return folder / "evaluation" / model / "pairs.parquet"


def list_scores(folder: Path, study: Mapping[str, Any]) -> list[str]:
    """Return the files of all models' scores."""
    return [str(get_scores(folder, model)) for model in study["models"]]


def list_runs(study: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return model and data set of each run."""
    return list(product(study["models"], study["datasets"]))


def run_script(
    name: str,
    folder: Path,
    study: Mapping[str, Any],
    output: Mapping[str, Path],
    **facts: Any,
) -> None:
    """Run a script of the workflow as its rule does.

    Args:
        name: File of the script.
        folder: Folder of the study.
        study: Facts about the study.
        output: Output files by name.
        facts: Further inputs (`inputs`) and parameters (`params`).
    """
    inputs = {"scores": list_scores(folder, study), **facts.get("inputs", {})}
    params = {
        "resampling": RESAMPLING,
        "runs": list_runs(study),
        "profiles": study["profiles"],
        "controls": [],
        **facts.get("params", {}),
    }
    job = SimpleNamespace(
        input=SimpleNamespace(**inputs),
        output=SimpleNamespace(**output),
        params=SimpleNamespace(**params),
        log=[str(folder / "logs" / name)],
    )
    runpy.run_path(str(SCRIPTS / name), init_globals={"snakemake": job})


def run_metrics_part(folder: Path, study: Mapping[str, Any]) -> None:
    """Compute the metrics of all models."""
    datasets = study["datasets"]
    run_script(
        "metrics_part.py",
        folder,
        study,
        {"metrics": folder / "metrics_part.parquet"},
        inputs={
            "probes": [],
            "questions": [],
            "pairs": [str(get_items(folder, name)) for name in datasets],
        },
        params={"questions": {}, "pairs": datasets, "seed": 0, "averaged": []},
    )


def run_comparisons_part(folder: Path, study: Mapping[str, Any]) -> None:
    """Compare all models with each other."""
    output = {"comparisons": folder / "comparisons_part.parquet"}
    run_script("comparisons_part.py", folder, study, output)


def run_metrics(folder: Path, study: Mapping[str, Any]) -> None:
    """Collect the metrics and comparisons of all parts."""
    run_script(
        "metrics.py",
        folder,
        study,
        {
            "metrics": folder / "metrics.parquet",
            "comparisons": folder / "comparisons.parquet",
        },
        inputs={
            "parts": keep_existing(folder / "metrics_part.parquet", MetricRecord),
            "comparisons": keep_existing(
                folder / "comparisons_part.parquet", ComparisonRecord
            ),
        },
        params={"parts": {"all": list_runs(study)}},
    )


def keep_existing(file: Path, record_type: Any) -> list[Path]:
    """Return a file, which is written without rows if its stage did not run."""
    if not file.exists():
        write_records(file, [], record_type)
    return [file]


def run_report(folder: Path, study: Mapping[str, Any]) -> None:
    """Write the page with the examples of all models."""
    evaluation = [
        (model, dataset, str(get_scores(folder, model)))
        for model, dataset in list_runs(study)
    ]
    items = read_example_items(
        {name: str(get_items(folder, name)) for name in study["datasets"]}, {}, {}, 0
    )
    browser = read_browser_data(items, {"evaluation": evaluation}, {}, SHOWN, 0)
    write_report(folder / "report.html", ReportInputs("made-up", browser=browser))


def run_cache(folder: Path, study: Mapping[str, Any]) -> None:
    """Open the results that another job stored, and look for some."""
    file = folder / ".store" / "own.sqlite"
    for number in range(LOOKUPS):
        key = result_cache.compute_key(number=number * study["items"] // LOOKUPS)
        assert result_cache.load(file, key) is not None


def run_balance(folder: Path, study: Mapping[str, Any]) -> None:
    """Select a fifth of the candidates, a third of which share a caption with another."""
    generator = np.random.default_rng(0)
    n = study["items"]
    words = list(string.ascii_letters)
    weights = 1 / np.arange(1, len(words) + 1)
    candidates = []
    for number in range(n):
        removed, inserted = generator.choice(
            words, 2, replace=False, p=weights / weights.sum()
        )
        candidates.append(
            CandidateRecord(
                item_id=f"toy:{number}",
                image="i",
                instrument="toy",
                piece="toy",
                source="toy",
                source_id=str(generator.integers(n)),
                direction="swap",
                caption="a",
                foil="b",
                caption_phrases=[str(removed)],
                foil_phrases=[str(inserted)],
            )
        )
    limits = BalanceLimits(size=n // 5, js=0.1, cap="even")
    print(len(select_balanced(candidates, limits, 0)), "selected")


STAGES = {
    "metrics_part": run_metrics_part,
    "comparisons_part": run_comparisons_part,
    "metrics": run_metrics,
    "report": run_report,
    "cache": run_cache,
    "balance": run_balance,
}


if __name__ == "__main__":
    main()
