# waltz: from raw data sets to the tables of a thesis. How jobs run: profiles/; what is computed: config/.
import os
import sys
from pathlib import Path

from snakemake.script import PythonScript
from snakemake.utils import min_version

min_version("9.27")

# Jobs and this file import waltz from this checkout, whatever is installed: the environments of `--use-conda` hold none.
HERE = Path(workflow.basedir)
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
            for FILE in workflow.overwrite_configfiles or workflow.configfiles[-1:]
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
    consistency,


rule all:
    default_target: True
    input:
        "<results>/reporting/report.html",


rule tables:
    input:
        expand("<results>/reporting/tables/{table}.csv", table=REPORT.tables),
        "<results>/reporting/tables/reproduction.csv",


rule figures:
    input:
        [REPORT.list_frequency_files(form) for form in ("svg", "png")],
        [REPORT.list_chart_files(form) for form in ("svg", "png")],
        list(REPORT.sample_folders),
