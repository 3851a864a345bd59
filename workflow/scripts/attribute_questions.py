"""MM-SHAP of the answers to one shard of a data set of questions by one encoder with an answering head."""

import time
from pathlib import Path

import pyarrow.parquet as pq

from waltz.attribution.encoder_rows import compute_answer_rows, count_outcomes
from waltz.attribution.item_selection import questions_to_attribute
from waltz.attribution.settings import AttributionSettings
from waltz.core.devices import describe_device, lease_device
from waltz.core.files import parquet
from waltz.core.files.download_lock import compute_sha256
from waltz.core.job_log import log_job, show_progress
from waltz.core.run_record import write_record
from waltz.core.schema import ATTRIBUTION
from waltz.models.encoders import load_encoder
from waltz.models.registry import ModelSpec
from waltz.sources.images import open_images

params, wildcards = snakemake.params, snakemake.wildcards
shard = int(wildcards.shard)

with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    start = time.perf_counter()
    read = pq.read_table(snakemake.input.rows).to_pylist()
    chosen = {
        profile: questions_to_attribute(read, wildcards.asked, params.asked, profile, params.sample, params.seed)[
            shard :: params.shards
        ]
        for profile in params.profiles
    }
    encoder = load_encoder(ModelSpec(**params.model), device)
    stored = Path(snakemake.output.rows).parent / ".store"
    rows = []
    with (
        open_images(snakemake.input.images) as source,
        show_progress(sum(map(len, chosen.values())), "question", encoder.spec.name) as bar,
    ):
        for profile, items in chosen.items():
            settings = AttributionSettings(profile, seed=params.seed, **params.settings[profile])
            rows += compute_answer_rows(encoder, items, source, settings, stored, bar.update)
    parquet.write(snakemake.output.rows, parquet.build_table(rows, ATTRIBUTION), ATTRIBUTION)
    write_record(
        snakemake.output.run,
        rows_in=sum(map(len, chosen.values())),
        rows_out=len(rows),
        seconds=round(time.perf_counter() - start, 3),
        model=params.model,
        settings=params.settings,
        data=compute_sha256(snakemake.input.rows),
        **describe_device(device),
        seed=params.seed,
        shard=f"{shard + 1} of {params.shards}",
        **count_outcomes(rows),
    )
