"""Answer the questions of one data set with one encoder that has an answering head."""

import time
from pathlib import Path

import pyarrow.parquet as pq

from waltz.core.devices import lease, ran_on
from waltz.core.files import parquet
from waltz.core.job_log import job, progress
from waltz.core.result_schema import EVALUATION
from waltz.core.run_record import digest_of, write_record
from waltz.evaluation.encoder_vqa import answer_rows, answered
from waltz.evaluation.vqa_items import questions
from waltz.models.encoders import load_encoder
from waltz.models.registry import ModelSpec
from waltz.sources.images import open_images

params = snakemake.params

with job(snakemake.log[0]), lease(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    start = time.perf_counter()
    rows = pq.read_table(snakemake.input.rows).to_pylist()
    asked = params.asked
    items, unusable = questions(snakemake.wildcards.asked, rows, asked["size"], params.seed, asked.get("choice"))
    encoder = load_encoder(ModelSpec(**params.model), device)
    stored = Path(snakemake.output.scores).parent / ".store"
    with open_images(snakemake.input.images) as images, progress(len(items), "question", encoder.spec.name) as bar:
        said = answered(encoder, items, images, stored, bar.update)
    found = answer_rows(items, said, encoder.answers, params.profiles)
    parquet.write(snakemake.output.scores, parquet.to_table(found, EVALUATION), EVALUATION)
    write_record(
        snakemake.output.run,
        rows_in=len(rows),
        rows_out=len(found),
        seconds=round(time.perf_counter() - start, 3),
        model=params.model,
        profiles=params.profiles,
        data=digest_of(snakemake.input.rows),
        **ran_on(device),
        seed=params.seed,
        unusable=dict(unusable),
        unscored_texts=sum(row["error"] is not None for row in found),
    )
