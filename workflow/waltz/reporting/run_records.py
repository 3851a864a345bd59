"""Run records of a study: summaries of them, revisions of downloads, and the check that runs are
compatible.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from waltz.core.downloads.checksums import LOCK_ON_DOWNLOAD
from waltz.core.downloads.lock_file import read_recorded
from waltz.core.downloads.urls import is_url
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.atomic import write_text
from waltz.core.job_records import describe_model_packages
from waltz.core.schema import IMAGE_FAULTS
from waltz.plan.raw_files import IMAGES

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
MODEL = ("name", "kind", "weights", "revision", "dtype")
SETTINGS = ("commit", "seed", "device", "threads", "machine", "python")
"""Facts of a run whose values the page lists, together with the versions of its packages."""


@dataclass(frozen=True)
class Record:
    """Run record: the facts that a job wrote about itself next to its output.

    Attributes:
        name: Path below the study's results, without the suffix, such as
            `evaluation/clip/existence`.
        facts: Content of the record.
    """

    name: str
    facts: Mapping[str, Any]

    @property
    def stage(self) -> str:
        """Stage that the run belongs to, which is the first part of the name."""
        return self.name.partition("/")[0]

    @property
    def models(self) -> list[Mapping[str, Any]]:
        """Facts about each model that the run used."""
        models = [self.facts.get("model"), *(self.facts.get("models") or {}).values()]
        return [
            model for model in models if isinstance(model, Mapping) and "name" in model
        ]


@dataclass(frozen=True)
class RunSummary:
    """Summary of run records; each sequence is in the order of the records.

    Attributes:
        models: One row for each model: name, kind, weights, revision, dtype, devices, number of
            runs, and seconds of the runs that used no other model.
        stages: One row for each stage: name, number of runs, rows_out, seconds, memory (MB), and
            share (of the longest stage's seconds, between 0 and 1).
        settings: Values of each setting, other than data and models; the most frequent value comes
            first.
    """

    models: Sequence[Mapping[str, Any]]
    stages: Sequence[Mapping[str, Any]]
    settings: Mapping[str, Sequence[str]]


def read_records(files: Iterable[str | Path], results: str | Path) -> list[Record]:
    """Read the run records of a study.

    Args:
        files: Files of records; a file holds one record, or a list with one record for each shard.
        results: Folder of the study's results, which the names of records are relative to.
    """
    records = []
    for file in map(Path, files):
        name = file.relative_to(results).as_posix().removesuffix(SUFFIX)
        folder = name.rpartition("/")[0]
        for facts in _read_file(file):
            # A file of a group has one record for each data set, which then names the record.
            records.append(
                Record(
                    f"{folder}/{facts['dataset']}" if "dataset" in facts else name,
                    facts,
                )
            )
    return records


def _read_file(file: Path) -> list[dict[str, Any]]:
    """Return the records in a file; a file with a single record gives a list of one."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"{file}: run record cannot be read: {error.strerror}; check the path"
        ) from None
    except ValueError as error:
        raise UserError(
            f"{file}: run record cannot be read ({error}); delete the file next to it and run again"
        ) from None
    return content if isinstance(content, list) else [content]


def read_image_faults(files: Iterable[str | Path]) -> list[dict[str, str]]:
    """Return the images that cannot be used, as rows of source, image and fault.

    Args:
        files: Files of the image faults layout, each named after its source.
    """
    faults = []
    for file in files:
        source = Path(file).stem
        for row in parquet.read_rows(file, IMAGE_FAULTS):
            faults.append({"source": source, **row})
    return faults


def summarize_runs(records: Sequence[Record]) -> RunSummary:
    """Return a summary of the models, stages and settings of runs."""
    return RunSummary(
        _summarize_models(records),
        _summarize_stages(records),
        _collect_settings(records),
    )


def list_cropping_models(records: Iterable[Record]) -> list[str]:
    """Return the names of the models that see only the square in the middle of an image, in
    alphabetical order.
    """
    return sorted(
        {
            str(record.models[0]["name"])
            for record in records
            if record.facts.get("middle_square")
        }
    )


def list_warnings(record: Record) -> Iterator[tuple[str, int, str]]:
    """Yield the warnings of a run, each with its kind, number of cases, and a text with the number
    of each reason.
    """
    for key, kind in WARNINGS.items():
        value = record.facts.get(key)
        reasons = ""
        if isinstance(value, Mapping):
            count = sum(value.values())
            reasons = "; ".join(
                f"{reason}: {number:,}" for reason, number in value.items()
            )
        elif isinstance(value, list):
            count = len(value)
        else:
            count = value or 0
        if count:
            yield kind, count, reasons


def _summarize_models(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return one row for each model, as in `RunSummary.models`."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        # A run of several models, such as a decoder with its helper, counts for each of them.
        for model in record.models:
            # The same name with another revision or dtype is another row.
            key = tuple(str(model.get(field) or "") for field in MODEL)
            groups.setdefault(key, []).append(record)
    rows = []
    for key, members in groups.items():
        devices = dict.fromkeys(
            str(record.facts.get("device", "")) for record in members
        )
        # Seconds of a run with several models belong to none of them.
        seconds = [
            record.facts["wall_seconds"]
            for record in members
            if len(record.models) == 1
        ]
        row = dict(zip(MODEL, key, strict=True))
        rows.append(
            {
                **row,
                "devices": ", ".join(devices),
                "runs": len(members),
                "seconds": sum(seconds),
            }
        )
    return rows


def _summarize_stages(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return one row for each stage, as in `RunSummary.stages`."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.stage, []).append(record)
    rows = [
        {
            "stage": stage,
            "runs": len(members),
            "rows_out": sum(record.facts["rows_out"] for record in members),
            "seconds": sum(record.facts["wall_seconds"] for record in members),
            "memory": max(record.facts["peak_memory_mb"] for record in members),
        }
        for stage, members in groups.items()
    ]
    # The bar of a stage is relative to the longest one.
    longest = max((row["seconds"] for row in rows), default=0) or 1
    return [{**row, "share": row["seconds"] / longest} for row in rows]


def _collect_settings(records: Sequence[Record]) -> dict[str, list[str]]:
    """Return the values of each setting, the most frequent first."""
    counts: dict[str, Counter[str]] = {}
    for record in records:
        facts = {**record.facts, "device": _describe_device(record.facts)}
        settings = {name: facts.get(name) for name in SETTINGS}
        # Versions of packages are listed like settings.
        settings |= facts.get("packages", {})
        for name, value in settings.items():
            if value is not None:
                counts.setdefault(name, Counter())[str(value)] += 1
    return {
        name: [value for value, _ in counter.most_common()]
        for name, counter in counts.items()
    }


def _describe_device(facts: Mapping[str, Any]) -> str | None:
    """Return the device of a run, with the reason for its choice if there is one; None for a run
    without a device.
    """
    if "device" not in facts:
        return None
    reason = facts.get("device_choice")
    return f"{facts['device']} ({reason})" if reason else str(facts["device"])


def resolve_revisions(
    records: Sequence[Record], origins: Mapping[str, str], lock: Path
) -> list[Record]:
    """Return run records in which the revision `lock` is replaced by the recorded commit or
    SHA-256.

    Args:
        records: Run records.
        origins: Hub id or URL of the weights of each model whose revision is `lock`, by its name.
        lock: The download lock file.
    """
    # Models with `lock` in the place of a revision took what the lock file recorded at their first
    # download.
    fetched = {name: _read_lock(origin, lock) for name, origin in origins.items()}

    def resolve_model(model: Any) -> Any:
        if not isinstance(model, Mapping) or model.get("revision") != LOCK_ON_DOWNLOAD:
            return model
        return {
            **model,
            "revision": fetched.get(str(model.get("name")), LOCK_ON_DOWNLOAD),
        }

    resolved = []
    for record in records:
        facts = dict(record.facts)
        # A record has one `model`, or several `models` by their role in the run.
        if "model" in facts:
            facts["model"] = resolve_model(facts["model"])
        if facts.get("models"):
            facts["models"] = {
                role: resolve_model(model) for role, model in facts["models"].items()
            }
        resolved.append(Record(record.name, facts))
    return resolved


def resolve_checksums(
    sources: Mapping[str, Mapping[str, Any]], lock: Path
) -> dict[str, dict[str, Any]]:
    """Return a study's sources in which each SHA-256 `lock` is replaced by the SHA-256 in the
    download lock file.
    """

    def resolve_file(file: Mapping[str, Any]) -> dict[str, Any]:
        is_locked = file.get("sha256") == LOCK_ON_DOWNLOAD
        return (
            {**file, "sha256": _read_lock(file["url"], lock)}
            if is_locked
            else dict(file)
        )

    resolved = {}
    for name, source in sources.items():
        resolved[name] = {
            **source,
            "files": {
                part: resolve_file(file) for part, file in source["files"].items()
            },
        }
        # Images of a source are one file, a list of files, or none.
        if isinstance(images := source.get(IMAGES), list):
            resolved[name][IMAGES] = [resolve_file(file) for file in images]
        elif images is not None:
            resolved[name][IMAGES] = resolve_file(images)
    return resolved


def _read_lock(origin: str, lock: Path) -> str:
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


def collect_run_facts(paths: Iterable[str | Path]) -> list[RunFacts]:
    """Return the facts of run records.

    Args:
        paths: Records `<stage>/<model>/[<kind>/]<dataset>.run.json`, each with one record or a list
            by shard.
    """
    runs = []
    for path in map(Path, paths):
        for record in _read_file(path):
            model = str(record.get("model", {}).get("name", path.parent.name))
            dataset = str(record.get("dataset", path.name.removesuffix(".run.json")))
            runs.append(RunFacts(str(path), model, dataset, _extract_facts(record)))
    return runs


def write_run_facts(path: str | Path, runs: Sequence[RunFacts]) -> None:
    """Write the facts of run records to a file, from which tables check runs of several stages."""
    write_text(
        path, json.dumps([asdict(run) for run in runs], indent=1, sort_keys=True) + "\n"
    )


def read_run_facts(path: str | Path) -> list[RunFacts]:
    """Return the facts of run records in a file that `write_run_facts` wrote."""
    return [
        RunFacts(**run) for run in json.loads(Path(path).read_text(encoding="utf-8"))
    ]


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
        # A run may have more profiles than the study asks for.
        missing = [
            profile
            for profile in profiles
            if profile not in run.facts["profiles"].split(", ")
        ]
        if missing and run.facts["profiles"] != UNSTATED:
            raise UserError(
                f"{run.record}: profiles differ from the study (got {run.facts['profiles']}, expected"
                f" {', '.join(profiles)}); delete the file next to it and run again"
            )
        # dtype and versions belong to a model, the items to a data set; later runs are compared
        # with the first one.
        for fact, name in (
            ("dtype", run.model),
            ("package versions", run.model),
            ("data digest", run.dataset),
        ):
            if run.facts[fact] == UNSTATED:
                continue
            first_run = first_runs.setdefault((fact, name), run)
            if first_run.facts[fact] != run.facts[fact]:
                accept = (
                    ", or accept both with `stored_versions: reuse`"
                    if fact == "package versions"
                    else ""
                )
                raise UserError(
                    f"{run.record}: {fact} of {name} differs from {first_run.record} (got {run.facts[fact]},"
                    f" expected {first_run.facts[fact]}); delete the file next to one of them and run again{accept}"
                )


def _extract_facts(record: Mapping[str, Any]) -> dict[str, str]:
    """Return profiles, dtype, package versions and data digest of a record, as in `RunFacts.facts`."""
    model = record.get("model", {})
    settings = record.get("settings") or {}
    # A record without a list of profiles has its settings by profile.
    profiles = record.get("profiles") or [name for name in PROFILES if name in settings]
    facts = {
        "profiles": ", ".join(profiles) or UNSTATED,
        "dtype": str(model.get("dtype", UNSTATED)),
        "package versions": UNSTATED,
        "data digest": UNSTATED,
    }
    if model.get("recorded"):
        return facts  # packages of a run elsewhere are not known, and its records are no items
    facts["package versions"] = (
        describe_model_packages(record.get("packages") or {}) or UNSTATED
    )
    facts["data digest"] = str(record.get("data", UNSTATED))
    return facts
