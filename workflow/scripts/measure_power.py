"""Measure the smallest differences between models that paired tests can show."""

from waltz.core.files.group_files import read_run_records
from waltz.core.intervals import Resampling
from waltz.core.jobs.records import log_job
from waltz.core.records import write_records
from waltz.core.schema import EvaluationRecord, MeasurementRecord
from waltz.evaluation.metrics.pair_metrics import pair_scores
from waltz.evaluation.settings import VALSE_SCRIPT
from waltz.fidelity import get_fidelity
from waltz.measures.power import PowerSettings, measure_power

params = snakemake.params

with log_job(snakemake.log[0]):
    runs = read_run_records(snakemake.input.scores, EvaluationRecord, params.runs)
    fidelity = get_fidelity(params.profile)
    scores = {}
    for run, rows in runs.items():
        # LXMERT has other scores by VALSE's script, which are for the tables of VALSE alone.
        rows = [row for row in rows if row.setting != VALSE_SCRIPT]
        scores[run] = pair_scores(rows, fidelity)
    resampling = Resampling(**params.resampling)
    rows = measure_power(scores, PowerSettings(**params.settings), resampling)
    write_records(snakemake.output.rows, rows, MeasurementRecord)
