"""Every number of tests and CC-SHAP of the models of one kind on one group, and the correlations between them."""

from waltz.consistency.summary.metrics import AVERAGE, Run, correlation_rows, metric_rows
from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.job_log import log_job
from waltz.core.schema import CC_SHAP, CONSISTENCY, EDITED, METRICS

params = snakemake.params

with log_job(snakemake.log[0]):
    how = Resampling(params.resamples, params.confidence, params.seed)
    parts = {"tests": (CONSISTENCY, params.runs), "cc_shap": (CC_SHAP, params.runs), "edited": (EDITED, params.edited)}
    read = {
        name: {
            tuple(run): parquet.read(file, layout).to_pylist()
            for run, file in zip(runs, snakemake.input[name], strict=bool(snakemake.input[name]))
        }
        for name, (layout, runs) in parts.items()
    }
    runs = {tuple(run): Run(**{name: found.get(tuple(run), []) for name, found in read.items()}) for run in params.runs}
    metrics, correlations = metric_rows(runs, how, params.together), correlation_rows(runs, how)
    if not params.averaged:  # a model's other data sets are in other parts
        metrics = [row for row in metrics if row["dataset"] != AVERAGE]
    parquet.write(snakemake.output.metrics, parquet.build_table(metrics, METRICS), METRICS)
    parquet.write(snakemake.output.correlations, parquet.build_table(correlations, METRICS), METRICS)
