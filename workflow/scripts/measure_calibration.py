"""Measure sensitivity and specificity of self-consistency tests and CC-SHAP on constructed
decoders.
"""

from waltz.core.intervals import Resampling
from waltz.core.jobs.records import log_job
from waltz.core.records import write_records
from waltz.core.schema import MeasurementRecord
from waltz.measures.calibration import measure_calibration

params = snakemake.params

with log_job(snakemake.log[0]):
    resampling = Resampling(**params.resampling)
    rows = measure_calibration(
        seed=params.seed, resampling=resampling, **params.settings
    )
    write_records(snakemake.output.rows, rows, MeasurementRecord)
