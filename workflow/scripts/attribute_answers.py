"""MM-SHAP of one decoder's answers on one shard of a group of data sets."""

import time
from functools import partial
from pathlib import Path

from waltz.attribution.decoder_rows import AnswerAttribution, compute_decoder_rows
from waltz.attribution.encoder_rows import count_outcomes
from waltz.attribution.item_selection import answers_to_attribute
from waltz.attribution.settings import AttributionSettings
from waltz.core.devices import describe_device, lease_device
from waltz.core.files import parquet
from waltz.core.files.download_lock import compute_sha256
from waltz.core.job_log import log_job, show_progress
from waltz.core.run_record import write_record
from waltz.core.schema import ATTRIBUTION
from waltz.evaluation.decoder_tasks import build_template
from waltz.models.decoders import load_decoder
from waltz.models.registry import ModelSpec
from waltz.models.visible_image import crops_to_middle_square
from waltz.sources.images import load_image, open_images

params, given, made = snakemake.params, snakemake.input, snakemake.output
shard = int(snakemake.wildcards.shard)

with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    of = params.scored, params.scored_sample, params.sample, params.seed
    chosen = [
        [answers_to_attribute(file, name, profile, *of) for profile in params.profiles]
        for file, name in zip(given.pairs, params.datasets, strict=True)
    ]
    mine = [[(items[shard :: params.shards], orders) for items, orders in profiles] for profiles in chosen]
    decoder = load_decoder(ModelSpec(**params.model), device)
    cropped = crops_to_middle_square(lambda image: decoder.prepare_image(image).pixels)
    answering = [
        AnswerAttribution(
            decoder,
            build_template(decoder, profile),
            AttributionSettings(profile, seed=params.seed, **params.settings[profile]),
            params.value,
            Path(made.rows[0]).parent / ".store",
        )
        for profile in params.profiles
    ]
    with show_progress(sum(len(items) for one in mine for items, _ in one), "item", decoder.spec.name) as bar:
        for name, asked, pairs, images, file, record in zip(
            params.datasets, mine, given.pairs, given.images, made.rows, made.runs, strict=True
        ):
            start = time.perf_counter()
            rows = []
            with open_images(images) as source:
                for how, (items, orders) in zip(answering, asked, strict=True):
                    rows += compute_decoder_rows(how, items, name, orders, partial(load_image, source), bar.update)
            parquet.write(file, parquet.build_table(rows, ATTRIBUTION), ATTRIBUTION)
            write_record(
                record,
                rows_in=sum(len(items) for items, _ in asked),
                rows_out=len(rows),
                seconds=round(time.perf_counter() - start, 3),
                model=params.model,
                middle_square=cropped,
                settings=params.settings | {"value": params.value},
                data=compute_sha256(pairs),
                **describe_device(device),
                seed=params.seed,
                shard=f"{shard + 1} of {params.shards}",
                **count_outcomes(rows),
            )
