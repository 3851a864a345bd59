"""Scheduler of a run: which of the jobs that are ready start first."""

from dataclasses import dataclass, field

import pytest

from snakemake_scheduler_plugin_waltz import Scheduler


@dataclass(frozen=True)
class Job:
    jobid: int
    priority: int = 0
    needs: dict = field(default_factory=dict, hash=False)

    @property
    def scheduler_resources(self):
        return {"_cores": 3, **self.needs}


GPU, TWO_GPUS = {"gpu": 1}, {"gpu": 2}


@pytest.mark.parametrize(
    ("jobs", "selected"),
    [
        ([Job(3), Job(1), Job(2)], [1, 2]),  # 3 cores each, of 8
        ([Job(1), Job(2), Job(3, 1, GPU), Job(4, 1, GPU), Job(5, 1, GPU)], [3, 4]),
        ([Job(1, 1, GPU), Job(2, 1, TWO_GPUS), Job(3)], [1, 3]),
        ([Job(1, 2, TWO_GPUS), Job(2, 1, GPU), Job(3)], [1, 3]),
        ([Job(1, 0, {"_cores": 9}), Job(2, 0, {"_cores": 8})], [2]),
        (
            [Job(1, 0, {"tmpdir": "/tmp", "mem_mb": 900}), Job(2, 0, {"mem_mb": 200})],
            [1],
        ),
        ([], []),
    ],
)
def test_the_highest_priorities_start_first_and_as_many_as_fit(jobs, selected):
    free = {"_cores": 8, "gpu": 2, "mem_mb": 1000}
    scheduler = Scheduler(None, None, None)
    assert [
        job.jobid for job in scheduler.select_jobs(jobs, jobs, free, {})
    ] == selected
    assert free == {"_cores": 8, "gpu": 2, "mem_mb": 1000}
