"""Progress of a study, from Snakemake's summary and made-up logs."""

import os
from datetime import datetime
from pathlib import Path

import pytest

from waltz.core.jobs.run_lock import StudyRun
from waltz.reporting.progress import StageProgress, find_progress

HEAD = "output_file\tdate\trule\tlog-file(s)\tstatus\tplan\n"
ERROR = "2026-01-02 03:04:05,678 ERROR waltz: zoo.csv: item 1: no text\n"
BEGAN = datetime(2026, 1, 2, 3, 0, 0)


def render_summary(**status):
    """Return a summary in which the files named are `missing` or `updated input files`, and all
    others are done.
    """
    files = {
        "results/s/reporting/tables/thesis-3.4.csv": "table",
        "results/s/evaluation/metrics.parquet": "metrics",
        "results/s/evaluation/metrics/encoder.benchmark.parquet": "metrics_part",
        "results/s/evaluation/clip/foils.parquet": "align",
        "results/s/evaluation/clip/foils.run.json": "align",
        "results/s/attribution/clip/shards/foils.0.parquet": "attribute",
        "resources/weights/web/a.pth": "fetch_weights",
    }
    lines = []
    for file, rule in files.items():
        state = status.get(rule, "ok")
        lines.append(
            "\t".join(
                [
                    file,
                    "-",
                    rule,
                    "-",
                    state,
                    "no update" if state == "ok" else "update pending",
                ]
            )
        )
    return HEAD + "\n".join(lines) + "\n"


def write_log(folder, name, content, minute=5):
    log = folder / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(content)
    seconds = BEGAN.replace(minute=minute).timestamp()
    os.utime(log, (seconds, seconds))


def find(logs, goes_on=False, **status):
    run = StudyRun("process 1 on host", BEGAN, (), (), goes_on)
    return find_progress(render_summary(**status), Path("results/s"), logs, run)


def test_files_are_counted_by_stage_in_the_order_of_the_stages(tmp_path):
    assert find(tmp_path, align="missing", metrics="updated input files").stages == (
        StageProgress("weights", 1, 1),
        StageProgress("evaluation", 1, 4, 1),
        StageProgress("attribution", 1, 1),
        StageProgress("reporting", 1, 1),
    )


def test_a_failed_job_has_the_last_line_of_its_log(tmp_path):
    write_log(
        tmp_path,
        "align/clip/foils",
        f"2026-01-02 03:04:05,600 INFO waltz: loading\n{ERROR}\n",
    )
    (job,) = find(tmp_path, align="missing").failed
    assert (job.name, job.line) == ("align clip/foils", "zoo.csv: item 1: no text")
    assert find(tmp_path, align="missing", goes_on=True).failed == (job,)


def test_a_log_of_a_job_that_is_done_by_now_is_no_failure(tmp_path):
    write_log(tmp_path, "align/clip/foils", ERROR)
    assert find(tmp_path, attribute="missing").failed == ()


def test_the_failure_of_an_earlier_run_is_none_of_the_run_that_goes_on(tmp_path):
    write_log(tmp_path, "align/clip/foils", ERROR)
    log = tmp_path / "align/clip/foils.log"
    os.utime(log, (BEGAN.timestamp() - 9, BEGAN.timestamp() - 9))
    progress = find(tmp_path, align="missing", goes_on=True)
    assert (progress.failed, progress.running) == ((), ())


def test_a_job_without_an_end_runs_or_was_stopped(tmp_path):
    write_log(
        tmp_path,
        "attribute/clip/foils.0",
        "2026-01-02 03:04:05,600 INFO waltz: loading\n",
    )
    (job,) = find(tmp_path, attribute="missing", goes_on=True).running
    assert job.name == "attribute clip/foils.0"
    (job,) = find(tmp_path, attribute="missing").failed
    assert job.line == "it was stopped before it ended; loading"
    # It ended, and its input changed later.
    assert find(tmp_path, attribute="updated input files").failed == ()


@pytest.mark.parametrize(
    ("log", "rule"),
    [("metrics", "metrics"), ("metrics/encoder.benchmark", "metrics_part")],
)
def test_logs_with_and_without_wildcards_belong_to_rules_of_similar_names(
    tmp_path, log, rule
):
    write_log(tmp_path, log, ERROR)
    other = {"metrics": "metrics_part", "metrics_part": "metrics"}[rule]
    assert len(find(tmp_path, **{rule: "missing"}).failed) == 1
    assert find(tmp_path, **{other: "missing"}).failed == ()
