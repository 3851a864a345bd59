"""The plan of the study, which all rules ask: data sets, models, groups, files, and what is skipped."""

import sys
from functools import cache, partial
from pathlib import Path

from waltz import __version__
from waltz.cli.run import targets
from waltz.cli.run.summary import print_run_summary
from waltz.core import job_server, run_lock
from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.core.files import result_cache
from waltz.core.files.resources import find_in_checkout, locate_in_package
from waltz.core.memory import check_address_space
from waltz.evaluation.prompting.prompt_files import check_prompts
from waltz.export.plan import ExportPlan
from waltz.plan import costs
from waltz.plan.plan import EXPLAINING_MINUTES, SCORING_MINUTES, Plan, share_threads
from waltz.plan.raw_files import IMAGES
from waltz.plan.read_study import (
    find_study_files,
    load_yaml,
    merge_study_files,
    read_study,
)
from waltz.reporting.plan import ReportingPlan
from waltz.reporting.selection import select_only


def list_loaded_files():
    """Return the files of the study that Snakemake has not loaded: those it extends, or of the named or default study.

    To a module the importing workflow gives `config`: a whole study, or the name of one.
    """
    files = workflow.overwrite_configfiles
    if not workflow.modifier.is_main_snakefile():
        files = [config] if {"sources", "extends"} & set(config) else []
    return find_study_files(config, files, HERE / "config")


def build_plans():
    """Return the plan of the named or default study, or of the one that --configfile gave, and the part that `only` names."""
    try:
        check_address_space()
        for file in workflow.overwrite_configfiles:
            load_yaml(Path(file))  # refuses a key that stands twice
        for folder in ("results", "logs"):
            if Path(folder).is_file():
                raise UserError(
                    f"{folder}: is a file, and a folder of this name is written to; move it"
                )
        whole = Plan.from_study(
            read_study(merge_study_files(list_loaded_files(), config))
        )
        plan = select_only(whole)
        for model in dict.fromkeys(run.model for run in [*plan.decoded, *plan.tested]):
            if model in plan.run_decoders:
                check_prompts(plan.models[model], plan.study.profiles)
        return whole, plan
    except UserError as error:
        sys.exit(f"waltz: {error}")


def code(script, *modules):
    """Return a digest of a rule's script and of all in waltz that it imports, or that is named."""
    return digest(HERE / "workflow/scripts" / script, *modules)


def request_resources(list_models, list_datasets=lambda w: ()):
    """Return the GPUs and memory of a rule's jobs from the models that they load and the data sets whose rows they read."""

    return {
        "gpu": lambda w: MODELS.count_gpus(list_models(w), GPUS),
        "gpu_gb": lambda w: MODELS.estimate_gpu_gb(*list_models(w)),
        "mem_mb": lambda w: (
            MODELS.estimate_memory_mb(*list_models(w))
            + PLAN.estimate_rows_memory_mb(list_datasets(w))
        ),
    }


def per_attempt(minutes):
    """Return a runtime in minutes that grows with the attempts, so that a job that ran out of time gets more."""
    return lambda wildcards, attempt: minutes * attempt


WHOLE_PLAN, PLAN = build_plans()
count_shards = cache(partial(costs.count_shards, PLAN))


def list_shards(pattern, step, model, group, **wildcards):
    """Return the files of all shards of a model on a group, from a pattern with {model}, {group} and {shard}."""
    shards = range(count_shards(step, model, group))
    return expand(pattern, model=model, group=group, shard=shards, **wildcards)


REPORT = ReportingPlan(PLAN)
EXPORT = ExportPlan(PLAN)
os.environ.update({result_cache.POLICY: PLAN.study.stored_versions})  # for all jobs
STUDY, MODELS, RAW = PLAN.study, PLAN.models, PLAN.raw
# A parameter that does not depend on the input: Snakemake compares no others with those of the last run.
OWN_IMAGES = RAW.describe_own_images()
GPUS = workflow.global_resources.get("gpu").value
# A free GPU waits for nothing: its jobs come before those of a CPU, first of them those whose results others need.
ON_GPUS, NEEDED_ON_GPUS = 1, 2
MODEL_THREADS = STUDY.threads
if workflow.local_exec:
    MODEL_THREADS = share_threads(STUDY.threads, workflow.resource_settings.cores, GPUS)
if workflow.is_main_process:
    for NAME, REASON in WHOLE_PLAN.skipped.items():
        print(f"waltz: {NAME}: {REASON}", file=sys.stderr)
    # Environments of `--sdm conda` contain the package.
    if (
        GPUS or not workflow.local_exec
    ) and not workflow.deployment_settings.deployment_method:
        if LINE := PLAN.describe_missing_quantizer():
            if job_server.has_gpu_driver():
                sys.exit(f"waltz: {LINE}")
            print(f"waltz: {LINE}", file=sys.stderr)
    if STUDY.only:
        LEFT_OUT = len(PLAN.skipped) - len(WHOLE_PLAN.skipped)
        print(
            f"waltz: only {', '.join(STUDY.only)}: {LEFT_OUT} models and data sets are left out",
            file=sys.stderr,
        )


pathvars:
    results=PLAN.results,
    logs=f"logs/{STUDY.study}",


wildcard_constraints:
    **{
        wildcard: PLAN.build_pattern(values)
        for wildcard, values in PLAN.wildcards.items()
    },
    shard=r"\d+",
