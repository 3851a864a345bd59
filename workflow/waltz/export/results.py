"""Results of the models of a study: records of Every Eval Ever, and files for the models' repositories on the hub."""

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

import waltz
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.atomic import write_text
from waltz.core.schema import METRICS
from waltz.export.tasks import HUB_DATASET
from waltz.reporting.run_records import Record, read_records, resolve_revisions

SCHEMA_VERSION = "0.3.0"
HUB_MODEL = re.compile(r"(\w[\w.-]*)/(\w[\w.-]*)")
LOWER_IS_BETTER = ("ties",)
HUB_METRIC = "acc_r"
"""The metric of the benchmark's tasks on the hub."""
STATED = ("revision", "dtype", "kind")
"""Fields of a run record's model that a result states."""
Row = Mapping[str, Any]
Json = dict[str, Any]


def export_results(
    inputs: Mapping[str, Any], settings: Mapping[str, Any], folder: Path, timestamp: int
) -> dict[str, Any]:
    """Write the metrics of stage evaluation as `data/<study>/<developer>/<model>/<uuid>.json`.

    If `export.url` names a data set of the hub, each model of the hub has files of its `acc_r` as well, one for each
    profile and setting, in the layout of its repository: `hub/<owner>/<model>/.eval_results/<study>-….yaml`.

    Args:
        inputs: Files of rule `export_results` by name: metrics and run records.
        settings: Params of rule `export_results`.
        folder: New folder.
        timestamp: Seconds since 1970 that the records state as their time of creation; they do not change the names.
    Returns:
        Facts of the run record: numbers read and written, and reasons of those without a value with their numbers.
    """
    rows = parquet.read_rows(inputs["metrics"], METRICS)
    results = Path(inputs["metrics"]).parents[1]
    records = resolve_revisions(read_records(inputs["records"], results), settings["locked"], Path(settings["lock"]))
    missing: dict[str, int] = {}
    for row in rows:
        if row["value"] is None:
            missing[row["reason"]] = missing.get(row["reason"], 0) + 1
    written = 0
    for model in dict.fromkeys(row["model"] for row in rows):
        model_rows = [row for row in rows if row["model"] == model and row["value"] is not None]
        if not model_rows:
            continue
        record = build_result(model, model_rows, records, settings)
        _write_hub_results(folder / "hub", record, model_rows, settings)
        digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).digest()
        developer, name = record["model_info"]["id"].split("/")
        record["retrieved_timestamp"] = str(timestamp)
        record["evaluation_id"] = f"{settings['study']}/{developer}_{name}/{timestamp}"
        path = (
            folder / "data" / settings["study"] / developer / name / f"{uuid.UUID(bytes=digest[:16], version=4)}.json"
        )
        write_text(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        written += len(model_rows)
    return {"rows_in": len(rows), "rows_out": written, "without_value": missing}


def _write_hub_results(folder: Path, record: Json, rows: Iterable[Row], settings: Mapping[str, Any]) -> None:
    """Write the `acc_r` of a model of the hub on the parts of a data set of the hub; without both, nothing."""
    match, model = HUB_DATASET.fullmatch(str(settings["about"].get("url", ""))), record["model_info"]
    if match is None or model["additional_details"]["model_availability"] != "open_weights":
        return
    entries: dict[str, list[EvalResultEntry]] = {}
    for row in rows:
        if row["metric"] != HUB_METRIC or row["dataset"] not in settings["parts"]:
            continue
        interval = ""
        if row["ci_low"] is not None:
            interval = f" ({100 * settings['confidence']:g} % interval {row['ci_low']:.1f} to {row['ci_high']:.1f})"
        notes = (
            f"{HUB_METRIC} in percent{interval} of {row['n']} pairs; {row['setting']}, profile {row['profile']}, seed"
            f" {settings['seed']}, waltz {waltz.__version__}, model at {model['additional_details'].get('revision')}"
        )
        entry = EvalResultEntry(match[1], row["dataset"], row["value"], source_url=match[0], notes=notes)
        entries.setdefault(f"{settings['study']}-{row['profile']}-{row['setting']}.yaml", []).append(entry)
    for name, numbers in entries.items():
        text = yaml.safe_dump(eval_result_entries_to_yaml(numbers), sort_keys=False, allow_unicode=True, width=100)
        write_text(folder / model["id"] / ".eval_results" / name, text)


def build_result(model: str, rows: Sequence[Row], records: Sequence[Record], settings: Mapping[str, Any]) -> Json:
    """Build the record of one model, without its id and time; models whose weights are not on the hub are `local/…`.

    Args:
        rows: Its rows of the layout `METRICS`, each with a value.
        records: Run records of the study.
        settings: Params of rule `export_results`.
    Raises:
        UserError: No run record names the model.
    """
    runs = [record.facts for record in records if any(entry["name"] == model for entry in record.models)]
    if not runs:
        raise UserError(f"evaluation: no run record names the model {model!r}; run `snakemake evaluation` again")
    loaded = next(entry for record in records for entry in record.models if entry["name"] == model)
    stated = {name: str(loaded[name]) for name in STATED if name in loaded}
    weights = settings["weights"].get(model, "")
    on_hub = HUB_MODEL.fullmatch(weights) is not None and stated.get("revision") != "local"
    packages = {f"package {name}": version for name, version in runs[0].get("packages", {}).items()}
    return {
        "schema_version": SCHEMA_VERSION,
        "source_metadata": {
            "source_name": f"waltz, study {settings['study']}",
            "source_type": "evaluation_run",
            "source_organization_name": ", ".join(settings["about"].get("creators", [])) or "unknown",
            "evaluator_relationship": "other",
            "additional_details": {
                key: ", ".join(dict.fromkeys(str(run[key]) for run in runs if key in run))
                for key in ("commit", "device")
            },
        },
        "eval_library": {"name": "waltz", "version": waltz.__version__, "additional_details": packages},
        "model_info": {
            "name": model,
            "id": weights if on_hub else f"local/{model}",
            "additional_details": {
                "deployment_type": "self_deployed",
                "model_availability": "open_weights" if on_hub else "unknown",
                **stated,
            },
        },
        "evaluation_results": [_build_number(row, runs, settings) for row in rows],
    }


def _build_number(row: Row, runs: Iterable[Mapping[str, Any]], settings: Mapping[str, Any]) -> Json:
    """Return one number with its interval, the data that it was measured on, and how to compute it again."""
    dataset = row["dataset"].partition(":")[0]
    digests = [str(run["data"]) for run in runs if run.get("dataset") == dataset and "data" in run]
    match = HUB_DATASET.fullmatch(str(settings["about"].get("url", "")))
    published = match is not None and dataset in settings["parts"]
    hub = {"hf_repo": match[1], "hf_split": "test", "samples_number": row["n"]} if match and published else {}
    uncertainty: Json = {"num_samples": row["n"]}
    if row["ci_low"] is not None:
        uncertainty["num_bootstrap_samples"] = settings["resamples"]
        uncertainty["confidence_interval"] = {
            "lower": row["ci_low"],
            "upper": row["ci_high"],
            "confidence_level": settings["confidence"],
            "method": "bootstrap",
        }
    how = {name: row[name] for name in ("profile", "setting")} | {"seed": str(settings["seed"])}
    return {
        "evaluation_result_id": "/".join(row[name] for name in ("dataset", "profile", "setting", "metric")),
        "evaluation_name": row["dataset"],
        "source_data": {
            "dataset_name": f"{settings['study']}/{dataset}",
            "source_type": "hf_dataset" if published else "other",
            **hub,
            "additional_details": {"data SHA-256": digests[0]} if digests else {},
        },
        "metric_config": {
            "metric_id": f"waltz.{row['metric']}",
            "metric_name": row["metric"],
            "metric_unit": "percent",
            "score_type": "continuous",
            "min_score": 0,
            "max_score": 100,
            "lower_is_better": row["metric"] in LOWER_IS_BETTER,
        },
        "score_details": {"score": row["value"], "uncertainty": uncertainty},
        "generation_config": {"additional_details": how},
    }
