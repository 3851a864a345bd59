"""acc_r where a language model finds caption and foil equally likely."""

from waltz.core.files import parquet
from waltz.core.files.group_files import read_run_rows
from waltz.core.intervals import Resampling
from waltz.core.job_records import log_job
from waltz.core.schema import EVALUATION, MEASURES
from waltz.evaluation.metrics.pair_metrics import pair_scores
from waltz.measures.plausibility import measure_plausibility

params = snakemake.params

with log_job(snakemake.log[0]):
    runs = read_run_rows(snakemake.input.scores, EVALUATION, params.runs)
    scores = {run: pair_scores(rows, params.profile) for run, rows in runs.items()}
    how = Resampling(params.resamples, params.confidence, params.seed)
    rows = measure_plausibility(scores, params.settings["language_model"], params.filters, how)
    parquet.write_rows(snakemake.output.rows, rows, MEASURES)
