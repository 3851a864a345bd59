"""The benchmark of jobs: sums of processes, and the page that its numbers are written into."""

import json
import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import jobs

EXPLANATION = ROOT / "docs" / "explanation"


def build_job(rule, wall, cpu, **imports):
    return {"rule": rule, "wall": wall, "cpu": cpu, "imports": imports}


def test_snakemake_and_the_server_are_no_jobs():
    record = jobs.sum_rules(
        [
            build_job("table", 1.0, 2.0, torch=0.5),
            build_job("table", 3.0, 4.0),
            build_job("(Snakemake itself)", 9.0, 8.0),
            build_job("(job server)", 90.0, 7.0),
        ],
        12.4,
    )
    snakemake, server, table, all_jobs = record["rules"]
    assert (snakemake["rule"], server["rule"]) == jobs.NO_JOBS
    assert table == all_jobs | {"rule": "table"}
    assert (table["jobs"], table["wall"], table["cpu"]) == (2, 4, 6)
    assert "| table | 2 | 4.0 | 6.0 | 0.5 (8 %) |" in jobs.format_rules(record)


def test_the_page_states_the_committed_numbers():
    record = json.loads((EXPLANATION / "speed-jobs.json").read_text(encoding="utf-8"))
    table = jobs.format_rules(record, jobs.SHOWN_CPU_SECONDS)
    assert table in (EXPLANATION / "speed.md").read_text(encoding="utf-8")
