"""Score the captions and foils of every data set with one language model."""

import time
from pathlib import Path

from waltz.core.devices import describe_device, lease_device
from waltz.core.files import parquet
from waltz.core.files.download_lock import compute_sha256
from waltz.core.job_log import log_job, show_progress
from waltz.core.run_record import write_record
from waltz.core.schema import BENCHMARK, EVALUATION
from waltz.evaluation.items import select
from waltz.evaluation.perplexity import score_rows, tally
from waltz.models.registry import ModelSpec
from waltz.models.text.causal import load_causal_model

params = snakemake.params

with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    benchmarks = [parquet.read(file, BENCHMARK) for file in snakemake.input.pairs]
    chosen = [select(benchmark, params.scored, params.sample, params.seed) for benchmark in benchmarks]
    model = load_causal_model(ModelSpec(**params.model), device)
    texts = sum(2 * len(items) for items in chosen) * len(params.profiles)
    with show_progress(texts, "text", model.spec.name) as bar:
        for items, read, file, record in zip(
            chosen, snakemake.input.pairs, snakemake.output.scores, snakemake.output.runs, strict=True
        ):
            start = time.perf_counter()
            stored = Path(file).parent / ".store"
            rows = score_rows(items.to_pylist(), model, params.profiles, params.tokens_per_batch, stored, bar.update)
            parquet.write(file, parquet.build_table(rows, EVALUATION), EVALUATION)
            write_record(
                record,
                rows_in=len(items),
                rows_out=len(rows),
                seconds=round(time.perf_counter() - start, 3),
                model=params.model,
                profiles=params.profiles,
                data=compute_sha256(read),
                **describe_device(device),
                seed=params.seed,
                tokens_per_batch=params.tokens_per_batch,
                shares_prefixes=model.reads_trees,
                **tally(rows),
            )
