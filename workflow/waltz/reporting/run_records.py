"""Run records of a study: summaries of them, revisions of downloads, and the check that runs are
compatible.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    JsonValue,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from waltz.core.downloads.checksums import LOCK_ON_DOWNLOAD
from waltz.core.downloads.lock_file import read_recorded
from waltz.core.downloads.urls import is_url
from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.core.jobs.records import describe_model_packages

SUFFIX = ".run.json"
WARNINGS = {
    "ties": "ties, in which neither text is preferred",
    "unscored": "generated texts without a score",
    "unscored_items": "items without a score",
    "unscored_texts": "texts without a score",
    "errors": "texts that could not be scored",
    "rows_with_error": "texts that could not be attributed",
    "rows_without_t_shap": "texts without a T-SHAP",
    "unusable": "source rows that could not be used",
    "close_to_a_threshold": "verdicts of a filter that lie close to its threshold",
    "small_contributions": "tokens with negligible contributions",
    "skipped_images": "images that were skipped",
}
"""Facts of a record that count faults and doubtful cases, with their names on the page.

The value of such a fact is a number, a list of cases, or numbers by reason.
"""
SETTINGS = {"commit", "seed", "device", "threads", "machine", "python"}
"""Facts of a run whose values the page lists, together with the versions of its packages."""
Text = Annotated[str, BeforeValidator(lambda value: str(value or ""))]
"""Text of a record; empty for null."""
Cases = int | list[JsonValue] | dict[str, int]
"""Cases of a warning: their number, a list of them, or their numbers by reason."""


class RunModel(BaseModel):
    """Model of a run.

    Attributes:
        name: Name of the model.
        kind: Its kind; this and the following texts are empty where the record does not state them.
        weights: Hub id, URL or path of its weights.
        revision: Commit or SHA-256 of the weights.
        dtype: Precision of the weights.
        recorded: Source of the results, for a model that was run elsewhere.
        server: Address of the server that runs the model.
    """

    model_config = ConfigDict(frozen=True)

    name: Text
    kind: Text = ""
    weights: Text = ""
    revision: Text = ""
    dtype: Text = ""
    recorded: Text = ""
    server: Text = ""


def _names_model(entry: object) -> bool:
    """Return whether an entry of a record describes a model."""
    return isinstance(entry, Mapping) and "name" in entry


class RunRecord(BaseModel):
    """Run record: the facts that a job wrote about itself next to its output.

    Attributes:
        name: Path below the study's results, without the suffix, such as
            `evaluation/clip/existence`.
        models: Models that the run used.
        dataset: Name of the data set, for a run on a group of data sets.
        data: Digest of the items that the run read.
        shard: Part of the work, such as `1 of 2`.
        rows_in: Number of rows that the run read.
        rows_out: Number of rows that it wrote.
        rejected: Number of rows that it rejected, in all or by reason.
        wall_seconds: Time of the run in seconds.
        peak_memory_mb: Largest memory of the run in MB.
        packages: Version of each package.
        device: Device of the run, such as `cuda:0`.
        device_choice: Reason for the choice of the device.
        middle_square: Whether the model sees only the square in the middle of an image.
        profiles: Fidelity profiles of the numbers.
        settings: Settings of the run, in some stages by profile.
        warnings: Cases of each kind of warning, a key of `WARNINGS`.
    """

    model_config = ConfigDict(frozen=True)

    name: str = ""
    models: tuple[RunModel, ...] = ()
    dataset: str | None = None
    data: str | None = None
    shard: str = "1 of 1"
    rows_in: int = 0
    rows_out: int = 0
    rejected: int | dict[str, int] | None = None
    wall_seconds: float = 0.0
    peak_memory_mb: int = 0
    packages: dict[str, str] = {}
    commit: str | None = None
    seed: int | None = None
    device: str | None = None
    device_choice: str | None = None
    threads: int | None = None
    machine: str | None = None
    python: str | None = None
    middle_square: bool = False
    profiles: list[str] | None = None
    settings: dict[str, JsonValue] | None = None
    warnings: dict[str, Cases] = {}

    @model_validator(mode="before")
    @classmethod
    def _collect_entries(cls, facts: Mapping[str, Any]) -> dict[str, Any]:
        """List the models, and collect the facts that are warnings.

        A record has one `model`, several `models` by their role in the run, or both.
        """
        entries = [facts.get("model"), *(facts.get("models") or {}).values()]
        models = [entry for entry in entries if _names_model(entry)]
        warnings = {key: facts[key] for key in WARNINGS if facts.get(key)}
        return {**facts, "models": models, "warnings": warnings}

    @property
    def stage(self) -> str:
        """Stage that the run belongs to, which is the first part of the name."""
        return self.name.partition("/")[0]

    @property
    def model(self) -> RunModel:
        """First model of the run; a run without models has a model without any facts."""
        return next(iter(self.models), RunModel(name=""))


_RECORDS = TypeAdapter(list[RunRecord])


@dataclass(frozen=True)
class ModelRuns:
    """Runs of one model.

    Attributes:
        model: The model; the same name with another revision or precision is another model.
        devices: Devices of the runs.
        runs: Number of runs.
        seconds: Time of the runs that used no other model.
    """

    model: RunModel
    devices: str
    runs: int
    seconds: float


@dataclass(frozen=True)
class StageRuns:
    """Runs of one stage.

    Attributes:
        stage: Name of the stage.
        runs: Number of runs.
        rows_out: Number of rows that they wrote.
        seconds: Time of all runs.
        memory: Largest memory of a run in MB.
    """

    stage: str
    runs: int
    rows_out: int
    seconds: float
    memory: int


@dataclass(frozen=True)
class RunSummary:
    """Summary of run records; each sequence is in the order of the records.

    Attributes:
        models: Runs of each model.
        stages: Runs of each stage.
        settings: Values of each setting, other than data and models; the most frequent value comes
            first.
    """

    models: Sequence[ModelRuns]
    stages: Sequence[StageRuns]
    settings: Mapping[str, Sequence[str]]


def read_study_records(
    files: Iterable[str | Path], results: str | Path
) -> list[RunRecord]:
    """Read the run records of a study.

    Args:
        files: Files of records; a file holds one record, or a list with one record for each shard.
        results: Folder of the study's results, which the names of records are relative to.
    """
    records = []
    for file in map(Path, files):
        path = file.relative_to(results).as_posix().removesuffix(SUFFIX)
        folder = path.rpartition("/")[0]
        for record in _read_file(file):
            # A file of a group has one record for each data set, which then names the record.
            name = path if record.dataset is None else f"{folder}/{record.dataset}"
            records.append(record.model_copy(update={"name": name}))
    return records


def _read_file(file: Path) -> list[RunRecord]:
    """Return the records in a file; a file with a single record gives a list of one."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        entries = content if isinstance(content, list) else [content]
        return _RECORDS.validate_python(entries)
    except OSError as error:
        raise UserError(
            f"{file}: run record cannot be read: {error.strerror}; check the path"
        ) from None
    except ValidationError as error:
        # One fault is shown at a time, the first one; a message has one line.
        fault = error.errors()[0]
        location = ".".join(map(str, fault["loc"]))
        reason = f"{location}: {fault['msg']}"
    except ValueError as error:
        reason = str(error)
    raise UserError(
        f"{file}: run record cannot be read ({reason}); delete the file next to it and run again"
    )


def summarize_runs(records: Sequence[RunRecord]) -> RunSummary:
    """Return a summary of the models, stages and settings of runs."""
    return RunSummary(
        _summarize_models(records),
        _summarize_stages(records),
        _collect_settings(records),
    )


def list_recorded_models(records: Iterable[RunRecord]) -> dict[str, str]:
    """Return the source of the results of each model that was run elsewhere."""
    sources = {}
    for record in records:
        for model in record.models:
            if model.recorded:
                sources[model.name] = model.recorded
    return sources


def list_cropping_models(records: Iterable[RunRecord]) -> list[str]:
    """Return the names of the models that see only the square in the middle of an image, in
    alphabetical order.
    """
    return sorted({record.model.name for record in records if record.middle_square})


def list_warnings(record: RunRecord) -> Iterator[tuple[str, int, str]]:
    """Yield the warnings of a run, each with its kind, number of cases, and a text with the number
    of each reason.
    """
    for key, cases in record.warnings.items():
        count, reasons = _count_cases(cases)
        if count:
            yield WARNINGS[key], count, reasons


def _count_cases(cases: Cases) -> tuple[int, str]:
    """Return the number of cases of a warning, and a text with the number of each reason."""
    if isinstance(cases, dict):
        reasons = [f"{reason}: {number:,}" for reason, number in cases.items()]
        return sum(cases.values()), "; ".join(reasons)
    if isinstance(cases, list):
        return len(cases), ""
    return cases, ""


def _summarize_models(records: Sequence[RunRecord]) -> list[ModelRuns]:
    """Return the runs of each model."""
    rows = []
    for record in records:
        # Seconds of a run with several models belong to none of them.
        seconds = record.wall_seconds if len(record.models) == 1 else 0.0
        # A run of several models, such as a decoder with its helper, counts for each of them.
        for model in record.models:
            rows.append((model, record.device or "", seconds))
    runs = pd.DataFrame(rows, columns=["model", "device", "seconds"])
    summary = runs.groupby("model", sort=False).agg(
        devices=("device", _join_devices),
        runs=("device", "size"),
        seconds=("seconds", "sum"),
    )
    return [ModelRuns(*row) for row in summary.itertuples()]


def _join_devices(devices: "pd.Series[str]") -> str:
    return ", ".join(devices.unique())


def _summarize_stages(records: Sequence[RunRecord]) -> list[StageRuns]:
    """Return the runs of each stage."""
    rows = []
    for record in records:
        rows.append(
            (record.stage, record.rows_out, record.wall_seconds, record.peak_memory_mb)
        )
    runs = pd.DataFrame(rows, columns=["stage", "rows_out", "seconds", "memory"])
    summary = runs.groupby("stage", sort=False).agg(
        runs=("stage", "size"),
        rows_out=("rows_out", "sum"),
        seconds=("seconds", "sum"),
        memory=("memory", "max"),
    )
    return [StageRuns(*row) for row in summary.itertuples()]


def _collect_settings(records: Sequence[RunRecord]) -> dict[str, list[str]]:
    """Return the values of each setting, the most frequent first."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        # Versions of packages are listed like settings.
        settings = record.model_dump(include=SETTINGS, exclude_none=True)
        settings |= record.packages
        if record.device and record.device_choice:
            settings["device"] = f"{record.device} ({record.device_choice})"
        for name, value in settings.items():
            counts[name][str(value)] += 1
    # Values that are equally frequent keep their order.
    return {
        name: [value for value, _ in counter.most_common()]
        for name, counter in counts.items()
    }


def resolve_revisions(
    records: Sequence[RunRecord], origins: Mapping[str, str], lock: Path
) -> list[RunRecord]:
    """Return run records in which the revision `lock` is replaced by the recorded commit or
    SHA-256.

    Args:
        records: Run records.
        origins: Hub id or URL of the weights of each model whose revision is `lock`, by its name.
        lock: The download lock file.
    """
    # The lock file has what was recorded at the first download.
    fetched = {name: read_lock(origin, lock) for name, origin in origins.items()}
    resolved = []
    for record in records:
        models = []
        for model in record.models:
            revision = model.revision
            if revision == LOCK_ON_DOWNLOAD:
                revision = fetched.get(model.name, LOCK_ON_DOWNLOAD)
            models.append(model.model_copy(update={"revision": revision}))
        resolved.append(record.model_copy(update={"models": tuple(models)}))
    return resolved


def read_lock(origin: str, lock: Path) -> str:
    """Return the commit (of a hub id) or SHA-256 (of a URL) in the lock file; `lock` where it has
    none.
    """
    key = "sha256" if is_url(origin) else "commit"
    return read_recorded(lock, origin, key) or LOCK_ON_DOWNLOAD


UNSTATED = "not stated"
PROFILES = ("equations", "published")


@dataclass(frozen=True)
class RunFacts:
    """Facts of a run record that have to agree between runs.

    Attributes:
        record: Path of the record.
        model: Name of the model.
        dataset: Name of the data set.
        facts: Texts by the names `profiles`, `dtype`, `package versions` and `data digest`;
            `UNSTATED` where the record does not state a fact.
    """

    record: str
    model: str
    dataset: str
    facts: Mapping[str, str]


_FACTS = TypeAdapter(list[RunFacts])


def collect_run_facts(paths: Iterable[str | Path]) -> list[RunFacts]:
    """Return the facts of run records.

    Args:
        paths: Records `<stage>/<model>/[<kind>/]<dataset>.run.json`, each with one record or a list
            by shard.
    """
    runs = []
    for path in map(Path, paths):
        for record in _read_file(path):
            model = record.model.name or path.parent.name
            dataset = record.dataset or path.name.removesuffix(SUFFIX)
            runs.append(RunFacts(str(path), model, dataset, _extract_facts(record)))
    return runs


def write_run_facts(path: str | Path, runs: list[RunFacts]) -> None:
    """Write the facts of run records to a file, from which tables check runs of several stages."""
    facts = _FACTS.dump_python(runs)
    write_text(path, json.dumps(facts, indent=1, sort_keys=True) + "\n")


def read_run_facts(files: Iterable[str | Path]) -> list[RunFacts]:
    """Return the facts of run records in files that `write_run_facts` wrote."""
    facts = []
    for file in files:
        facts += _FACTS.validate_json(Path(file).read_bytes())
    return facts


def forget_versions(runs: Iterable[RunFacts]) -> list[RunFacts]:
    """Return the facts of runs without package versions, so that runs with different versions are
    compatible.
    """
    return [
        replace(run, facts={**run.facts, "package versions": UNSTATED}) for run in runs
    ]


def check_compatible(runs: Sequence[RunFacts], profiles: Sequence[str]) -> None:
    """Raise an error if runs are not compatible.

    Runs are compatible if all of them have the study's profiles, all runs of a model have the same
    dtype and package versions, and all runs on a data set have read the same items. Facts that a
    record does not state are not compared.

    Args:
        runs: Facts of the runs.
        profiles: Profiles of the study.
    Raises:
        UserError: A run lacks a profile, or two runs differ in a fact.
    """
    first_runs: dict[tuple[str, str], RunFacts] = {}
    for run in runs:
        _check_profiles(run, profiles)
        # dtype and versions belong to a model, the items to a data set.
        names = {
            "dtype": run.model,
            "package versions": run.model,
            "data digest": run.dataset,
        }
        for fact, name in names.items():
            if run.facts[fact] == UNSTATED:
                continue
            # Later runs are compared with the first one that states the fact.
            first_run = first_runs.setdefault((fact, name), run)
            if run.facts[fact] != first_run.facts[fact]:
                raise _describe_difference(fact, name, run, first_run)


def _check_profiles(run: RunFacts, profiles: Sequence[str]) -> None:
    """Raise an error if a run lacks a profile of the study; it may have more profiles."""
    stated = run.facts["profiles"]
    if stated != UNSTATED and not set(profiles) <= set(stated.split(", ")):
        raise UserError(
            f"{run.record}: profiles differ from the study (got {stated}, expected"
            f" {', '.join(profiles)}); delete the file next to it and run again"
        )


def _describe_difference(
    fact: str, name: str, run: RunFacts, first_run: RunFacts
) -> UserError:
    """Return the error about a fact of a model or data set that differs between two runs."""
    accept = ""
    if fact == "package versions":
        accept = ", or accept both with `stored_versions: reuse`"
    return UserError(
        f"{run.record}: {fact} of {name} differs from {first_run.record} (got {run.facts[fact]},"
        f" expected {first_run.facts[fact]}); delete the file next to one of them and run again{accept}"
    )


def _extract_facts(record: RunRecord) -> dict[str, str]:
    """Return profiles, dtype, package versions and data digest of a record, as in `RunFacts.facts`."""
    settings = record.settings or {}
    # A record without a list of profiles has its settings by profile.
    profiles = record.profiles or [name for name in PROFILES if name in settings]
    facts = {
        "profiles": ", ".join(profiles),
        "dtype": record.model.dtype,
        "package versions": describe_model_packages(record.packages),
        "data digest": record.data,
    }
    if record.model.recorded:
        # The packages of a run elsewhere are unknown, and it read no items of this study.
        facts |= {"package versions": None, "data digest": None}
    return {name: text or UNSTATED for name, text in facts.items()}
