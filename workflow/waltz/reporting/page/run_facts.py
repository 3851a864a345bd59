"""What was run, from run records: models, software, hardware, time, seeds, and what a reader must be warned of."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.schema import IMAGE_FAULTS

SUFFIX = ".run.json"
WARNINGS = {
    "ties": "ties, in which neither text is preferred",
    "unscored": "replies without a score",
    "unscored_items": "items without a score",
    "unscored_texts": "texts without a score",
    "errors": "texts that could not be scored",
    "rows_with_error": "texts that could not be attributed",
    "rows_without_t_shap": "texts without a T-SHAP",
    "unusable": "source rows that could not be used",
    "close_to_a_threshold": "verdicts of a filter that lie close to its threshold",
    "small_contributions": "tokens to which next to nothing contributes",
    "skipped_images": "images that were skipped",
}
"""Facts of a record that count what went wrong or nearly so: a number, a list, or numbers by reason."""
MODEL = ("name", "kind", "weights", "revision", "dtype")


@dataclass(frozen=True)
class Record:
    """One run record.

    Attributes:
        name: Its path below the study's results, without the suffix, such as `evaluation/clip/existence`.
        facts: What it says.
    """

    name: str
    facts: Mapping[str, Any]

    @property
    def stage(self) -> str:
        """First part of the name."""
        return self.name.partition("/")[0]

    @property
    def models(self) -> list[Mapping[str, Any]]:
        """The models that the run took."""
        named = [self.facts.get("model"), *(self.facts.get("models") or {}).values()]
        return [model for model in named if isinstance(model, Mapping) and "name" in model]


@dataclass(frozen=True)
class RunSummary:
    """What records say together; each sequence in the order of the records.

    Attributes:
        models: Rows of name, kind, weights, revision, dtype, devices, runs, and seconds of the runs of it alone.
        stages: Rows of stage, runs, rows_out, seconds, memory (MB), share (of the longest stage's seconds).
        settings: What a run depends on beside data and models, with the values that occur, most frequent first.
    """

    models: Sequence[Mapping[str, Any]]
    stages: Sequence[Mapping[str, Any]]
    settings: Mapping[str, Sequence[str]]


def read_records(files: Iterable[str | Path], results: str | Path) -> list[Record]:
    """Records of a study; a file that holds one of each shard gives as many.

    Args:
        files: Of the form `<output>.run.json`.
        results: The study's results.
    Raises:
        UserError: A file is no record.
    """
    records = []
    for file in map(Path, files):
        name = file.relative_to(results).as_posix().removesuffix(SUFFIX)
        try:
            said = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UserError(f"{file}: no JSON ({error}); delete it and run again") from None
        parts = said if isinstance(said, list) else [said]
        folder = name.rpartition("/")[0]
        records += [Record(f"{folder}/{facts['dataset']}" if "dataset" in facts else name, facts) for facts in parts]
    return records


def read_image_faults(files: Iterable[str | Path]) -> list[dict[str, str]]:
    """Rows of source, image and fault: images that cannot be used.

    Args:
        files: Of the layout of image faults, each named after its source.
    """
    rows = ((Path(file).stem, row) for file in files for row in parquet.read(file, IMAGE_FAULTS).to_pylist())
    return [{"source": source, **row} for source, row in rows]


def summarize_runs(records: Sequence[Record]) -> RunSummary:
    """What records say together."""
    return RunSummary(_summarize_models(records), _summarize_stages(records), _collect_settings(records))


def list_cropping_models(records: Iterable[Record]) -> list[str]:
    """Names of the models that see no more of an image than the square in its middle, by what their runs say."""
    return sorted({str(record.models[0]["name"]) for record in records if record.facts.get("middle_square")})


def list_warnings(record: Record) -> Iterator[tuple[str, int, str]]:
    """What a run warns of: kind, how many, and the reasons with their counts."""
    for key, kind in WARNINGS.items():
        said = record.facts.get(key)
        if isinstance(said, Mapping):
            reasons = "; ".join(f"{reason}: {count:,}" for reason, count in said.items())
            count = sum(said.values())
        else:
            count, reasons = (len(said) if isinstance(said, list) else said or 0), ""
        if count:
            yield kind, count, reasons


def _summarize_models(records: Sequence[Record]) -> list[dict[str, Any]]:
    found: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        for model in record.models:
            found.setdefault(tuple(str(model.get(field) or "") for field in MODEL), []).append(record)
    return [
        {
            **dict(zip(MODEL, key, strict=True)),
            "devices": ", ".join(dict.fromkeys(str(record.facts.get("device", "")) for record in of)),
            "runs": len(of),
            "seconds": sum(record.facts["wall_seconds"] for record in of if len(record.models) == 1),
        }
        for key, of in found.items()
    ]


def _summarize_stages(records: Sequence[Record]) -> list[dict[str, Any]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.stage, []).append(record)
    rows = [
        {
            "stage": stage,
            "runs": len(of),
            "rows_out": sum(record.facts["rows_out"] for record in of),
            "seconds": sum(record.facts["wall_seconds"] for record in of),
            "memory": max(record.facts["peak_memory_mb"] for record in of),
        }
        for stage, of in found.items()
    ]
    longest = max((row["seconds"] for row in rows), default=0) or 1
    return [{**row, "share": row["seconds"] / longest} for row in rows]


def _collect_settings(records: Sequence[Record]) -> dict[str, list[str]]:
    counts: dict[str, Counter[str]] = {}
    for record in records:
        facts = record.facts
        packages = {f"{name}": version for name, version in facts.get("packages", {}).items()}
        said = {
            "commit": facts.get("commit"),
            "seed": facts.get("seed"),
            "device": _describe_device(facts),
            "threads": facts.get("threads"),
            "machine": facts.get("machine"),
            "python": facts.get("python"),
            **packages,
        }
        for key, value in said.items():
            if value is not None:
                counts.setdefault(key, Counter())[str(value)] += 1
    return {key: [value for value, _ in counter.most_common()] for key, counter in counts.items()}


def _describe_device(facts: Mapping[str, Any]) -> str | None:
    if "device" not in facts:
        return None
    why = facts.get("device_choice")
    return f"{facts['device']} ({why})" if why else str(facts["device"])
