"""Sensitivity and specificity of self-consistency tests and CC-SHAP on constructed decoders."""

from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.job_records import log_job
from waltz.core.schema import MEASURES
from waltz.measures.calibration import measure_calibration

params = snakemake.params

with log_job(snakemake.log[0]):
    how = Resampling(params.resamples, params.confidence, params.seed)
    rows = measure_calibration(seed=params.seed, how=how, **params.settings)
    parquet.write_rows(snakemake.output.rows, rows, MEASURES)
