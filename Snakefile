# waltz: from raw data sets to the tables of a thesis. How jobs run: profiles/; what is computed: config/.
import gc
import os
import sys
from pathlib import Path

from snakemake.utils import min_version

min_version("9.27")  # later minor versions: see waltz.snakemake_compat

# A plan of thousands of jobs frees little: with the default of 700, collections take a fifth of the planning.
gc.set_threshold(100_000)

# Jobs and this file import waltz from this checkout, whatever is installed: the environments of `--use-conda` hold none.
HERE = Path(workflow.current_basedir.get_path_or_uri(secret_free=True))
LIBRARY = str(HERE / "workflow")
sys.path.insert(0, LIBRARY)
os.environ.update(  # `snakemake --lint` takes an assignment for a variable that the user has to set
    PYTHONPATH=os.pathsep.join([LIBRARY, os.environ.get("PYTHONPATH", "")]),
    HF_HUB_DISABLE_PROGRESS_BARS="1",  # bars of jobs, below the one of the run
)

from waltz.core.jobs.interrupts import hide_interrupts

hide_interrupts()


include: "rules/common.smk"
include: "rules/scenes.smk"
include: "rules/sources.smk"
include: "rules/foils.smk"
include: "rules/filters.smk"
include: "rules/benchmark.smk"
include: "rules/evaluation.smk"
include: "rules/attribution.smk"
include: "rules/consistency.smk"
include: "rules/measures.smk"
include: "rules/reporting.smk"
include: "rules/export.smk"


if workflow.is_main_process:
    explain.install(
        lambda: run_lock.describe_refusal(
            STUDY.study,
            *snakemake_compat.list_locked_files(workflow),
            options=snakemake_compat.name_workflow(workflow),
        )
    )


onstart:
    if snakemake_compat.takes_locks(workflow):
        run_lock.check_study_is_free(STUDY.study, has_other_targets=True)
    run_lock.hold_study(
        STUDY.study,
        files=list_study_files(),
        targets=snakemake_compat.list_targets(workflow),
        locks=snakemake_compat.list_lock_files(workflow),
        logs=log,
    )
    if workflow.local_exec:
        snakemake_compat.drop_rate_limit(workflow)
        snakemake_compat.hide_script_interrupts()
        snakemake_compat.fork_scripts(workflow)


onsuccess:
    print_run_summary(
        STUDY.study, PLAN.skipped, snakemake_compat.list_output_files(workflow)
    )


localrules:
    all,
    tables,
    figures,
    sources,
    foils,
    filters,
    benchmark,
    evaluation,
    attribution,
    consistency,
    measures,
    reporting,


# The default target: the report, the comparison with the papers, and what the measures are worth.
rule all:
    default_target: True
    input:
        "<results>/reporting/report.html",
        "<results>/reporting/tables/reproduction.csv",
        expand(
            "<results>/measures/{measurement}.parquet",
            measurement=STUDY.measures.list_measurements(),
        ),


rule sources:
    """All raw data as typed rows, with the images checked."""
    input:
        expand("<results>/sources/{source}.parquet", source=PLAN.raw_sources),
        expand(
            "<results>/sources/images/{source}.parquet",
            source=RAW.list_sources_with_images(),
        ),


rule foils:
    """All candidates of all instruments, and the captions of CV-Probes."""
    input:
        expand("<results>/foils/{instrument}.parquet", instrument=STUDY.instruments),
        rules.contextual_captions.output if STUDY.cv_probes else [],


rule filters:
    """The candidates of all instruments with the verdict of each filter."""
    input:
        expand("<results>/filters/{instrument}.parquet", instrument=STUDY.instruments),


rule benchmark:
    """The items of all data sets, with the funnel, the oracle, the audit and the validation statistics."""
    input:
        BUILD.built_files,
        expand(
            "<results>/benchmark/{dataset}.parquet",
            dataset=[*PLAN.item_sets, *STUDY.alignment],
        ),
        REPORT.benchmark_files,


rule evaluation:
    """Scores, answers and choices of all models, and their metrics."""
    input:
        rules.metrics.output if PLAN.scored else [],


rule attribution:
    """MM-SHAP of all models, and shares of text."""
    input:
        rules.shares.output if PLAN.attributed else [],


rule consistency:
    """Self-consistency tests and CC-SHAP of all decoders, and their numbers."""
    input:
        rules.consistency_metrics.output if PLAN.checked else [],


rule measures:
    """Reliability of the measures: bias, floors, choices, faults, known truth."""
    input:
        expand(
            "<results>/measures/{measurement}.parquet",
            measurement=STUDY.measures.list_measurements(),
        ),


rule tables:
    input:
        expand("<results>/reporting/tables/{table}.csv", table=REPORT.tables),
        "<results>/reporting/tables/reproduction.csv",


rule figures:
    input:
        [REPORT.list_frequency_files(form) for form in ("svg", "png")],
        [REPORT.list_chart_files(form) for form in ("svg", "png")],
        list(REPORT.sample_folders),


rule reporting:
    """The page and all tables and figures."""
    input:
        rules.all.input,
        rules.figures.input,


targets.register(
    [RULE.name for RULE in workflow.rules],
    {TABLE.id: TABLE.rule_name for TABLE in REPORT.declarations.values()},
)
