"""Every number of tests and CC-SHAP of the models of one kind on one group, and the correlations between them."""

from waltz.consistency.metrics import AVERAGE, ConsistencyRows, build_correlation_rows, build_metric_rows
from waltz.core.files import parquet
from waltz.core.files.group_files import read_run_rows
from waltz.core.intervals import Resampling
from waltz.core.job_records import log_job
from waltz.core.schema import CC_SHAP, CONSISTENCY, EDITED, METRICS

params, given = snakemake.params, snakemake.input

with log_job(snakemake.log[0]):
    how = Resampling(params.resamples, params.confidence, params.seed)
    layouts = {"tests": CONSISTENCY, "cc_shap": CC_SHAP, "edited": EDITED}
    rows = {name: read_run_rows(given.get(name) or [], layout, params.runs) for name, layout in layouts.items()}
    runs = {run: ConsistencyRows(**{name: rows[name][run] for name in rows}) for run in rows["tests"]}
    metrics, correlations = build_metric_rows(runs, how, params.together), build_correlation_rows(runs, how)
    if not params.averaged:  # a model's other data sets are in other parts
        metrics = [row for row in metrics if row["dataset"] != AVERAGE]
    parquet.write_rows(snakemake.output.metrics, metrics, METRICS)
    parquet.write_rows(snakemake.output.correlations, correlations, METRICS)
