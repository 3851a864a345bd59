"""Run records of a study: their summaries, the revisions of its downloads, and whether its runs are compatible."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.atomic import write_text
from waltz.core.files.downloads import LOCK_ON_DOWNLOAD, is_url, read_recorded
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
"""Facts of a record that count faults and doubtful cases: a number, a list, or numbers by reason."""
MODEL = ("name", "kind", "weights", "revision", "dtype")


@dataclass(frozen=True)
class Record:
    """One run record.

    Attributes:
        name: Path below the study's results, without the suffix, such as `evaluation/clip/existence`.
        facts: Content of the record.
    """

    name: str
    facts: Mapping[str, Any]

    @property
    def stage(self) -> str:
        """First part of the name."""
        return self.name.partition("/")[0]

    @property
    def models(self) -> list[Mapping[str, Any]]:
        """Models that the run used."""
        models = [self.facts.get("model"), *(self.facts.get("models") or {}).values()]
        return [model for model in models if isinstance(model, Mapping) and "name" in model]


@dataclass(frozen=True)
class RunSummary:
    """Summary of run records; each sequence is in the order of the records.

    Attributes:
        models: Rows of name, kind, weights, revision, dtype, devices, runs, and seconds of runs with this model only.
        stages: Rows of stage, runs, rows_out, seconds, memory (MB), share (of the longest stage's seconds).
        settings: Settings other than data and models, with the values that occur, most frequent first.
    """

    models: Sequence[Mapping[str, Any]]
    stages: Sequence[Mapping[str, Any]]
    settings: Mapping[str, Sequence[str]]


def read_records(files: Iterable[str | Path], results: str | Path) -> list[Record]:
    """Read the records of a study; a file may hold one record for each shard."""
    records = []
    for file in map(Path, files):
        name = file.relative_to(results).as_posix().removesuffix(SUFFIX)
        folder = name.rpartition("/")[0]
        for facts in _read_file(file):
            records.append(Record(f"{folder}/{facts['dataset']}" if "dataset" in facts else name, facts))
    return records


def _read_file(file: Path) -> list[dict[str, Any]]:
    """Return the records in a file."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{file}: run record cannot be read ({error}); delete the file next to it and run again"
        ) from None
    return content if isinstance(content, list) else [content]


def read_image_faults(files: Iterable[str | Path]) -> list[dict[str, str]]:
    """Read the images that cannot be used, as rows of source, image and fault.

    Args:
        files: Files of the image faults layout, each named after its source.
    """
    rows = ((Path(file).stem, row) for file in files for row in parquet.read_rows(file, IMAGE_FAULTS))
    return [{"source": source, **row} for source, row in rows]


def summarize_runs(records: Sequence[Record]) -> RunSummary:
    """Summarize the models, stages and settings of runs."""
    return RunSummary(_summarize_models(records), _summarize_stages(records), _collect_settings(records))


def list_cropping_models(records: Iterable[Record]) -> list[str]:
    """Return the names of the models that see only the square in the middle of an image."""
    return sorted({str(record.models[0]["name"]) for record in records if record.facts.get("middle_square")})


def list_warnings(record: Record) -> Iterator[tuple[str, int, str]]:
    """Yield the warnings of a run: kind, number, and the reasons with their counts."""
    for key, kind in WARNINGS.items():
        value = record.facts.get(key)
        if isinstance(value, Mapping):
            reasons = "; ".join(f"{reason}: {count:,}" for reason, count in value.items())
            count = sum(value.values())
        else:
            count, reasons = (len(value) if isinstance(value, list) else value or 0), ""
        if count:
            yield kind, count, reasons


def _summarize_models(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return one row for each model."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        for model in record.models:
            groups.setdefault(tuple(str(model.get(field) or "") for field in MODEL), []).append(record)
    return [
        {
            **dict(zip(MODEL, key, strict=True)),
            "devices": ", ".join(dict.fromkeys(str(record.facts.get("device", "")) for record in members)),
            "runs": len(members),
            "seconds": sum(record.facts["wall_seconds"] for record in members if len(record.models) == 1),
        }
        for key, members in groups.items()
    ]


def _summarize_stages(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return one row for each stage."""
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
    longest = max((row["seconds"] for row in rows), default=0) or 1
    return [{**row, "share": row["seconds"] / longest} for row in rows]


def _collect_settings(records: Sequence[Record]) -> dict[str, list[str]]:
    """Return the values of each setting, the most frequent first."""
    counts: dict[str, Counter[str]] = {}
    for record in records:
        facts = {**record.facts, "device": _describe_device(record.facts)}
        settings = {name: facts.get(name) for name in ("commit", "seed", "device", "threads", "machine", "python")}
        for key, value in {**settings, **facts.get("packages", {})}.items():
            if value is not None:
                counts.setdefault(key, Counter())[str(value)] += 1
    return {key: [value for value, _ in counter.most_common()] for key, counter in counts.items()}


def _describe_device(facts: Mapping[str, Any]) -> str | None:
    """Return the device of a run with the reason for its choice."""
    if "device" not in facts:
        return None
    reason = facts.get("device_choice")
    return f"{facts['device']} ({reason})" if reason else str(facts["device"])


def resolve_revisions(records: Sequence[Record], origins: Mapping[str, str], lock: Path) -> list[Record]:
    """Return run records with the commits or SHA-256 of the lock file in the place of `lock`.

    Args:
        origins: Hub id or URL of the weights of each such model, by its name.
    """
    fetched = {name: _read_lock(origin, lock) for name, origin in origins.items()}

    def resolve_model(model: Any) -> Any:
        if not isinstance(model, Mapping) or model.get("revision") != LOCK_ON_DOWNLOAD:
            return model
        return {**model, "revision": fetched.get(str(model.get("name")), LOCK_ON_DOWNLOAD)}

    resolved = []
    for record in records:
        facts = dict(record.facts)
        if "model" in facts:
            facts["model"] = resolve_model(facts["model"])
        if facts.get("models"):
            facts["models"] = {role: resolve_model(model) for role, model in facts["models"].items()}
        resolved.append(Record(record.name, facts))
    return resolved


def resolve_checksums(sources: Mapping[str, Mapping[str, Any]], lock: Path) -> dict[str, dict[str, Any]]:
    """Return a study's sources with the SHA-256 of the lock file in the place of `lock`."""

    def resolve_file(file: Mapping[str, Any]) -> dict[str, Any]:
        is_locked = file.get("sha256") == LOCK_ON_DOWNLOAD
        return {**file, "sha256": _read_lock(file["url"], lock)} if is_locked else dict(file)

    resolved = {}
    for name, source in sources.items():
        resolved[name] = {**source, "files": {part: resolve_file(file) for part, file in source["files"].items()}}
        if isinstance(images := source.get(IMAGES), list):
            resolved[name][IMAGES] = [resolve_file(file) for file in images]
        elif images is not None:
            resolved[name][IMAGES] = resolve_file(images)
    return resolved


def _read_lock(origin: str, lock: Path) -> str:
    """Return the commit or SHA-256 of an origin in the lock file; `lock` where there is none."""
    key = "sha256" if is_url(origin) else "commit"
    return read_recorded(lock, origin.partition("#")[0], key) or LOCK_ON_DOWNLOAD


UNSTATED = "not stated"
PROFILES = ("equations", "published")


@dataclass(frozen=True)
class RunFacts:
    """Facts of a run record about the file next to it.

    Attributes:
        record: Path of the record.
        model: Name of the model.
        dataset: Name of the data set.
        facts: `profiles`, `dtype`, `package versions` and `data digest`, as texts.
    """

    record: str
    model: str
    dataset: str
    facts: Mapping[str, str]


def collect_run_facts(paths: Iterable[str | Path]) -> list[RunFacts]:
    """Read the facts of run records.

    Args:
        paths: Records `<stage>/<model>/[<kind>/]<dataset>.run.json`, each with one record or a list by shard.
    """
    runs = []
    for path in map(Path, paths):
        for record in _read_file(path):
            model = str(record.get("model", {}).get("name", path.parent.name))
            dataset = str(record.get("dataset", path.name.removesuffix(".run.json")))
            runs.append(RunFacts(str(path), model, dataset, _extract_facts(record)))
    return runs


def write_run_facts(path: str | Path, runs: Sequence[RunFacts]) -> None:
    """Write the facts of run records, so that tables can check them across stages."""
    write_text(path, json.dumps([asdict(run) for run in runs], indent=1, sort_keys=True) + "\n")


def read_run_facts(path: str | Path) -> list[RunFacts]:
    """Read the file that `write_run_facts` wrote."""
    return [RunFacts(**run) for run in json.loads(Path(path).read_text(encoding="utf-8"))]


def forget_versions(runs: Iterable[RunFacts]) -> list[RunFacts]:
    """Return the facts of runs without package versions, so that runs with different ones are compatible."""
    return [replace(run, facts={**run.facts, "package versions": UNSTATED}) for run in runs]


def check_compatible(runs: Sequence[RunFacts], profiles: Sequence[str]) -> None:
    """Raise an error if runs are not compatible.

    All hold the study's profiles; those of a model have one dtype and one set of package versions; those on a data set
    have read the same items. Facts that a record does not state are not compared.
    """
    first_runs: dict[tuple[str, str], RunFacts] = {}
    for run in runs:
        missing = [profile for profile in profiles if profile not in run.facts["profiles"].split(", ")]
        if missing and run.facts["profiles"] != UNSTATED:
            raise UserError(
                f"{run.record}: profiles differ from the study (got {run.facts['profiles']}, expected"
                f" {', '.join(profiles)}); delete the file next to it and run again"
            )
        for fact, name in (("dtype", run.model), ("package versions", run.model), ("data digest", run.dataset)):
            if run.facts[fact] == UNSTATED:
                continue
            first_run = first_runs.setdefault((fact, name), run)
            if first_run.facts[fact] != run.facts[fact]:
                accept = ", or accept both with `stored_versions: reuse`" if fact == "package versions" else ""
                raise UserError(
                    f"{run.record}: {fact} of {name} differs from {first_run.record} (got {run.facts[fact]},"
                    f" expected {first_run.facts[fact]}); delete the file next to one of them and run again{accept}"
                )


def _extract_facts(record: Mapping[str, Any]) -> dict[str, str]:
    """Return profiles, dtype, package versions and data digest of a record."""
    settings, is_recorded = record.get("settings") or {}, bool(record.get("model", {}).get("recorded"))
    profiles = record.get("profiles") or [name for name in PROFILES if name in settings]
    return {
        "profiles": ", ".join(profiles) or UNSTATED,
        "dtype": str(record.get("model", {}).get("dtype", UNSTATED)),
        # those of a run elsewhere are not known, and its records are no items
        "package versions": (not is_recorded and describe_model_packages(record.get("packages") or {})) or UNSTATED,
        "data digest": UNSTATED if is_recorded else str(record.get("data", UNSTATED)),
    }
