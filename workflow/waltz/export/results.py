"""Write the results of a study's models: records of Every Eval Ever, and files for repositories on
the hub.
"""

import hashlib
import json
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

import waltz
from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.core.files.json_objects import JsonObject
from waltz.core.intervals import BOOTSTRAP
from waltz.core.records import read_records
from waltz.core.schema import MetricRecord
from waltz.export.facts import Entry
from waltz.export.tasks import HUB_DATASET
from waltz.reporting.run_records import (
    RunModel,
    RunRecord,
    read_study_records,
    resolve_revisions,
)

SCHEMA_VERSION = "0.3.0"
HUB_MODEL = re.compile(r"(\w[\w.-]*)/(\w[\w.-]*)")
LOWER_IS_BETTER = ("ties",)
HUB_METRIC = "acc_r"
"""The metric of the benchmark's tasks on the hub."""
STATED = ("revision", "dtype", "kind")
"""Fields of a run record's model that a result states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSettings:
    """Hold the settings of rule `export_results`.

    Attributes:
        study: Name of the study.
        seed: Seed of the study.
        resamples: Number of resamples of a bootstrap interval.
        confidence: Level of the intervals, a share of 1.
        parts: Data sets that the export of the benchmark has.
        weights: Weights of each model: a hub id or a path.
        locked: Sources of the models' weights whose commits the lock file records.
        lock: Path of the lock file.
        about: Entry `export` of the study.
    """

    study: str
    seed: int
    resamples: int
    confidence: float
    parts: Sequence[str]
    weights: Mapping[str, str]
    locked: Mapping[str, str]
    lock: str
    about: Entry

    def find_hub_dataset(self) -> re.Match[str] | None:
        """Return the match of the data set's address on the hub, with the id as group 1; None
        without an address.
        """
        return HUB_DATASET.fullmatch(str(self.about.get("url", "")))


def export_results(
    metrics: Path,
    records: Sequence[str],
    settings: ResultSettings,
    folder: Path,
    timestamp: int,
) -> dict[str, object]:
    """Write the metrics of stage evaluation as `data/<study>/<developer>/<model>/<uuid>.json`.

    If `export.url` names a data set of the hub, each model of the hub also has files of its
    `acc_r`, one for each fidelity and setting, in the layout of its repository:
    `hub/<owner>/<model>/.eval_results/<study>-….yaml`.

    Args:
        metrics: Parquet file of the metrics.
        records: Files of the run records of stage evaluation.
        settings: The settings.
        folder: New folder.
        timestamp: Seconds since 1970 that the records state as their time of creation; they do not
            change the names.
    Returns:
        Facts of the run record: numbers of metrics that were read and written, and of metrics
        without a value by reason.
    """
    numbers = list(read_records(metrics, MetricRecord))
    runs = read_study_records(records, metrics.parents[1])
    runs = resolve_revisions(runs, settings.locked, Path(settings.lock))
    # Numbers without a value are counted, not exported: the schema has no null.
    missing = Counter(
        number.measure.reason for number in numbers if number.measure.value is None
    )
    n_written = 0
    for model in dict.fromkeys(number.model for number in numbers):
        model_numbers = [
            number
            for number in numbers
            if number.model == model and number.measure.value is not None
        ]
        if not model_numbers:
            continue
        result = build_result(model, model_numbers, runs, settings)
        _write_hub_results(folder / "hub", result, model_numbers, settings)
        _write_result(folder / "data", settings.study, result, timestamp)
        n_written += len(model_numbers)
    return {
        "rows_in": len(numbers),
        "rows_out": n_written,
        "without_value": dict(missing),
    }


def _write_result(folder: Path, study: str, result: JsonObject, timestamp: int) -> None:
    """Write the record of a model in a file that is named by its content without the time."""
    # Without the time, so that the same results have the same name.
    digest = hashlib.sha256(json.dumps(result, sort_keys=True).encode()).digest()
    developer, name = result["model_info"]["id"].split("/")
    document = result | {
        "retrieved_timestamp": str(timestamp),
        "evaluation_id": f"{study}/{developer}_{name}/{timestamp}",
    }
    path = (
        folder
        / study
        / developer
        / name
        / f"{uuid.UUID(bytes=digest[:16], version=4)}.json"
    )
    write_text(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _write_hub_results(
    folder: Path,
    result: JsonObject,
    numbers: Iterable[MetricRecord],
    settings: ResultSettings,
) -> None:
    """Write `acc_r` of a model on the parts of a data set; write nothing unless the hub has both
    model and data set.
    """
    dataset, model = settings.find_hub_dataset(), result["model_info"]
    if (
        dataset is None
        or model["additional_details"]["model_availability"] != "open_weights"
    ):
        return
    revision = model["additional_details"].get("revision")
    entries: dict[str, list[EvalResultEntry]] = {}
    for number in numbers:
        if number.metric != HUB_METRIC or number.dataset not in settings.parts:
            continue
        notes = _describe_number(number, revision, settings)
        entry = EvalResultEntry(
            dataset[1],
            number.dataset,
            number.measure.value,
            source_url=dataset[0],
            notes=notes,
        )
        name = f"{settings.study}-{number.profile}-{number.setting}.yaml"
        entries.setdefault(name, []).append(entry)
    for name, file_entries in entries.items():
        content = eval_result_entries_to_yaml(file_entries)
        text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
        write_text(folder / model["id"] / ".eval_results" / name, text)


def _describe_number(
    number: MetricRecord, revision: str | None, settings: ResultSettings
) -> str:
    """Return a sentence about the data and settings of a number, with its interval."""
    measure = number.measure
    interval = ""
    if measure.ci_low is not None:
        interval = f" ({100 * settings.confidence:g} % interval {measure.ci_low:.1f} to {measure.ci_high:.1f})"
    return (
        f"{HUB_METRIC} in percent{interval} of {measure.n} pairs; {number.setting}, profile {number.profile}, seed"
        f" {settings.seed}, waltz {waltz.__version__}, model at {revision}"
    )


def build_result(
    model: str,
    numbers: Sequence[MetricRecord],
    records: Sequence[RunRecord],
    settings: ResultSettings,
) -> JsonObject:
    """Build the record of one model, without its id and time; models whose weights are not on the
    hub are `local/…`.

    Args:
        model: Name of the model.
        numbers: Metrics of the model, each with a value.
        records: Run records of the study.
        settings: The settings.
    Raises:
        UserError: No run record names the model.
    """
    runs, entries = [], []
    for record in records:
        # A model is in the records of all its jobs.
        model_entries = [entry for entry in record.models if entry.name == model]
        if model_entries:
            runs.append(record)
            entries += model_entries
    if not runs:
        raise UserError(
            f"evaluation: no run record names the model {model!r}; run `snakemake evaluation` again"
        )
    packages = {
        f"package {name}": version for name, version in runs[0].packages.items()
    }
    commits = dict.fromkeys(run.commit for run in runs if run.commit)
    devices = dict.fromkeys(run.device for run in runs if run.device)
    run_details = {"commit": ", ".join(commits), "device": ", ".join(devices)}
    return {
        "schema_version": SCHEMA_VERSION,
        "source_metadata": {
            "source_name": f"waltz, study {settings.study}",
            "source_type": "evaluation_run",
            "source_organization_name": ", ".join(settings.about.get("creators", []))
            or "unknown",
            "evaluator_relationship": "other",
            "additional_details": run_details,
        },
        "eval_library": {
            "name": "waltz",
            "version": waltz.__version__,
            "additional_details": packages,
        },
        "model_info": _describe_model(model, entries[0], settings),
        "evaluation_results": [
            _build_number(number, runs, settings) for number in numbers
        ],
    }


def _describe_model(
    model: str, entry: RunModel, settings: ResultSettings
) -> JsonObject:
    """Return the facts of a model; `entry` is the model's entry in its first run record."""
    stated = {name: text for name in STATED if (text := getattr(entry, name))}
    weights = settings.weights.get(model, "")
    # The schema wants an id with a developer; `local` stands for none.
    model_id, availability = f"local/{model}", "unknown"
    if HUB_MODEL.fullmatch(weights) and stated.get("revision") != "local":
        model_id, availability = weights, "open_weights"
    details = {}
    if not entry.server and not entry.recorded:
        details["deployment_type"] = "self_deployed"
    details["model_availability"] = availability
    return {"name": model, "id": model_id, "additional_details": details | stated}


def _build_number(
    number: MetricRecord, runs: Iterable[RunRecord], settings: ResultSettings
) -> JsonObject:
    """Return one number with its interval, its data, and the settings to compute it again."""
    return {
        "evaluation_result_id": f"{number.dataset}/{number.profile}/{number.setting}/{number.metric}",
        "evaluation_name": number.dataset,
        "source_data": _describe_data(number, runs, settings),
        "metric_config": {
            "metric_id": f"waltz.{number.metric}",
            "metric_name": number.metric,
            "metric_unit": "percent",
            "score_type": "continuous",
            "min_score": 0,
            "max_score": 100,
            "lower_is_better": number.metric in LOWER_IS_BETTER,
        },
        "score_details": {
            "score": number.measure.value,
            "uncertainty": _describe_uncertainty(number, settings),
        },
        "generation_config": {
            "additional_details": {
                "profile": number.profile,
                "setting": number.setting,
                "seed": str(settings.seed),
            }
        },
    }


def _describe_data(
    number: MetricRecord, runs: Iterable[RunRecord], settings: ResultSettings
) -> JsonObject:
    """Return the data of a number with their checksum; they name the hub if the benchmark is there."""
    # A group of items of a data set follows a colon.
    dataset = number.dataset.partition(":")[0]
    digests = [run.data for run in runs if run.dataset == dataset and run.data]
    # Only parts of the exported benchmark are on the hub.
    hub_dataset = settings.find_hub_dataset()
    data: JsonObject = {
        "dataset_name": f"{settings.study}/{dataset}",
        "source_type": "other",
    }
    if hub_dataset is not None and dataset in settings.parts:
        data["source_type"] = "hf_dataset"
        data |= {
            "hf_repo": hub_dataset[1],
            "hf_split": "test",
            "samples_number": number.measure.n,
        }
    data["additional_details"] = {"data SHA-256": digests[0]} if digests else {}
    return data


def _describe_uncertainty(number: MetricRecord, settings: ResultSettings) -> JsonObject:
    measure = number.measure
    uncertainty: JsonObject = {"num_samples": measure.n}
    if measure.ci_low is None:
        return uncertainty
    if measure.ci_method == BOOTSTRAP:
        uncertainty["num_bootstrap_samples"] = settings.resamples
    uncertainty["confidence_interval"] = {
        "lower": measure.ci_low,
        "upper": measure.ci_high,
        "confidence_level": settings.confidence,
        "method": measure.ci_method,
    }
    return uncertainty
