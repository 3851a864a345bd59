# waltz: from raw data sets to the tables of a thesis. How jobs run: profiles/; what is computed: config/.
import os
import sys
from pathlib import Path

from snakemake.script import PythonScript
from snakemake.utils import min_version

min_version("9.27")

# Jobs and this file import waltz from this checkout, whatever is installed: the environments of `--use-conda` hold none.
HERE = Path(workflow.current_basedir.get_path_or_uri(secret_free=True))
LIBRARY = str(HERE / "workflow")
sys.path.insert(0, LIBRARY)
os.environ.update(  # `snakemake --lint` takes an assignment for a variable that the user has to set
    PYTHONPATH=os.pathsep.join([LIBRARY, os.environ.get("PYTHONPATH", "")]),
    HF_HUB_DISABLE_PROGRESS_BARS="1",  # bars of jobs, below the one of the run
)


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
    for LINE in run_lock.describe_other_run(STUDY.study):
        print(f"waltz: {LINE}", file=sys.stderr)


onstart:
    run_lock.hold_study(
        STUDY.study,
        files=[
            str(FILE)
            for FILE in workflow.overwrite_configfiles or list_loaded_files()[-1:]
        ],
        targets=sorted(workflow.dag_settings.targets),
    )
    # For its limit of jobs a second, Snakemake 9 sets a timer each time that it looks at the ready jobs, and looks again
    # when one ends: dozens of times a second after some minutes. A run of 198 jobs spent 274 of its 900 s on that.
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None
        if sum(1 for JOB in workflow.dag.needrun_jobs()) >= job_server.LEAST_JOBS:
            job_server.start_job_server(PythonScript)


onsuccess:
    print_run_summary(STUDY.study, PLAN.skipped)


localrules:
    all,
    tables,
    figures,
    scene_models,
    sources,
    foils,
    filters,
    benchmark,
    evaluation,
    attribution,
    consistency,
    measures,
    reporting,


rule all:
    default_target: True
    input:
        "<results>/reporting/report.html",
        "<results>/reporting/tables/reproduction.csv",
        PLAN.measure_files,


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
        rules.contextual_captions.output if PLAN.probe_rows else [],


rule filters:
    """The candidates of all instruments with the verdict of each filter."""
    input:
        expand("<results>/filters/{instrument}.parquet", instrument=STUDY.instruments),


rule benchmark:
    """The items of all data sets, with the funnel, the oracle, the audit and the validation statistics."""
    input:
        [*map(PLAN.get_built_file, STUDY.instruments)],
        PLAN.list_rows_files([*PLAN.item_sets, *STUDY.alignment]),
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
        rules.consistency_metrics.output if PLAN.tested else [],


rule measures:
    """What the measures themselves are worth: bias, floors, choices, faults, known truth."""
    input:
        PLAN.measure_files,


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
