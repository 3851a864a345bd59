"""What a study needs of the machine: disk, GPUs, packages, partitions of a scheduler, jobs and hours."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from waltz.core.errors import UserError, get_first_line, suggest_name
from waltz.preflight.checks import Check, State

GB = 1e9
SPARE_SHARE = 0.1
"""Share of the free space that should be left."""
RULE = re.compile(r"^rule (\w+):", re.MULTILINE)
JOB_COUNT = re.compile(r"^ *(\S.*?) {2,}(\d+) *$", re.MULTILINE)
SINFO_SECONDS = 20


def check_disk(needed: Iterable[tuple[Path, int, str]]) -> list[Check]:
    """Compare what will be stored with the free space of each file system.

    Args:
        needed: Folder, bytes and kind of each file that is still to be fetched; folders need not exist.
    """
    by_device: dict[int, tuple[Path, dict[str, int]]] = {}
    for folder, size, kind in needed:
        parent = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
        place, sizes = by_device.setdefault(parent.stat().st_dev, (parent, {}))
        sizes[kind] = sizes.get(kind, 0) + size
    checks = []
    for place, sizes in by_device.values():
        total, free = sum(sizes.values()), shutil.disk_usage(place).free
        parts = ", ".join(f"{kind} {size / GB:.1f}" for kind, size in sizes.items())
        finding = f"{total / GB:.1f} GB are needed ({parts}) besides results, {free / GB:.1f} GB are free"
        if total > free:
            checks.append(Check("disk", str(place), State.FAILURE, f"{finding}; make room, or name other folders"))
        elif total > (1 - SPARE_SHARE) * free:
            checks.append(Check("disk", str(place), State.WARNING, f"{finding}; make room for results"))
        else:
            checks.append(Check("disk", str(place), State.OK, finding))
    return checks


def list_gpus() -> list[float]:
    """Return the memory in GB of each GPU of this machine."""
    import torch

    if not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_properties(index).total_memory / GB for index in range(torch.cuda.device_count())]


def check_gpus(needs: Mapping[str, tuple[int, int]], gpus: Sequence[float], scheduled: bool) -> list[Check]:
    """Compare the memory that the jobs of each model need with the GPUs.

    Args:
        needs: Memory in GB and number of GPUs that jobs request, by model.
        gpus: Memory of each GPU in GB.
        scheduled: Whether jobs run on other machines, whose GPUs are not known here.
    """
    checks = []
    for name, (memory, count) in needs.items():
        available = sum(sorted(gpus)[-count:])
        need = f"its jobs need {memory} GB on {count} GPU{'s' if count > 1 else ''}"
        if scheduled and not gpus:
            check = Check("gpu", name, State.OK, f"{need}; the cluster's GPUs are not known here")
        elif not gpus:
            check = Check("gpu", name, State.WARNING, f"{need}, and none is here; run it where there are some")
        elif memory > available or count > len(gpus):
            finding = f"{need} (got {len(gpus)} with {available:.0f} GB); use larger ones, or name {name} under skipped"
            check = Check("gpu", name, State.FAILURE, finding)
        else:
            check = Check("gpu", name, State.OK, f"{need}, {available:.0f} GB are here")
        checks.append(check)
    return checks


def check_scheduler(profile: Path | None) -> list[Check]:
    """Check that the partitions of a Snakemake profile exist; nothing where its jobs run on this machine.

    Args:
        profile: Folder of the profile.
    """
    if profile is None:
        return []
    settings = _read_profile(profile)
    if settings.get("executor") != "slurm":
        return []
    name = str(profile)
    try:
        listed = subprocess.run(
            ["sinfo", "--noheader", "--format=%R"], capture_output=True, text=True, check=True, timeout=SINFO_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        finding = f"sinfo cannot be run ({get_first_line(error)}); run this on a login node of the cluster"
        return [Check("scheduler", name, State.FAILURE, finding)]
    partitions = listed.stdout.split()
    known = ", ".join(partitions)
    configured = _list_partitions(settings)
    checks = [
        Check("scheduler", partition, State.OK, f"partition of {name}")
        if partition in partitions
        else Check(
            "scheduler",
            partition,
            State.FAILURE,
            f"unknown partition in {name} (got {partition}, expected one of {known})"
            f"{suggest_name(partition, partitions)}; correct slurm_partition",
        )
        for partition in configured
    ]
    return checks or [Check("scheduler", name, State.OK, f"its default partition; there are {known}")]


def _read_profile(profile: Path) -> Mapping[str, Any]:
    """Return the settings of a profile.

    Raises:
        UserError: There is no such profile.
    """
    files = sorted(profile.glob("config*.yaml"))
    if not files:
        raise UserError(f"--profile: {profile}: no profile is there; name a folder with a config.yaml")
    settings = yaml.safe_load(files[-1].read_text(encoding="utf-8"))
    return settings if isinstance(settings, Mapping) else {}


def _list_partitions(settings: Mapping[str, Any]) -> list[str]:
    """Return the partitions that a profile names, in its mapping or in its list form."""
    default, by_rule = settings.get("default-resources") or {}, settings.get("set-resources") or {}
    values = [default, *(by_rule.values() if isinstance(by_rule, Mapping) else [by_rule])]
    partitions: list[str] = []
    for value in values:
        if isinstance(value, Mapping):
            partitions += [str(value["slurm_partition"])] if "slurm_partition" in value else []
        else:
            partitions += [
                str(item).partition("slurm_partition=")[2].strip("'\" ")
                for item in value
                if "slurm_partition=" in str(item)
            ]
    return list(dict.fromkeys(partitions))


def count_jobs(dry_run: str, rules: Path) -> dict[str, int]:
    """Return the number of jobs of each stage that a dry run of Snakemake lists.

    Args:
        dry_run: Its output.
        rules: Folder of the rules, one file per stage.
    """
    stages = {rule: file.stem for file in sorted(rules.glob("*.smk")) for rule in RULE.findall(file.read_text("utf-8"))}
    jobs: dict[str, int] = {}
    for label, count in JOB_COUNT.findall(dry_run):
        if stage := stages.get(label.replace(" ", "_")):
            jobs[stage] = jobs.get(stage, 0) + int(count)
    return jobs


def find_profile(name: str | None) -> Path | None:
    """Return the folder of a profile; without a name that of `$SNAKEMAKE_PROFILE`."""
    name = name or os.environ.get("SNAKEMAKE_PROFILE")
    return Path(name) if name else None
