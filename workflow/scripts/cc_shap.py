"""CC-SHAP of one shard of a group of data sets with one decoder, and what contributes to answers and explanations."""

import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from waltz.consistency.cc_shap.items import build_setup
from waltz.consistency.cc_shap.rows import compute_cc_shap_rows, count_outcomes
from waltz.consistency.item_selection import to_ask
from waltz.core.devices import describe_device, lease_device
from waltz.core.files import parquet
from waltz.core.files.download_lock import compute_sha256
from waltz.core.job_log import log_job, show_progress
from waltz.core.run_record import write_record
from waltz.core.schema import ATTRIBUTION, CC_SHAP
from waltz.evaluation.decoder_tasks import build_template
from waltz.models.decoders import load_decoder
from waltz.models.registry import ModelSpec
from waltz.sources.images import load_image, open_images

params, given, made = snakemake.params, snakemake.input, snakemake.output
shard = int(snakemake.wildcards.shard)

with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    decoder = load_decoder(ModelSpec(**params.model), device)
    images = given.get("images") or [None] * len(params.posing)
    files = zip(given.rows, images, made.rows, made.contributions, made.runs, strict=True)
    for (name, entry), (file, seen, rows_file, contributions_file, record) in zip(
        params.posing.items(), files, strict=True
    ):
        start = time.perf_counter()
        read = pq.read_table(file).to_pylist()
        chosen = {
            profile: to_ask(read, name, entry, profile, params.sample, params.seed) for profile in params.profiles
        }
        mine = {profile: asked.questions[shard :: params.shards] for profile, asked in chosen.items()}
        stored = Path(rows_file).parents[2] / ".store"
        rows, contributions = [], []
        total, label = sum(map(len, mine.values())) * len(params.seeds), f"{decoder.spec.name} {name}"
        with open_images(seen) if seen else nullcontext() as source, show_progress(total, "item", label) as bar:
            for profile, questions in mine.items():
                template = build_template(decoder, profile)
                for seed in params.seeds:
                    setup = build_setup(decoder, template, seed, params.cc_shap, params.tokens, stored)
                    found, beside = compute_cc_shap_rows(setup, questions, partial(load_image, source), bar.update)
                    rows += found
                    contributions += beside if seed == params.seeds[0] else []
        parquet.write(rows_file, parquet.build_table(rows, CC_SHAP), CC_SHAP)
        parquet.write(contributions_file, parquet.build_table(contributions, ATTRIBUTION), ATTRIBUTION)
        write_record(
            record,
            rows_in=len(read),
            rows_out=len(rows),
            seconds=round(time.perf_counter() - start, 3),
            model=params.model,
            settings={"cc_shap": params.cc_shap, "tokens": params.tokens},
            data=compute_sha256(file),
            **describe_device(device),
            seeds=params.seeds,
            shard=f"{shard + 1} of {params.shards}",
            left_out={profile: dict(asked.skipped) for profile, asked in chosen.items()},
            **count_outcomes(rows),
        )
