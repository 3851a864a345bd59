"""Measure how well judges that do not see the image distinguish captions from foils."""

from waltz.benchmark.audit import audit_blind_judges, score_blindly
from waltz.core.files.result_cache import get_cache_file
from waltz.core.intervals import Resampling
from waltz.core.jobs.model_jobs import open_model_job
from waltz.core.jobs.records import show_progress
from waltz.core.records import read_records, write_records
from waltz.core.schema import AuditRecord, ItemRecord
from waltz.filters.pipeline import load_filter_models

params = snakemake.params
resampling = Resampling(**params.resampling)

with open_model_job(snakemake) as device:
    models = load_filter_models(params.models, device)
    benchmarks = [
        list(read_records(file, ItemRecord)) for file in snakemake.input.pairs
    ]
    items = [item for benchmark in benchmarks for item in benchmark]
    with show_progress(10 * len(items), "text", "audit") as bar:
        scores, contradictions = score_blindly(
            items, models, get_cache_file(snakemake.output.audit), bar.update
        )
    records = []
    for instrument, benchmark in zip(params.instruments, benchmarks, strict=True):
        records += audit_blind_judges(
            instrument,
            benchmark,
            scores,
            contradictions,
            threshold=params.threshold,
            resampling=resampling,
        )
    write_records(snakemake.output.audit, records, AuditRecord)
