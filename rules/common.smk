"""The plan of the study, and the questions that the rules ask it.

A stage's files follow one pattern, `<results>/<stage>/{model}/{group}.parquet`, and a rule shows it. What varies is asked
by the functions at the end of this file, which read like sentences: `select("{group}", PAIRS)` are the data sets of
pairs in a job's group. Their arguments are names, in which `{group}` stands for the value of a job's wildcard, or other
questions; what they return is a function that Snakemake calls with the wildcards of each job.

About a group of data sets, by their forms, or as the prompts of a decoder (`prompted="{decoder}"`):
    select("{group}", PAIRS)            their names
    sources_of(NAMES)                   the source of each of these or other data sets
    rows("{group}", "{decoder}")        files with the items that a decoder is prompted with
    images("{group}", PAIRS)            their images
    rows_of(NAMES), images_of(NAMES)    the same of data sets that are chosen otherwise
    datasets("{group}", PAIRS)          form and entry of each, for params
About models:
    weights("{encoder}")                weights, tokenizer, detector, stored regions and answers, here or fetched
    prompts("{decoder}")                digest of prompt files
    tables("scenes/kinds.yaml")         digest of files of the package
    model("{encoder}"), models(...)     the part of their entries that numbers depend on, for params
    loads("{encoder}")                  GPUs and memory of jobs that load them
    threads_for("{encoder}")            threads of jobs that load them
About runs:
    files_of("tests", RUNS)             model and name of each file with one kind of results of some runs
    shards("attribution", "{encoder}", "{group}")   jobs that a model's work on a group is cut into; shard_numbers: 0, 1, ...
About the study:
    settings("align")                   the slice of it that decides a step's numbers, for params
    entry(STUDY.instruments, "{instrument}", "size")    keys of one of its entries, for params
About code:
    code("align.py")                    digest of a script and of all that it imports
    code_of("align.py", "{encoder}")    the same, and of the modules of encoders' kinds
Anything else:
    ask(PLAN.list_source_rows, "{source}")          what a function of the plan answers
"""

import sys
from functools import cache
from pathlib import Path

from waltz import __version__, snakemake_compat
from waltz.cli.run import explain, targets
from waltz.cli.run.summary import print_run_summary
from waltz.core.digest import digest, digest_files
from waltz.core.errors import UserError
from waltz.core.files import result_cache
from waltz.core.files.resources import find_in_checkout, locate_in_package
from waltz.core.jobs import run_lock
from waltz.core.jobs.memory import check_address_space
from waltz.core.jobs.server import has_gpu_driver
from waltz.core.redaction import redact_urls
from waltz.evaluation.prompting.prompt_files import check_prompts
from waltz.export.plan import ExportPlan
from waltz.plan import costs
from waltz.plan.datasets import CHOICE, OPEN, PAIRS, PROBES
from waltz.plan.build_plan import build_plan
from waltz.plan.plan import EXPLAINING_MINUTES, SCORING_MINUTES, share_threads
from waltz.plan.raw_files import IMAGES
from waltz.plan.run_table import list_datasets_of
from waltz.plan.read_study import (
    find_study_files,
    load_yaml,
    merge_study_files,
    read_study,
)
from waltz.plan.step_settings import get_step_settings
from waltz.reporting.plan import COMPARED_STEPS, ReportingPlan
from waltz.reporting.selection import select_only

CONFIG_FILES = snakemake_compat.list_config_files(workflow)


def list_loaded_files():
    """Return the files of the study that Snakemake has not loaded: those it extends, or of the named or default study.

    To a module the importing workflow gives `config`: a whole study, or the name of one.
    """
    files = CONFIG_FILES
    if snakemake_compat.is_imported(workflow):
        is_study = bool({"sources", "extends"} & set(config))
        files = [config] if is_study else []
    return find_study_files(config, files, HERE / "config")


def list_study_files():
    """Return the files that say what this run is about, for the run lock."""
    return [str(file) for file in CONFIG_FILES or list_loaded_files()[-1:]]


def check_command_line():
    """Refuse options that Snakemake would read as others, and values that it would lose."""
    # Snakemake accepts the first letters of an option: --unl means --unlock.
    if any(word.startswith("--unl") for word in sys.argv):
        run_lock.check_unlocking()
    for key, value in snakemake_compat.get_command_line_config(workflow).items():
        if isinstance(value, dict):
            raise explain.build_nested_error(f"{key}={value}", f"{key}: {value}")
    for file in CONFIG_FILES:
        load_yaml(file)  # refuses a key that stands twice


def check_folders():
    """Refuse files that have the name of a folder to which the run writes."""
    for folder in ("results", "logs"):
        if Path(folder).is_file():
            raise UserError(
                f"{folder}: is a file, and a folder of this name is written to; move it"
            )


def check_prompt_files(plan):
    """Refuse prompt files that lack a prompt which a decoder of the run needs."""
    prompted = [*plan.decoded, *plan.checked]
    for name in dict.fromkeys(run.model for run in prompted):
        if name in plan.run_decoders:
            check_prompts(plan.models[name], plan.study.profiles)


def build_plans():
    """Return the plan of the study (named, default, or of --configfile), and the part of it that `only` names."""
    try:
        check_command_line()
        check_address_space()
        check_folders()
        content = merge_study_files(list_loaded_files(), config)
        complete_plan = build_plan(read_study(content))
        plan = select_only(complete_plan)
        check_prompt_files(plan)
        return complete_plan, plan
    except UserError as error:
        sys.exit(f"waltz: {error}")


COMPLETE_PLAN, PLAN = build_plans()
redact_urls(config)  # Snakemake writes it into the script of each job
REPORT = ReportingPlan(PLAN)
EXPORT = ExportPlan(PLAN)
os.environ.update({result_cache.POLICY: PLAN.study.stored_versions})  # for all jobs
STUDY, MODELS, RAW, BUILD = PLAN.study, PLAN.models, PLAN.raw, PLAN.construction
# A parameter that does not depend on the input: Snakemake compares no others with those of the last run.
USER_IMAGES = RAW.describe_user_images()
GPUS = snakemake_compat.get_gpus(workflow)
# A free GPU waits for nothing: its jobs come before those of a CPU, first of them those whose results others need.
ON_GPUS, NEEDED_ON_GPUS = 1, 2
MODEL_THREADS = STUDY.threads
if workflow.local_exec:
    MODEL_THREADS = share_threads(
        STUDY.threads, snakemake_compat.get_cores(workflow), GPUS
    )
if workflow.is_main_process:
    for NAME, REASON in COMPLETE_PLAN.skipped.items():
        print(f"waltz: {NAME}: {REASON}", file=sys.stderr)
    # The environments of `--sdm conda` contain the packages that models need.
    FAULTS = {}
    if not snakemake_compat.runs_in_environments(workflow):
        FAULTS = PLAN.describe_missing_packages()
    # Only runs on GPUs use 4 bits; the scheduler's machines may have what this one lacks.
    if workflow.local_exec and not GPUS:
        FAULTS.pop("bitsandbytes", None)
    for PACKAGE, FAULT in FAULTS.items():
        if PACKAGE != "bitsandbytes" or has_gpu_driver():
            sys.exit(f"waltz: {FAULT}")
        print(f"waltz: {FAULT}", file=sys.stderr)
    if STUDY.only:
        LEFT_OUT = len(PLAN.skipped) - len(COMPLETE_PLAN.skipped)
        print(
            f"waltz: only {', '.join(STUDY.only)}: {LEFT_OUT} models and data sets are left out",
            file=sys.stderr,
        )


pathvars:
    results=PLAN.results,
    logs=f"logs/{STUDY.study}",
    package=locate_in_package(""),


wildcard_constraints:
    **{
        wildcard: PLAN.build_pattern(values)
        for wildcard, values in PLAN.wildcards.items()
    },
    shard=r"\d+",


# The questions of the rules; the head of this file lists them.


def fill_in(argument, wildcards):
    """Return a name with the values of its wildcards, the answer to a question, or anything else as it is."""
    if callable(argument):
        return argument(wildcards)
    if isinstance(argument, str):
        return argument.format(**dict(wildcards.items()))
    return argument


def ask(question, *arguments):
    """Return what a function of the plan answers about names and answers of a job."""
    return lambda wildcards: question(*(fill_in(part, wildcards) for part in arguments))


def select(group, *forms, prompted=None):
    """Return the names of a group's data sets of some forms, or of those that a decoder is prompted with."""
    if prompted:
        return ask(PLAN.select_prompted, prompted, group)
    return ask(PLAN.select_forms, group, *forms)


def sources_of(names):
    """Return the source of each of some data sets."""
    return ask(PLAN.list_sources, names)


def rows(group, decoder):
    """Return the files with the items of a group with which a decoder is prompted."""
    return rows_of(select(group, prompted=decoder))


def rows_of(names):
    """Return the files with the items of some data sets."""
    return ask(PLAN.list_rows_files, names)


def images(group, *forms, prompted=None):
    """Return the images of a group's data sets; none for a language model that is prompted."""
    return images_of(select(group, *forms, prompted=prompted), prompted)


def images_of(names, prompted=None):
    """Return the images of some data sets; none for a language model that is prompted."""
    if prompted:
        return ask(PLAN.list_images_for, prompted, names)
    return ask(PLAN.list_image_files, names)


def datasets(group, *forms, prompted=None):
    """Return the form and entry of each of a group's data sets by name."""
    return ask(PLAN.get_settings, select(group, *forms, prompted=prompted))


def list_names(arguments, wildcards):
    """Return the models that names and questions about lists of names stand for."""
    names = []
    for argument in arguments:
        answer = fill_in(argument, wildcards)
        names += [answer] if isinstance(answer, str) else answer
    return names


def weights(*names):
    """Return the files of models: weights, tokenizer, detector, stored regions and answers."""
    return lambda wildcards: MODELS.list_files(*list_names(names, wildcards))


def prompts(*names):
    """Return the digest of the prompt files of decoders."""
    return lambda wildcards: digest_files(
        MODELS.list_prompt_files(*list_names(names, wildcards))
    )


def tables(*names):
    """Return the digest of files of the package that a job reads; their comments count nothing."""
    return lambda wildcards: digest_files(list_names(names, wildcards))


def model(name):
    """Return the part of a model's entry that its numbers depend on."""
    return ask(MODELS.get_settings, name)


def models(*names):
    """Return these parts of the entries of several models."""
    return lambda wildcards: list(
        map(MODELS.get_settings, list_names(names, wildcards))
    )


def loads(*names, rows_of=None):
    """Return the GPUs and memory of jobs that load some models, and rows of the data sets `rows_of` if there are any."""

    def count_gpus(wildcards):
        return MODELS.count_gpus(list_names(names, wildcards), GPUS)

    def get_gpu_gb(wildcards):
        return MODELS.estimate_gpu_gb(*list_names(names, wildcards))

    def get_memory_mb(wildcards):
        rows_mb = PLAN.estimate_rows_memory_mb(rows_of(wildcards)) if rows_of else 0
        return MODELS.estimate_memory_mb(*list_names(names, wildcards)) + rows_mb

    return {"gpu": count_gpus, "gpu_gb": get_gpu_gb, "mem_mb": get_memory_mb}


def threads_for(*names):
    """Return the threads of jobs that load some models; one for a job that loads none."""
    return lambda wildcards: MODEL_THREADS if list_names(names, wildcards) else 1


def files_of(result, runs):
    """Return model and name of each file with a kind of results of some runs."""
    return ask(PLAN.list_run_files, result, runs)


def shards(step, model, group):
    """Return the number of jobs that a model's work on a group is cut into."""
    return ask(count_shards, step, model, group)


def shard_numbers(step, model, group):
    """Return the numbers of these jobs, from 0, to expand a pattern with {shard}."""
    return ask(range, shards(step, model, group))


@cache
def count_shards(step, model, group):
    return costs.count_shards(PLAN, step, model, group)


def entry(entries, name, *keys):
    """Return some keys of an entry of the study; all that the study gives where no key is named."""
    return lambda wildcards: entries[fill_in(name, wildcards)].to_dict(*keys)


def settings(step):
    """Return the slice of the study that decides the numbers of a step; see waltz.plan.step_settings."""
    return get_step_settings(STUDY, step)


def code(script, *modules):
    """Return a digest of a rule's script and of all in waltz that it imports, or that is named."""
    return digest(HERE / "workflow/scripts" / script, *modules)


def code_of(script, *encoders):
    """Return the digest of a script and of the modules of encoders' kinds, which it imports by name."""

    def digest_code(wildcards):
        modules = map(MODELS.get_module, list_names(encoders, wildcards))
        return code(fill_in(script, wildcards), *modules)

    return digest_code


def per_attempt(minutes):
    """Return a runtime in minutes that grows with the attempts, so that a job that ran out of time gets more."""
    return lambda wildcards, attempt: minutes * attempt
