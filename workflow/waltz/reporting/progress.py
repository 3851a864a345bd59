"""Progress of a study, from Snakemake's summary and the logs: its files by stage, and the jobs that
run or failed.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from waltz.core.jobs.run_lock import StudyRun

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
"""Names of the stages in their order: folders of results, and `weights` for the weights of models.
"""
Row = Mapping[str, str]
"""Line of `snakemake --summary` about one file of the study, by column."""
LOG_HEAD = re.compile(r"^[\d-]+ [\d:,]+ [A-Z]+ \S+: ")
"""Beginning of a line in a log: its time, level and logger."""
FAULT = " ERROR waltz: "
"""Text in the line with which a failed job ends its log or begins its traceback."""
NOT_ENDED = "it was stopped before it ended"


@dataclass(frozen=True)
class StageProgress:
    """Files of one stage.

    Attributes:
        stage: Name of the stage; `weights` for weights of models.
        done: Number of its files that are up to date.
        files: Number of all its files.
        outdated: Number of its files that exist and would be made again.
    """

    stage: str
    done: int
    files: int
    outdated: int = 0


@dataclass(frozen=True)
class Job:
    """A job that is running or failed.

    Attributes:
        name: Rule and wildcards of the job, such as `align clip/pairs`.
        log: Log file of the job.
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


def find_progress(
    summary: str, results: Path, logs: Path, run: StudyRun | None
) -> Progress:
    """Return the progress of a study.

    Args:
        summary: Output of `snakemake --summary`.
        results: Folder of the study's results, as the summary names it.
        logs: Folder of the study's logs.
        run: Last run of the study; None where it was never run.
    """
    # The summary has one line for each file, with tabs between its columns.
    rows = list(csv.DictReader(summary.splitlines(), delimiter="\t"))
    pending_rows = list(filter(_is_pending, rows))
    goes_on, since = False, datetime.min
    if run is not None and run.may_go_on:
        goes_on, since = True, run.since
    running = []
    failed = []
    for log in sorted(logs.rglob("*.log")):
        # Logs of earlier runs stay where they are; the time of their last change tells them apart.
        # While a run goes on, only its own logs count: it may run earlier failed jobs again.
        if _read_time(log) < since:
            continue
        # The folder of a log is the rule, and its name consists of the job's wildcards.
        rule, *wildcards = log.relative_to(logs).with_suffix("").parts
        pending = [row for row in pending_rows if _is_file_of_job(row, rule, wildcards)]
        if not pending:
            continue
        content = log.read_text(encoding="utf-8", errors="replace")
        name = f"{rule} {'/'.join(wildcards)}".rstrip()
        job = Job(name, log, _get_last_line(content))
        if FAULT in content:
            failed.append(job)
        elif goes_on:
            running.append(job)
        elif all(row["status"] == "missing" for row in pending):
            # The job began, has no file and no fault, and nothing goes on.
            line = "; ".join(filter(None, (NOT_ENDED, job.line)))
            failed.append(replace(job, line=line))
    return Progress(tuple(_count_files(rows, results)), tuple(running), tuple(failed))


def _read_time(file: Path) -> datetime:
    """Return the time of the last change of a file."""
    return datetime.fromtimestamp(file.stat().st_mtime)


def _count_files(rows: Sequence[Row], results: Path) -> Iterator[StageProgress]:
    """Yield the progress of each stage: stages of unknown name first, then those of `STAGES` in
    their order.
    """
    files: Counter[str] = Counter()
    done: Counter[str] = Counter()
    outdated: Counter[str] = Counter()
    for row in rows:
        stage = _find_stage(Path(row["output_file"]), results)
        files[stage] += 1
        done[stage] += not _is_pending(row)
        outdated[stage] += _is_pending(row) and row["status"] != "missing"
    ranks = {stage: rank for rank, stage in enumerate(STAGES)}
    for stage in sorted(files, key=lambda stage: ranks.get(stage, -1)):
        yield StageProgress(stage, done[stage], files[stage], outdated[stage])


def _find_stage(file: Path, results: Path) -> str:
    """Return the stage that makes a file, which is its folder in the results."""
    if file.is_relative_to(results):
        return file.relative_to(results).parts[0]
    # Files outside the results are weights of models, in a folder that studies share.
    return "weights"


def _is_pending(row: Row) -> bool:
    return row["plan"] == "update pending"


def _is_file_of_job(row: Row, rule: str, wildcards: Sequence[str]) -> bool:
    """Return whether a job makes a file: the rule is the same, and all wildcards occur in the
    file's path.
    """
    if not wildcards:
        return row["rule"] == rule
    # Where there are wildcards, the folder of logs may be named after the beginning of the rule's
    # name.
    parts = Path(row["output_file"]).parts
    names = {*parts, *(Path(part).stem for part in parts)}
    return row["rule"].startswith(rule) and names.issuperset(wildcards)


def _get_last_line(content: str) -> str:
    """Return the last line of a log that is not empty, without time, level and logger; an empty
    text without a line.
    """
    *_, last = ("", *filter(str.strip, content.splitlines()))
    return LOG_HEAD.sub("", last).strip()
