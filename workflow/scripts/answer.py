"""Answer the questions of one data set with one encoder that has an answering head."""

import time
from pathlib import Path

import pyarrow.parquet as pq

from waltz.core.devices import describe_device, lease_device
from waltz.core.files import parquet
from waltz.core.files.download_lock import compute_sha256
from waltz.core.job_log import log_job, show_progress
from waltz.core.run_record import write_record
from waltz.core.schema import EVALUATION
from waltz.evaluation.encoder_vqa import answer_rows, answered
from waltz.evaluation.vqa_items import questions
from waltz.models.encoders import load_encoder
from waltz.models.registry import ModelSpec
from waltz.sources.images import open_images

params = snakemake.params

with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    start = time.perf_counter()
    rows = pq.read_table(snakemake.input.rows).to_pylist()
    asked = params.asked
    items, unusable = questions(snakemake.wildcards.asked, rows, asked["size"], params.seed, asked.get("choice"))
    encoder = load_encoder(ModelSpec(**params.model), device)
    stored = Path(snakemake.output.scores).parent / ".store"
    with open_images(snakemake.input.images) as images, show_progress(len(items), "question", encoder.spec.name) as bar:
        said = answered(encoder, items, images, stored, bar.update)
    found = answer_rows(items, said, encoder.answers, params.profiles)
    parquet.write(snakemake.output.scores, parquet.build_table(found, EVALUATION), EVALUATION)
    write_record(
        snakemake.output.run,
        rows_in=len(rows),
        rows_out=len(found),
        seconds=round(time.perf_counter() - start, 3),
        model=params.model,
        profiles=params.profiles,
        data=compute_sha256(snakemake.input.rows),
        **describe_device(device),
        seed=params.seed,
        unusable=dict(unusable),
        unscored_texts=sum(row["error"] is not None for row in found),
    )
