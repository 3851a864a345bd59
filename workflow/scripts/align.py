"""Score texts beside their images, for every data set of a group, with one encoder."""

import time
from pathlib import Path

import pyarrow.parquet as pq

from waltz.core.devices import describe_device, lease_device
from waltz.core.files import parquet
from waltz.core.files.download_lock import compute_sha256
from waltz.core.job_log import log_job, show_progress
from waltz.core.run_record import write_record
from waltz.core.schema import BENCHMARK, CONDITIONS, EVALUATION
from waltz.evaluation.alignment import score_pairs, score_probes, tally
from waltz.evaluation.items import select
from waltz.models.encoders import load_encoder
from waltz.models.registry import ModelSpec
from waltz.sources.images import open_images

params = snakemake.params

with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    encoder = load_encoder(ModelSpec(**params.model), device)
    for file, images, scores, record in zip(
        snakemake.input.pairs, snakemake.input.images, snakemake.output.scores, snakemake.output.runs, strict=True
    ):
        start = time.perf_counter()
        probes = "condition" in pq.read_schema(file).names
        items = (
            parquet.read(file, CONDITIONS)
            if probes
            else select(parquet.read(file, BENCHMARK), params.scored, params.sample, params.seed)
        ).to_pylist()
        score = score_probes if probes else score_pairs
        texts = len(items) * (1 if probes else 2)
        with (
            open_images(images) as source,
            show_progress(texts, "text", f"{encoder.spec.name} {Path(scores).stem}") as bar,
        ):
            rows = score(encoder, items, source, params.profiles, Path(scores).parent / ".store", bar.update)
        parquet.write(scores, parquet.build_table(rows, EVALUATION), EVALUATION)
        write_record(
            record,
            rows_in=len(items),
            rows_out=len(rows),
            seconds=round(time.perf_counter() - start, 3),
            model=params.model,
            profiles=params.profiles,
            data=compute_sha256(file),
            **describe_device(device),
            seed=params.seed,
            **tally(rows),
        )
