"""Score texts beside their images, for every data set of a group, with one encoder."""

import time
from pathlib import Path

import pyarrow.parquet as pq

from waltz.core.devices import lease, ran_on
from waltz.core.files import parquet
from waltz.core.job_log import job, progress
from waltz.core.result_schema import EVALUATION
from waltz.core.run_record import digest_of, write_record
from waltz.core.schema import BENCHMARK, CONDITIONS
from waltz.evaluation.alignment import score_pairs, score_probes, tally
from waltz.evaluation.items import select
from waltz.models.encoders import load_encoder
from waltz.models.registry import ModelSpec
from waltz.sources.images import open_images

params = snakemake.params

with job(snakemake.log[0]), lease(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
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
        with open_images(images) as source, progress(texts, "text", f"{encoder.spec.name} {Path(scores).stem}") as bar:
            rows = score(encoder, items, source, params.profiles, Path(scores).parent / ".store", bar.update)
        parquet.write(scores, parquet.to_table(rows, EVALUATION), EVALUATION)
        write_record(
            record,
            rows_in=len(items),
            rows_out=len(rows),
            seconds=round(time.perf_counter() - start, 3),
            model=params.model,
            profiles=params.profiles,
            data=digest_of(file),
            **ran_on(device),
            seed=params.seed,
            **tally(rows),
        )
