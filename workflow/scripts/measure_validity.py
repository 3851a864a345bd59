"""Train decoders to explain faithfully or not, and measure which scores tell them apart."""

from waltz.core.intervals import Resampling
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.records import write_records
from waltz.core.schema import MeasurementRecord
from waltz.measures.validity import ValiditySettings, measure_validity

params = snakemake.params

with open_model_job(snakemake):
    resampling = Resampling(**params.resampling)
    settings = ValiditySettings(**params.settings)
    rows = measure_validity(settings, params.seed, resampling)
    write_records(snakemake.output.rows, rows, MeasurementRecord)
