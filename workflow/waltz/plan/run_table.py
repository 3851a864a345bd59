"""The table of runs of a study: model, data set and step of each run, and the file with its
results.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

Name = TypeVar("Name", bound=Hashable)

Step = Literal["evaluation", "attribution", "tests", "cc-shap", "edited"]
"""Work of the jobs of one model and group: scores and answers, MM-SHAP, self-consistency tests,
CC-SHAP, and CC-SHAP of edited items.
"""
STAGES: dict[str, tuple[Step, ...]] = {
    "evaluation": ("evaluation",),
    "attribution": ("attribution",),
    "consistency": ("tests", "cc-shap", "edited"),
}
"""Steps of each stage."""
STAGE_OF_STEP: dict[Step, str] = {
    step: stage for stage, steps in STAGES.items() for step in steps
}
"""Stage of each step."""


class Run(NamedTuple):
    """Names of a model and of the data set on which it is run."""

    model: str
    dataset: str


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One row of the table of runs: one step of a model on a data set.

    Attributes:
        stage: `evaluation`, `attribution` or `consistency`.
        step: Step of the stage.
        model: Name of the model.
        dataset: Name of the data set.
        group: Group of the data set; a job runs one model on one group.
        part: Part of the stage's results to which the run belongs; a table of the report waits for
            its parts only.
        file: File with the results of the model on the group, relative to the folder of the run.
    """

    stage: str
    step: Step
    model: str
    dataset: str
    group: str
    part: str
    file: str

    @property
    def run(self) -> Run:
        """Return model and data set of the row."""
        return Run(self.model, self.dataset)


@dataclass(frozen=True)
class RunTable:
    """The planned runs of a study, in the order of its steps, groups and models."""

    rows: tuple[PlannedRun, ...]

    def __iter__(self) -> Iterator[PlannedRun]:
        """Iterate over the rows in the order of the table."""
        return iter(self.rows)

    def select(self, *steps: Step) -> "RunTable":
        """Return a table with the rows of some steps."""
        return RunTable(tuple(row for row in self.rows if row.step in steps))

    @property
    def runs(self) -> list[Run]:
        """Return model and data set of each row."""
        return [row.run for row in self.rows]

    @property
    def models(self) -> list[str]:
        """Return the models of the rows, each once."""
        return unique(row.model for row in self.rows)

    def group_by_part(self) -> dict[str, list[Run]]:
        """Return the runs of each part, in the order of the table."""
        return group_runs((row.part, row.run) for row in self.rows)


def group_runs(keyed_runs: Iterable[tuple[str, Run]]) -> dict[str, list[Run]]:
    """Return the runs of each key; keys and runs keep the order of their first occurrence."""
    # Dictionaries keep the order of insertion.
    groups: dict[str, list[Run]] = {}
    for key, run in keyed_runs:
        groups.setdefault(key, []).append(run)
    return groups


def list_datasets_of(runs: Iterable[Run]) -> list[str]:
    """Return the data sets of some runs, each once."""
    return unique(run.dataset for run in runs)


def unique(names: Iterable[Name]) -> list[Name]:
    """Return names without repetitions, in the order of their first occurrence."""
    return list(dict.fromkeys(names))
