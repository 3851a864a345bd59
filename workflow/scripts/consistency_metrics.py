"""Every number of tests and CC-SHAP of the models of one kind on one group, and the correlations
between them.
"""

from waltz.consistency.metrics import (
    AVERAGE,
    ConsistencyRows,
    build_correlation_records,
    build_metric_records,
)
from waltz.core.files.group_files import read_run_records
from waltz.core.intervals import Resampling
from waltz.core.jobs.records import log_job
from waltz.core.records import write_records
from waltz.core.schema import (
    CcShapRecord,
    ConsistencyRecord,
    EditedRecord,
    MetricRecord,
)

params, inputs = snakemake.params, snakemake.input

with log_job(snakemake.log[0]):
    resampling = Resampling(**params.resampling)
    tests = read_run_records(inputs.get("tests") or [], ConsistencyRecord, params.runs)
    cc_shap = read_run_records(inputs.get("cc_shap") or [], CcShapRecord, params.runs)
    edited = read_run_records(inputs.get("edited") or [], EditedRecord, params.runs)
    runs = {
        run: ConsistencyRows(tests[run], cc_shap[run], edited[run]) for run in tests
    }
    metrics = build_metric_records(runs, resampling, params.together, params.margin)
    correlations = build_correlation_records(runs, resampling)
    if not params.averaged:  # a model's other data sets are in other parts
        metrics = [metric for metric in metrics if metric.dataset != AVERAGE]
    write_records(snakemake.output.metrics, metrics, MetricRecord)
    write_records(snakemake.output.correlations, correlations, MetricRecord)
