"""All checks of a study, in about two minutes: files, repositories, models without values, and the
machine.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from waltz.model_registry import (
    ModelSpec,
)
from waltz.plan.plan import Plan
from waltz.preflight.checks import Check, State
from waltz.preflight.downloads import (
    ask_servers,
    judge_answers,
    list_needed_space,
    list_repositories,
    list_web_files,
    take_inventory,
)
from waltz.preflight.machine import check_disk, check_gpus, check_scheduler, list_gpus
from waltz.preflight.model_checks import check_models

LARGE = 1_000_000_000
"""Number of parameters from which a model is too slow on a CPU for a study."""


def run_preflight(plan: Plan, profile: Path | None, timeout: float) -> list[Check]:
    """Return the checks of everything that a study needs before it runs.

    Args:
        plan: Plan of the study.
        profile: Profile of Snakemake with which jobs run; None for this machine.
        timeout: Seconds in which all servers must answer; reading the descriptions of all
            checkpoints may take twice as long.
    Returns:
        Checks of files, repositories, models and the machine.
    """
    specs = select_run_models(plan)
    files = list_web_files(plan, specs)
    repositories = list_repositories(plan, specs)
    # All servers are asked at the same time, before anything is judged.
    answers = ask_servers(files, repositories, timeout)
    inventory = take_inventory(files, answers)

    # The table of the preflight has this order: files, repositories, models, then the machine.
    checks = _check_user_files(plan)
    checks += judge_answers(files, repositories, answers)
    with tempfile.TemporaryDirectory() as folder:
        checks += list(check_models(plan, specs, inventory, Path(folder), timeout))
    checks += check_disk(list_needed_space(plan, inventory, repositories))
    checks += check_gpus(
        _list_gpu_needs(plan, specs), list_gpus(), scheduled=profile is not None
    )
    for package, fault in plan.describe_missing_packages().items():
        checks.append(Check("package", package, State.FAILURE, fault))
    checks += check_scheduler(profile)
    return checks


def select_run_models(plan: Plan) -> dict[str, ModelSpec]:
    """Return the models that jobs of a study run by name, with the paths of their fetched files."""
    return {
        name: plan.models[name]
        for name in plan.models.run_here
        if name not in plan.skipped
    }


def _check_user_files(plan: Plan) -> list[Check]:
    """Return a check of each file or folder of the user that the study names by path."""
    checks = []
    for (source, name), entry in plan.raw.files.items():
        if entry.path is None:
            continue
        state, finding = State.OK, f"{entry.path} is here"
        if not Path(entry.path).exists():
            state = State.FAILURE
            finding = f"{entry.path}: no such file or folder; correct the path, which is relative to {Path.cwd()}"
        checks.append(Check("file", f"sources.{source}.{name}", state, finding))
    return checks


def _list_gpu_needs(
    plan: Plan, specs: Mapping[str, ModelSpec]
) -> dict[str, tuple[int, int]]:
    """Return GPU memory in GB and number of GPUs that the jobs of each large model request, by
    model.
    """
    # Small models fit on any GPU and are not checked.
    tested = {run.model for run in plan.tested}
    needs = {}
    for name, spec in specs.items():
        if spec.parameters < LARGE:
            continue
        # A job of the self-consistency tests loads the helper and the judge as well.
        loaded = [name]
        if name in tested:
            loaded = plan.list_testing_models(name)
        needs[name] = (
            plan.models.estimate_gpu_gb(*loaded),
            plan.models.count_gpus(loaded, None),
        )
    return needs
