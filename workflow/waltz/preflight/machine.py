"""Checks of the machine: disk, GPUs, partitions of a scheduler, and the number of jobs."""

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import yaml

from waltz.core.errors import UserError, get_first_line, suggest_name
from waltz.core.files.bounded_yaml import read_yaml
from waltz.preflight.checks import Check, State
from waltz.snakemake_compat import read_job_counts

GB = 1e9
"""Bytes of a gigabyte."""
SPARE_SHARE = 0.1
"""Share of the free space that should remain free."""
RULE = re.compile(r"^(?:use rule \w+ as|rule) (\w+)(?: with)?:", re.MULTILINE)
"""Pattern of the first line of a rule in a file of rules, also of one that is derived from another
(`use rule`).
"""
SLURM_PLUGIN = "snakemake_executor_plugin_slurm"
INSTALL_SLURM = "pip install -c constraints.txt -e '.[slurm]'"
SINFO_SECONDS = 20
"""Time limit in seconds for the answer of `sinfo`."""


def check_disk(needed: Iterable[tuple[Path, int | None, str]]) -> list[Check]:
    """Return a check of each file system that compares the size of files to fetch with the free
    space.

    Args:
        needed: Folder, size in bytes and kind of each file that is still to be fetched; folders
            need not exist, and the size is None if it is unknown.
    """
    folders: dict[int, Path] = {}
    known_bytes: dict[int, Counter[str]] = {}
    unknown_counts: Counter[int] = Counter()
    # Add up the files on each file system; a folder that does not exist counts for the file
    # system of its nearest parent.
    for folder, size, kind in needed:
        absolute = folder.absolute()
        parent = next(path for path in (absolute, *absolute.parents) if path.exists())
        device = parent.stat().st_dev  # a number of the file system
        folders.setdefault(device, parent)
        sizes = known_bytes.setdefault(device, Counter())
        if size is None:
            unknown_counts[device] += 1
        else:
            sizes[kind] += size
    return [
        _judge_disk(folders[device], sizes, unknown_counts[device])
        for device, sizes in known_bytes.items()
    ]


def _judge_disk(folder: Path, sizes: Mapping[str, int], n_unknown: int) -> Check:
    """Return the check of one file system.

    Args:
        folder: A folder on the file system.
        sizes: Bytes of all files of known size by their kind.
        n_unknown: Number of files of unknown size.
    """
    total = sum(sizes.values())
    free = shutil.disk_usage(folder).free
    parts = ", ".join(f"{kind} {size / GB:.1f}" for kind, size in sizes.items())
    amount = f"{total / GB:.1f} GB"
    if parts:
        amount += f" ({parts})"
    if n_unknown:
        amount = (
            f"at least {amount} and {n_unknown} files or repositories of unknown size"
        )
    finding = f"{amount} are needed besides results, {free / GB:.1f} GB are free"
    # A failure, an incomplete estimate, and little space for results, in this order.
    state = State.OK
    if total > free:
        state, finding = State.FAILURE, f"{finding}; make room, or name other folders"
    elif n_unknown:
        state = State.WARNING
        finding += "; run again when all servers answer, and see docs/how-to/running-the-thesis.md for sizes"
    elif total > (1 - SPARE_SHARE) * free:
        state, finding = State.WARNING, f"{finding}; make room for results"
    return Check("disk", str(folder), state, finding)


def list_gpus() -> list[float]:
    """Return the memory in GB of each GPU of this machine; empty without GPUs."""
    import torch

    if not torch.cuda.is_available():
        return []
    return [
        torch.cuda.get_device_properties(index).total_memory / GB
        for index in range(torch.cuda.device_count())
    ]


def check_gpus(
    needs: Mapping[str, tuple[int, int]], gpus: Sequence[float], scheduled: bool
) -> list[Check]:
    """Return a check of each model that compares the GPU memory of its jobs with the GPUs.

    Args:
        needs: Memory in GB and number of GPUs that jobs request, by model.
        gpus: Memory of each GPU in GB.
        scheduled: Whether jobs run on other machines, whose GPUs are not known here.
    """
    return [
        _judge_gpus(name, memory, count, gpus, scheduled)
        for name, (memory, count) in needs.items()
    ]


def _judge_gpus(
    name: str, memory: int, count: int, gpus: Sequence[float], scheduled: bool
) -> Check:
    """Return the check of one model.

    Args:
        name: Name of the model.
        memory: GPU memory in GB that a job needs.
        count: Number of GPUs that a job requests.
        gpus: Memory of each GPU in GB.
        scheduled: Whether jobs run on other machines.
    """
    plural = "s" if count > 1 else ""
    need = f"its jobs need {memory} GB on {count} GPU{plural}"
    if not gpus and scheduled:
        return Check(
            "gpu", name, State.OK, f"{need}; the cluster's GPUs are not known here"
        )
    if not gpus:
        return Check(
            "gpu",
            name,
            State.WARNING,
            f"{need}, and none is here; run it where there are some",
        )
    available = sum(sorted(gpus)[-count:])  # the largest GPUs
    if memory > available or count > len(gpus):
        finding = f"{need} (got {len(gpus)} with {available:.0f} GB); use larger ones, or name {name} under skipped"
        return Check("gpu", name, State.FAILURE, finding)
    return Check("gpu", name, State.OK, f"{need}, {available:.0f} GB are here")


def check_scheduler(profile: Path | None) -> list[Check]:
    """Return checks whether the Slurm executor is installed and the partitions of a Snakemake
    profile exist; empty if the profile does not use Slurm.

    Args:
        profile: Folder of the profile; None for a run on this machine.
    """
    if profile is None:
        return []
    settings = _read_profile(profile)
    if settings.get("executor") != "slurm":
        return []
    name = str(profile)
    if find_spec(SLURM_PLUGIN) is None:
        finding = (
            f"the Slurm executor of Snakemake is not installed; run: {INSTALL_SLURM}"
        )
        return [Check("scheduler", name, State.FAILURE, finding)]
    try:
        listed = subprocess.run(
            ["sinfo", "--noheader", "--format=%R"],
            capture_output=True,
            text=True,
            check=True,
            timeout=SINFO_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        finding = f"sinfo cannot be run ({_read_fault(error)}); run this on a login node of the cluster"
        return [Check("scheduler", name, State.FAILURE, finding)]
    # `sinfo` lists one partition a line; a profile without partitions uses the default one.
    known = listed.stdout.split()
    configured = _list_partitions(settings)
    if not configured:
        finding = f"its default partition; there are {', '.join(known)}"
        return [Check("scheduler", name, State.OK, finding)]
    return [_judge_partition(partition, known, name) for partition in configured]


def _read_fault(error: OSError | subprocess.SubprocessError) -> str:
    """Return the last line that a failed program wrote to stderr, or else the error's own."""
    if isinstance(error, subprocess.CalledProcessError) and error.stderr.strip():
        fault: str = error.stderr.strip().splitlines()[-1]
        return fault
    return get_first_line(error)


def _judge_partition(partition: str, known: Sequence[str], profile: str) -> Check:
    """Return the check of one partition that a profile names."""
    if partition in known:
        return Check("scheduler", partition, State.OK, f"partition of {profile}")
    finding = (
        f"unknown partition in {profile} (got {partition}, expected one of {', '.join(known)})"
        f"{suggest_name(partition, known)}; correct slurm_partition"
    )
    return Check("scheduler", partition, State.FAILURE, finding)


def _read_profile(profile: Path) -> Mapping[str, object]:
    """Return the settings of a Snakemake profile.

    Raises:
        UserError: The profile does not exist, or its file is not valid YAML.
    """
    # A profile may have files for several versions of Snakemake, such as config.v8+.yaml: take the
    # last.
    files = sorted(profile.glob("config*.yaml"))
    if not files:
        raise UserError(
            f"--profile: {profile}: no profile is there; name a folder with a config.yaml"
        )
    try:
        settings = read_yaml(files[-1])
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(
            f"{files[-1]}: is not YAML ({' '.join(str(error).split())}); correct it"
        ) from None
    if not isinstance(settings, Mapping):
        return {}
    return settings


def _list_partitions(settings: Mapping[str, object]) -> list[str]:
    """Return the partitions that a profile names for all rules or single rules, each once."""
    partitions: list[str] = []
    for key in ("default-resources", "set-resources"):
        partitions += _find_partitions(settings.get(key))
    return list(dict.fromkeys(partitions))


def _find_partitions(resources: object) -> Iterator[str]:
    """Yield the partitions in resources: a mapping, perhaps by rule, or a list of texts
    `slurm_partition=NAME` or `RULE:slurm_partition=NAME`.
    """
    if isinstance(resources, Mapping):
        for key, value in resources.items():
            if key == "slurm_partition":
                yield str(value)
            yield from _find_partitions(value)
    elif isinstance(resources, list):
        for text in map(str, resources):
            _, _, name = text.partition("slurm_partition=")
            if name:
                yield name.strip("'\" ")


def count_jobs_by_rule(dry_run: str, rules: Path) -> dict[str, int]:
    """Return the number of jobs of each stage that a dry run of Snakemake lists.

    Args:
        dry_run: Output of the dry run.
        rules: Folder of the rules, one file per stage.
    """
    stages: dict[str, str] = {}
    for file in sorted(rules.glob("*.smk")):
        stages |= dict.fromkeys(RULE.findall(file.read_text("utf-8")), file.stem)
    jobs: Counter[str] = Counter()
    for rule, count in read_job_counts(dry_run).items():
        # The targets of the Snakefile, such as `all`, belong to no stage.
        if rule in stages:
            jobs[stages[rule]] += count
    return dict(jobs)


def find_profile(name: str | None) -> Path | None:
    """Return the folder of a profile: `name`, or else the folder that `$SNAKEMAKE_PROFILE` names;
    None without both.
    """
    name = name or os.environ.get("SNAKEMAKE_PROFILE")
    return Path(name) if name else None
