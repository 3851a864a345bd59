"""Uses of Snakemake beyond its documented interface: private attributes, texts of messages, and
three patches.

They are tested with the versions in `TESTED_VERSIONS`, and pyproject.toml pins the minor version of
Snakemake. To adopt a newer version, run the tests in tests/cli/run, tests/core/jobs/test_server.py
and tests/workflow, and correct only this module: each function says which part of Snakemake it
reads or replaces, and why.
"""

import re
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waltz.core.jobs.interrupts import HIDE_INTERRUPTS
from waltz.core.jobs.server import has_gpu_driver, start_job_server

TESTED_VERSIONS = {
    "snakemake": "9.27.1",
    "snakemake-interface-logger-plugins": "2.1.0",
    "snakemake-interface-scheduler-plugins": "2.0.2",
    "snakemake-logger-plugin-rich": "0.5.1",
}
"""Versions of the packages whose private parts are used here and by the two plugins next to this
package.
"""
LEAST_JOBS = 30
"""Smallest number of jobs for which a job server pays off: fewer jobs import less in total than the
server does.
"""
LOCKED = "Error: Directory cannot be locked."
"""First line of Snakemake's message about lock files; the rest of the message advises to remove
them.
"""
RAISED_IN_RULE = "  UserError: "
"""Start of the line with the error in Snakemake's message about a function of a rule that raised a
UserError.
"""
MISSING_TARGET = re.compile(r"No rule to produce (.*?) \(if you use input", re.DOTALL)
"""Pattern of Snakemake's message about a target that no rule produces; the group is the target."""
MISSING_FILES = "affected files:"
"""Heading above the list of files in Snakemake's message about missing input."""
JOB_COUNT = re.compile(r"^ *(\S.*?) {2,}(\d+) *$", re.MULTILINE)
"""Pattern of a line in Snakemake's table of jobs: name of a rule, with spaces, and number of jobs."""
FETCHED_PART = re.compile(r"source=([^,\s]+), part=([^,\s]+)")
"""Pattern of the wildcards of rule `fetch` in Snakemake's message about missing input."""

TOTAL_COUNT = re.compile(r"^total +(\d+)$", re.MULTILINE)
"""Pattern of the number of all jobs in a log of Snakemake; the group is the number."""
JOB_EVENT = re.compile(
    r"^(?:(?:local)?(?:rule|checkpoint) (?P<started>\w+):|(?P<failed>Error in rule) \w+:|Finished jobid: (?P<done>\d+)"
    r"|    jobid: (?P<job>\d+)$)",
    re.MULTILINE,
)
"""Pattern of the lines of a log of Snakemake that say that a job started, failed or finished, and
of the line with the number of a job that started or failed.
"""


@dataclass(frozen=True)
class LoggedJobs:
    """Jobs of a run, as a log of Snakemake lists them.

    Attributes:
        total: Number of all jobs.
        done: Number of jobs that have finished.
        failed: Number of jobs that failed and were not started again.
        running: Rules of the jobs that run, in the order of their start.
    """

    total: int
    done: int
    failed: int
    running: tuple[str, ...]


# Facts about the running workflow. `workflow` is the object of `snakemake.workflow.Workflow` that
# rules see.


def list_config_files(workflow: Any) -> list[Path]:
    """Return the files of `--configfile` (`overwrite_configfiles`); the public interface has only
    their content.
    """
    return [Path(file) for file in workflow.overwrite_configfiles]


def get_command_line_config(workflow: Any) -> Mapping[str, object]:
    """Return the keys of `--config` (`config_settings`) without the keys of files."""
    config: Mapping[str, object] = workflow.config_settings.config
    return config


def is_imported(workflow: Any) -> bool:
    """Return whether another workflow imports this one as a module (`modifier`), and so passes it a
    study.
    """
    return not workflow.modifier.is_main_snakefile()


def name_workflow(workflow: Any) -> list[str]:
    """Return the options that tell Snakemake the workflow and folder of this run; empty for its
    defaults.
    """
    # Options that a user typed and that suggested commands must repeat.
    options = []
    if Path(workflow.main_snakefile).parent != Path.cwd():
        options += ["--snakefile", str(workflow.main_snakefile)]
    if workflow.overwrite_workdir:
        options += ["--directory", str(workflow.overwrite_workdir)]
    return options


def get_cores(workflow: Any) -> int | None:
    """Return the number of cores of this run (`resource_settings`); None if Snakemake only lists or
    unlocks.
    """
    cores: int | None = workflow.resource_settings.cores
    return cores


def get_gpus(workflow: Any) -> int | None:
    """Return the number of GPUs in `--resources gpu=2` (`global_resources`); None if the option is
    missing.
    """
    gpus: int | None = workflow.global_resources.get("gpu").value
    return gpus


def runs_in_environments(workflow: Any) -> bool:
    """Return whether jobs run in separate environments, as with `--sdm conda`
    (`deployment_settings`).
    """
    return bool(workflow.deployment_settings.deployment_method)


def list_targets(workflow: Any) -> list[str]:
    """Return the requested targets of the run (`dag_settings`), sorted."""
    return sorted(workflow.dag_settings.targets)


def takes_locks(workflow: Any) -> bool:
    """Return whether the run locks its folder (`execution_settings`); False with `--nolock`."""
    return bool(workflow.execution_settings.lock)


def list_lock_files(workflow: Any) -> list[str]:
    """Return the lock files of this run (`persistence._lockfile`).

    `waltz status` has to distinguish them from lock files of earlier runs.
    """
    return list(getattr(workflow.persistence, "_lockfile", {}).values())


def list_locked_files(workflow: Any) -> tuple[list[str], list[str]]:
    """Return the input files and the output files of the run, by which Snakemake decides if two
    runs collide.
    """
    # Snakemake lists the input of all jobs, and the output only of jobs that will run.
    persistence = workflow.persistence
    return persistence.all_inputfiles(), persistence.all_outputfiles()


def list_output_files(workflow: Any) -> list[str]:
    """Return the output files of all jobs of the run."""
    files: list[str] = []
    for job in workflow.dag.jobs:
        files += job.output
    return files


# Patches of Snakemake.


def drop_rate_limit(workflow: Any) -> None:
    """Remove the limit of started jobs per second (`scheduler.job_rate_limiter`), for runs on this
    machine.

    Because of its limit, Snakemake 9 starts a timer each time that it looks at the ready jobs, and
    looks again when a timer ends: dozens of times a second after some minutes. A run of 198 jobs
    spent 274 of its 900 s on that.
    """
    workflow.scheduler.job_rate_limiter = None


def hide_script_interrupts() -> None:
    """Let scripts that Ctrl-C stops end without a traceback, also while they still import.

    Snakemake has no other interface to add a line to its scripts.
    """
    from snakemake.script import PythonScript

    write = PythonScript.write_script

    def write_script(script: Any, preamble: str, file: Any) -> None:
        write(script, preamble + HIDE_INTERRUPTS, file)

    PythonScript.write_script = write_script


def fork_scripts(workflow: Any) -> threading.Event:
    """Run the scripts of a large run in forks of a job server (`waltz.core.jobs.server`), which has
    imported libraries.

    Returns:
        Event that is set as soon as scripts are forked; it is never set in a run of few jobs, or if
        the server cannot be started.
    """
    from snakemake.script import PythonScript

    # Only jobs that will run import libraries.
    n_jobs = len(list(workflow.dag.needrun_jobs()))
    if n_jobs < LEAST_JOBS:
        return threading.Event()
    return patch_script_class(PythonScript)


def patch_script_class(script_class: Any) -> threading.Event:
    """Replace `PythonScript.execute_script`; Snakemake has no other interface to change how scripts
    are run.

    Args:
        script_class: `snakemake.script.PythonScript`. A script that cannot be forked still runs in
            a new interpreter.
    Returns:
        Event that is set as soon as scripts are forked; it is never set if the server cannot be
        started.
    """
    server = start_job_server()
    if server is None:
        return threading.Event()
    # Keep Snakemake's method for scripts that cannot be forked.
    run_in_new_interpreter = script_class.execute_script

    def execute_script(script: Any, file: str, edit: bool = False) -> None:
        """Run a script in a fork if possible, else as Snakemake does."""
        # Jobs that start before the server is ready do not wait for it.
        if not (server.ready.is_set() and can_fork(script)):
            run_in_new_interpreter(script, file, edit)
            return
        status = server.run(file, script.resources.get("tmpdir"))
        if status:
            raise subprocess.CalledProcessError(status, f"{sys.executable} {file}")

    script_class.execute_script = execute_script
    return server.ready


def can_fork(script: Any) -> bool:
    """Return whether a script gives the same results in a fork as in a new interpreter.

    It does not with a separate environment, a benchmark of its resources, more than one thread
    (libraries read the number of threads when they are imported), or a GPU (CUDA does not survive a
    fork).
    """
    environments = (
        script.conda_env,
        script.container_img,
        script.env_modules,
        script.shadow_dir,
    )
    if any(environments) or script.bench_record or script.threads > 1:
        return False
    # A job that requests a GPU on a machine without GPUs runs on the CPU and can be forked.
    uses_gpu = script.resources.get("gpu", 0) and has_gpu_driver()
    return not uses_gpu


# Messages and errors of Snakemake, whose texts and classes are not part of its interface.


def find_call_values(error: BaseException, function: str) -> dict[str, object]:
    """Return the local variables of a function of Snakemake in the traceback of an exception; empty
    without a call.
    """
    # Snakemake's exceptions do not say which file or entry they are about; its local variables do.
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__"))
        if frame.f_code.co_name == function and module.startswith("snakemake."):
            return frame.f_locals
    return {}


def find_wrong_entry(error: BaseException) -> str | None:
    """Return the entry of `--config` that Snakemake could not read (`snakemake.cli.parse_config`)."""
    entry = find_call_values(error, "parse_config").get("entry")
    return None if entry is None else str(entry)


def find_wrong_file(error: BaseException) -> Path | None:
    """Return the file of `--configfile` that Snakemake could not read
    (`snakemake.io.load_configfile`).
    """
    path = find_call_values(error, "load_configfile").get("configpath")
    return None if path is None else Path(str(path))


def find_rule_error(lines: Iterable[str]) -> str | None:
    """Return the message of a UserError that a function of a rule raised; Snakemake keeps only its
    text.
    """
    for line in lines:
        if line.startswith(RAISED_IN_RULE):
            return line.removeprefix(RAISED_IN_RULE)
    return None


def find_missing_target(error: BaseException) -> str | None:
    """Return the target of a MissingRuleException, which no rule produces; None for other
    exceptions.
    """
    if type(error).__name__ != "MissingRuleException":
        return None
    target = MISSING_TARGET.search(str(error))
    return target[1] if target else None


def is_about_missing_input(error: BaseException) -> bool:
    """Return whether an exception is about input files that do not exist and that no rule produces."""
    return type(error).__name__ == "MissingInputException"


def list_missing_files(message: str) -> list[str]:
    """Return the files that Snakemake's message about missing input lists."""
    listing = message.partition(MISSING_FILES)[2]
    return [line.strip() for line in listing.splitlines() if line.strip()]


def read_job_counts(dry_run: str) -> dict[str, int]:
    """Return the number of jobs of each rule that a dry run of Snakemake lists.

    Args:
        dry_run: Output of `snakemake --dry-run --quiet`.
    """
    counts: dict[str, int] = {}
    for label, count in JOB_COUNT.findall(dry_run):
        # The table shows spaces instead of the underscores of names.
        counts[label.replace(" ", "_")] = int(count)
    counts.pop("total", None)
    return counts


def read_logged_jobs(log: str) -> LoggedJobs:
    """Return the jobs of a run from the text of its log."""
    total = TOTAL_COUNT.search(log)
    done: set[str] = set()
    failed: set[str] = set()
    running: dict[str, str] = {}
    # Rule of the job whose number follows; None after the line of a failure.
    rule: str | None = None
    for event in JOB_EVENT.finditer(log):
        job = event["job"]
        if event["started"] or event["failed"]:
            rule = event["started"]
        elif event["done"]:
            done.add(event["done"])
            running.pop(event["done"], None)
        elif rule is None:
            failed.add(job)
            running.pop(job, None)
        else:
            failed.discard(job)
            running[job] = rule
    n_jobs = int(total[1]) if total else 0
    return LoggedJobs(n_jobs, len(done), len(failed), tuple(running.values()))


def find_fetched_part(message: str) -> tuple[str, str] | None:
    """Return source and name of the raw file for which rule `fetch` lacks its input; None for other
    rules.
    """
    match = FETCHED_PART.search(message)
    return (match[1], match[2]) if match else None
