"""Progress of a study: its files by stage, and the jobs that run or failed, from Snakemake's summary and the logs."""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from waltz.core.run_lock import StudyRun

STAGES = (
    "weights",
    "scene_models",
    "sources",
    "foils",
    "filters",
    "benchmark",
    "evaluation",
    "attribution",
    "consistency",
    "measures",
    "reporting",
    "export",
)
"""Folders of results in the order of the stages, and weights of models."""
Row = Mapping[str, str]
"""A file of the study as `snakemake --summary` lists it."""
LOG_HEAD = re.compile(r"^[\d-]+ [\d:,]+ [A-Z]+ \S+: ")
"""Time, level and logger of a line in a log."""
FAULT = " ERROR waltz: "
"""Mark of the line with which a failed job ends its log, or begins its traceback."""
NOT_ENDED = "it was stopped before it ended"


@dataclass(frozen=True)
class StageProgress:
    """Files of one stage.

    Attributes:
        stage: Its name; `weights` for weights of models.
        done: Number of files that are up to date.
        files: Number of its files.
    """

    stage: str
    done: int
    files: int


@dataclass(frozen=True)
class Job:
    """A job that is running or failed.

    Attributes:
        name: Its rule and wildcards, such as `align clip/pairs`.
        log: Its log file.
        line: Last line of the log.
    """

    name: str
    log: Path
    line: str


@dataclass(frozen=True)
class Progress:
    """Progress of a study: its stages in their order, the jobs that run now, and those that failed."""

    stages: tuple[StageProgress, ...]
    running: tuple[Job, ...]
    failed: tuple[Job, ...]


def find_progress(summary: str, results: Path, logs: Path, run: StudyRun | None) -> Progress:
    """Return the progress of a study.

    Args:
        summary: Output of `snakemake --summary`.
        results: Folder of the study's results, as the summary names it.
        logs: Folder of the study's logs.
        run: Its last run.
    """
    rows = list(csv.DictReader(summary.splitlines(), delimiter="\t"))
    running, failed = [], []
    for log, name, pending in _list_pending_logs(rows, logs):
        content = log.read_text(encoding="utf-8", errors="replace")
        is_of_this_run = run is not None and datetime.fromtimestamp(log.stat().st_mtime) >= run.since
        goes_on = run is not None and run.goes_on
        job = Job(name, log, _get_last_line(content))
        if FAULT in content and (is_of_this_run or not goes_on):
            failed.append(job)
        elif goes_on and is_of_this_run:
            running.append(job)
        elif not goes_on and all(row["status"] == "missing" for row in pending):
            failed.append(Job(name, log, f"{NOT_ENDED}; {job.line}" if job.line else NOT_ENDED))
    return Progress(tuple(_count_files(rows, results)), tuple(running), tuple(failed))


def _count_files(rows: Sequence[Row], results: Path) -> Iterator[StageProgress]:
    """Yield the files of each stage."""
    stages: dict[str, list[bool]] = {}
    for row in rows:
        file = Path(row["output_file"])
        stage = file.relative_to(results).parts[0] if file.is_relative_to(results) else "weights"
        stages.setdefault(stage, []).append(not _is_pending(row))
    for stage in sorted(stages, key=lambda stage: STAGES.index(stage) if stage in STAGES else -1):
        yield StageProgress(stage, sum(stages[stage]), len(stages[stage]))


def _is_pending(row: Row) -> bool:
    return row["plan"] == "update pending"


def _list_pending_logs(rows: Sequence[Row], logs: Path) -> Iterator[tuple[Path, str, list[Row]]]:
    """Yield the log of each job that began and is not done, with its name and its files.

    The log of a job lies in the folder of its rule and is named after its wildcards, which its files are named after.
    """
    pending = [row for row in rows if _is_pending(row)]
    for log in sorted(logs.rglob("*.log")):
        rule, *wildcards = log.relative_to(logs).with_suffix("").parts
        own = [row for row in pending if _is_of_job(row, rule, wildcards)]
        if own:
            yield log, " ".join(filter(None, [rule, "/".join(wildcards)])), own


def _is_of_job(row: Row, rule: str, wildcards: Sequence[str]) -> bool:
    parts = Path(row["output_file"]).parts
    is_of_rule = row["rule"].startswith(rule) if wildcards else row["rule"] == rule
    return is_of_rule and {*wildcards} <= {*parts, *(Path(part).stem for part in parts)}


def _get_last_line(content: str) -> str:
    """Return the last line of a log that is not empty, without its time and level."""
    lines = [line for line in content.splitlines() if line.strip()]
    return LOG_HEAD.sub("", lines[-1]).strip() if lines else ""
