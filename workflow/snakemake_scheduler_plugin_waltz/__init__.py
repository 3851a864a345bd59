"""Scheduler for studies of thousands of jobs: those of the highest priority first, as many as fit.

Snakemake finds schedulers by the prefix of their module; profiles/default names this one. Its own two weigh jobs
against each other and against the sizes of temporary files, of which waltz has none. With the 1,900 jobs of the thesis,
hundreds of which are ready at a time, that takes seconds after each job that ends, in which GPUs wait.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from snakemake_interface_scheduler_plugins.base import SchedulerBase


class Scheduler(SchedulerBase):  # type: ignore[misc]
    """Scheduler that takes jobs by priority, then in the order of the plan."""

    def select_jobs(
        self,
        selectable_jobs: Sequence[Any],
        remaining_jobs: Sequence[Any],
        available_resources: Mapping[str, int],
        input_sizes: Mapping[Any, int],
    ) -> list[Any]:
        """Return the jobs to start now, which together need no more than the available resources."""
        free, selected = dict(available_resources), []
        for job in sorted(selectable_jobs, key=lambda job: (-job.priority, job.jobid)):
            needs = {name: need for name, need in job.scheduler_resources.items() if need and name in free}
            if all(need <= free[name] for name, need in needs.items()):
                selected.append(job)
                free |= {name: free[name] - need for name, need in needs.items()}
        return selected
