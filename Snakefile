# waltz: from raw data sets to the tables of a thesis. How jobs run: profiles/; what is computed: config/.
import os
import sys
from pathlib import Path

from snakemake.utils import min_version

min_version("9.27")

HERE = Path(workflow.basedir)
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE / "workflow"), os.environ.get("PYTHONPATH", "")])
sys.path.insert(0, str(HERE / "workflow"))


include: "rules/common.smk"
include: "rules/sources.smk"
include: "rules/benchmark.smk"
include: "rules/evaluation.smk"
include: "rules/reporting.smk"


localrules:
    all,
    tables,
    figures,


rule all:
    default_target: True
    input:
        "<results>/reporting/index.html",


rule tables:
    input:
        TABLES,


rule figures:
    input:
        FIGURES["svg"],
        FIGURES["png"],
