"""MM-SHAP of one shard of a group of data sets with one encoder."""

import time
from pathlib import Path

from waltz.attribution.encoder_rows import compute_text_rows, count_outcomes
from waltz.attribution.item_selection import to_attribute
from waltz.attribution.settings import AttributionSettings
from waltz.core.devices import describe_device, lease_device
from waltz.core.files import parquet
from waltz.core.files.download_lock import compute_sha256
from waltz.core.job_log import log_job, show_progress
from waltz.core.run_record import write_record
from waltz.core.schema import ATTRIBUTION
from waltz.models.encoders import load_encoder
from waltz.models.registry import ModelSpec
from waltz.models.visible_image import crops_to_middle_square
from waltz.sources.images import open_images

params = snakemake.params
shard = int(snakemake.wildcards.shard)

with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    chosen = [
        {
            profile: to_attribute(file, profile, params.scored, params.scored_sample, params.sample, params.seed)[
                shard :: params.shards
            ]
            for profile in params.profiles
        }
        for file in snakemake.input.pairs
    ]
    encoder = load_encoder(ModelSpec(**params.model), device)
    cropped = crops_to_middle_square(encoder.prepare_image)
    with show_progress(sum(len(items) for of in chosen for items in of.values()), "item", encoder.spec.name) as bar:
        for of, pairs, images, file, record in zip(
            chosen,
            snakemake.input.pairs,
            snakemake.input.images,
            snakemake.output.rows,
            snakemake.output.runs,
            strict=True,
        ):
            start = time.perf_counter()
            stored = Path(file).parent / ".store"
            rows = []
            with open_images(images) as source:
                for profile, items in of.items():
                    settings = AttributionSettings(profile, seed=params.seed, **params.settings[profile])
                    rows += compute_text_rows(encoder, items, source, settings, stored, bar.update)
            parquet.write(file, parquet.build_table(rows, ATTRIBUTION), ATTRIBUTION)
            write_record(
                record,
                rows_in=sum(map(len, of.values())),
                rows_out=len(rows),
                seconds=round(time.perf_counter() - start, 3),
                model=params.model,
                middle_square=cropped,
                settings=params.settings,
                data=compute_sha256(pairs),
                **describe_device(device),
                seed=params.seed,
                shard=f"{shard + 1} of {params.shards}",
                **count_outcomes(rows),
            )
