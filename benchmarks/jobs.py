"""CPU and wall seconds of each rule's jobs in a run, and how many of them are imports.

Usage: python benchmarks/jobs.py [--keep FOLDER] [--modules RULE] [--docs FOLDER] [ARGUMENT OF SNAKEMAKE ...]

Runs Snakemake (by default `snakemake --cores 2`, so the default study) in a copy of the checkout's
files, where no result exists yet. Every Python process notes its CPU seconds (user and system, all
threads) when it starts, before and after each import that no other import caused, and at its end.
CPU seconds hardly depend on what else the machine does; wall seconds are meant for an idle one.
`--modules` lists the imports of one rule's jobs; `--docs docs/explanation` renews `speed-jobs.json`
and the table of `speed.md` that is made from it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

CHECKOUT = Path(__file__).parents[1]
NO_JOBS = ("(Snakemake itself)", "(job server)")
"""Processes that are no jobs; the server waits most of its wall seconds."""
TABLE_BEGIN, TABLE_END = "<!-- jobs -->", "<!-- end -->"
"""Marks around the table of the page."""
SHOWN_CPU_SECONDS = 5
"""CPU seconds of a rule's jobs from which the page shows the rule."""
TIMER = """
import _frozen_importlib, atexit, json, os, sys, threading, time

start, imports, depth, main = time.time(), {}, threading.local(), None
find_and_load = _frozen_importlib._find_and_load

def time_import(name, import_):
    global main
    main = getattr(sys.modules["__main__"], "snakemake", main)
    if getattr(depth, "inside", False):
        return find_and_load(name, import_)
    depth.inside, before = True, time.thread_time()
    try:
        return find_and_load(name, import_)
    finally:
        depth.inside = False
        imports[name] = imports.get(name, 0.0) + time.thread_time() - before

def write_times():
    rule = getattr(main, "rule", None)
    if not rule and any("multiprocessing.forkserver" in word for word in sys.orig_argv):
        rule = "(job server)"
    elif not rule and "snakemake.cli" in sys.modules:
        rule = "(Snakemake itself)"
    if rule:
        times = {"rule": rule, "log": list(getattr(main, "log", [])),
                 "cpu": time.process_time(), "wall": time.time() - start, "imports": imports}
        with open(os.path.join(os.environ["JOB_TIMES"], f"{os.getpid()}.json"), "w") as file:
            json.dump(times, file)

def write_times_of_server():
    if not main and any("multiprocessing.forkserver" in word for word in sys.orig_argv):
        write_times()  # Snakemake does not wait for its end

def begin_job():
    global start
    start = time.time()
    imports.clear()

_frozen_importlib._find_and_load = time_import
os.register_at_fork(before=write_times_of_server, after_in_child=begin_job)
atexit.register(write_times)
"""


def run_snakemake(
    folder: Path, arguments: list[str]
) -> tuple[list[dict[str, Any]], float]:
    """Run Snakemake in a copy of the checkout below `folder`; return the times of each process, and
    wall seconds.
    """
    copy, times = folder / "checkout", folder / "times"
    times.mkdir()
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        capture_output=True,
        check=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(CHECKOUT / name, copy / name, follow_symlinks=False)
    (folder / "timer").mkdir()
    (folder / "timer" / "sitecustomize.py").write_text(TIMER)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(folder / "timer"), str(copy / "workflow")]),
        "JOB_TIMES": str(times),
    }
    # A checkout has the bytecode of its modules after the first jobs.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "snakemake", *arguments],
        cwd=copy,
        env=environment,
        check=True,
    )
    seconds = time.perf_counter() - start
    return [
        json.loads(file.read_text()) for file in sorted(times.glob("*.json"))
    ], seconds


def sum_rules(jobs: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """Return wall and CPU seconds, and CPU seconds of imports, of each rule and of all jobs.

    Args:
        jobs: Times of each process.
        seconds: Wall seconds of the run.
    """
    rules: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for job in jobs:
        rules[job["rule"]].append(job)
    rows = [sum_jobs(rule, rules[rule]) for rule in rules]
    rows.sort(key=lambda row: -row["cpu"])
    all_jobs = sum_jobs("all jobs", [job for job in jobs if job["rule"] not in NO_JOBS])
    return {
        "seconds": round(seconds),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[2], 1),
        "rules": [*rows, all_jobs],
    }


def sum_jobs(name: str, jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sums of some jobs' times."""
    return {
        "rule": name,
        "jobs": len(jobs),
        "wall": round(sum(job["wall"] for job in jobs), 1),
        "cpu": round(sum(job["cpu"] for job in jobs), 1),
        "imports": round(sum(sum(job["imports"].values()) for job in jobs), 1),
    }


def format_rules(record: dict[str, Any], min_cpu: float = 0) -> str:
    """Return a Markdown table with a row for each rule that took at least `min_cpu` CPU seconds, and
    one for all jobs; below it the wall seconds of the run.
    """
    lines = [
        "| rule | jobs | wall s | CPU s | of these imports |",
        "|---|---|---|---|---|",
    ]
    for row in record["rules"]:
        if row["cpu"] < min_cpu:
            continue
        imports = f"{row['imports']:.1f} ({100 * row['imports'] / row['cpu']:.0f} %)"
        lines.append(
            f"| {row['rule']} | {row['jobs']} | {row['wall']:.1f} | {row['cpu']:.1f} | {imports} |"
        )
    run = f"{record['seconds']} wall seconds on {record['cores']} cores at a load of {record['load']}."
    return "\n".join([*lines, "", run])


def renew_page(record: dict[str, Any], folder: Path) -> None:
    """Write the numbers of a run, and the table of the page that shows them."""
    (folder / "speed-jobs.json").write_text(json.dumps(record, indent=1) + "\n")
    page = folder / "speed.md"
    head, table_begin, rest = page.read_text().partition(TABLE_BEGIN)
    _, table_end, tail = rest.partition(TABLE_END)
    table = format_rules(record, SHOWN_CPU_SECONDS)
    page.write_text(f"{head}{table_begin}\n{table}\n{table_end}{tail}")


def list_modules(jobs: list[dict[str, Any]]) -> list[str]:
    """Return the imports of jobs that took longest, with their CPU seconds."""
    seconds: Counter[str] = Counter()
    for job in jobs:
        seconds.update(job["imports"])
    return [f"{value:8.2f} {module}" for module, value in seconds.most_common(20)]


def main() -> None:
    """Print the table of rules."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", type=Path, help="new folder that keeps the run")
    parser.add_argument(
        "--modules", metavar="RULE", help="also list the imports of this rule's jobs"
    )
    parser.add_argument(
        "--docs", type=Path, help="folder of speed.md, which is renewed"
    )
    options, arguments = parser.parse_known_args()
    with TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        jobs, seconds = run_snakemake(folder.resolve(), arguments or ["--cores", "2"])
    record = sum_rules(jobs, seconds)
    print(format_rules(record))
    if options.docs:
        renew_page(record, options.docs)
    if options.modules:
        print(
            *list_modules([job for job in jobs if job["rule"] == options.modules]),
            sep="\n",
        )


if __name__ == "__main__":
    main()
