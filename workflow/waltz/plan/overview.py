"""The plan of a study as a table for readers: every run with jobs and file, or with the reason why
it is skipped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from waltz.plan.costs import count_jobs
from waltz.plan.plan import Plan
from waltz.plan.run_table import PlannedRun
from waltz.plan.study import Study

NOT_COMPUTED = "recorded"
"""Entry in the column `jobs` for a run whose results were recorded elsewhere."""


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """One run, as `waltz plan` prints it; `jobs` and `file` are empty for a skipped run.

    Attributes:
        stage: Stage of the run.
        step: Step of the stage.
        model: Name of the model.
        dataset: Name of the data set.
        group: Group of the data set, whose runs of one model share jobs and a file.
        part: Part of the stage's results that the run belongs to (`run_table.PlannedRun`).
        jobs: Number of jobs (shards) of the model on the group, or `recorded`.
        file: File with the results of the model on the group.
        reason: Reason why the run is skipped; empty for a planned run.
    """

    stage: str
    step: str
    model: str
    dataset: str
    group: str
    part: str
    jobs: str
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
    rows = []
    for row in complete.runs:
        if (row.step, row.run) in planned:
            rows.append(_describe(row, jobs=_count_jobs(plan, row), file=row.file))
        else:
            rows.append(_describe(row, reason=_find_reason(plan.skipped, row)))
    return rows


def _describe(
    row: PlannedRun, *, jobs: str = "", file: str = "", reason: str = ""
) -> OverviewRow:
    """Return the row of the overview for a run."""
    return OverviewRow(
        row.stage,
        row.step,
        row.model,
        row.dataset,
        row.group,
        row.part,
        jobs,
        file,
        reason,
    )


def _count_jobs(plan: Plan, row: PlannedRun) -> str:
    """Return the number of jobs of a run's model and group as text, or `recorded`."""
    if row.model in plan.recorded_models:
        return NOT_COMPUTED
    return str(count_jobs(plan, row.step, row.model, row.group))


def _find_reason(skipped: Mapping[str, str], row: PlannedRun) -> str:
    """Return the reason why a run is skipped: the reason of its model, or else of its data set."""
    for name in (row.model, row.dataset):
        if name in skipped:
            return skipped[name]
    return "left out by only"
