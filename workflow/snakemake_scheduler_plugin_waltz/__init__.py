"""Scheduler for studies of thousands of jobs: it starts jobs of the highest priority first, as many
as fit.

Snakemake finds schedulers by the prefix of their module; profiles/default names this scheduler. The
two schedulers of Snakemake weigh jobs against each other and against the sizes of temporary files,
which waltz does not have. With the 1,900 jobs of the thesis, hundreds of which are ready at a time,
that takes seconds after the end of each job, during which GPUs wait.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from snakemake_interface_scheduler_plugins.base import SchedulerBase


class Scheduler(SchedulerBase):  # type: ignore[misc]
    """Scheduler that starts jobs by priority, then in the order of the plan."""

    def select_jobs(
        self,
        selectable_jobs: Sequence[Any],
        remaining_jobs: Sequence[Any],
        available_resources: Mapping[str, int],
        input_sizes: Mapping[Any, int],
    ) -> list[Any]:
        """Return the jobs to start now; together they need no more than the available resources."""
        free = dict(available_resources)
        selected = []
        # A job that does not fit is skipped, so that smaller jobs after it use the free resources.
        for job in sorted(selectable_jobs, key=get_rank):
            needs = find_needs(job, free)
            if all(need <= free[resource] for resource, need in needs.items()):
                selected.append(job)
                for resource, need in needs.items():
                    free[resource] -= need
        return selected


def get_rank(job: Any) -> tuple[int, int]:
    """Return the sort key of a job: highest priority first, then the order of the plan."""
    return -job.priority, job.jobid


def find_needs(job: Any, free: Mapping[str, int]) -> dict[str, int]:
    """Return the amount that a job needs of each resource that the run limits."""
    needs = {}
    for resource, need in job.scheduler_resources.items():
        # A resource without a limit never keeps a job from starting.
        if need and resource in free:
            needs[resource] = need
    return needs
