"""The plan of a study as a table for readers: every run with its shards and file, or with the
reason why it is skipped.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from waltz.plan.costs import count_jobs
from waltz.plan.plan import Plan
from waltz.plan.run_table import PlannedRun
from waltz.plan.study import Study

NOT_COMPUTED = "recorded"
"""Entry in the column `shards` for a run whose results were recorded elsewhere."""


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """One run, as `waltz plan` prints it; `shards` and `file` are empty for a skipped run.

    Attributes:
        stage: Stage of the run.
        step: Step of the stage.
        model: Name of the model.
        dataset: Name of the data set.
        group: Group of the data set, whose runs of one model share jobs and a file.
        part: Part of the stage's results that the run belongs to (`run_table.PlannedRun`).
        shards: Shards of the file, each with a job: `1`, `1-4`, or `recorded` without a job.
        file: File with the results of the model on the group.
        reason: Reason why the run is skipped; empty for a planned run.
    """

    stage: str
    step: str
    model: str
    dataset: str
    group: str
    part: str
    shards: str
    file: str
    reason: str


def build_overview(study: Study, plan: Plan) -> list[OverviewRow]:
    """Return a row for each run that a study names, planned or skipped.

    Args:
        study: The study with all models and data sets.
        plan: The plan of the study, without skipped models and data sets.
    """
    # Build the table of runs again from the full study: runs that only this table contains are
    # skipped. A run is identified by its step, model and data set.
    planned = {(row.step, row.run) for row in plan.runs}
    complete = replace(plan, study=study)
    overview = []
    for row in complete.runs:
        values = asdict(row)
        if (row.step, row.run) in planned:
            values |= {"shards": _describe_shards(plan, row), "reason": ""}
        else:
            reason = _find_reason(plan.skipped, row)
            values |= {"shards": "", "file": "", "reason": reason}
        overview.append(OverviewRow(**values))
    return overview


def count_model_jobs(plan: Plan) -> Counter[str]:
    """Return the number of jobs of each step that run a model, without jobs that merge shards."""
    # Runs with the same file share jobs.
    jobs_of_file: dict[tuple[str, str], int] = {}
    for row in plan.runs:
        if row.model not in plan.recorded_models:
            jobs_of_file[row.step, row.file] = count_jobs(plan, row.step, row.run)

    jobs: Counter[str] = Counter()
    for (step, _), n_jobs in jobs_of_file.items():
        jobs[step] += n_jobs
    return jobs


def _describe_shards(plan: Plan, row: PlannedRun) -> str:
    """Return the range of the shards of a run as text, or `recorded`."""
    if row.model in plan.recorded_models:
        return NOT_COMPUTED
    shards = count_jobs(plan, row.step, row.run)
    return f"1-{shards}" if shards > 1 else "1"


def _find_reason(skipped: Mapping[str, str], row: PlannedRun) -> str:
    """Return the reason why a run is skipped: the reason of its model, or else of its data set."""
    for name in (row.model, row.dataset):
        if name in skipped:
            return skipped[name]
    return "left out by only"
