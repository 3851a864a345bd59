"""EMAP and perceptual score of one encoder on every data set of pairs in a group."""

from functools import partial

import pyarrow.parquet as pq

from waltz.attribution.companions.encoder_companions import companions
from waltz.core.devices import lease_device
from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.job_log import log_job, show_progress
from waltz.core.schema import BENCHMARK, METRICS
from waltz.evaluation.items import select_items
from waltz.models.encoders import load_encoder
from waltz.models.registry import ModelSpec
from waltz.sources.images import load_image, open_images

params = snakemake.params

with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    encoder = load_encoder(ModelSpec(**params.model), device)
    how = Resampling(params.resamples, params.confidence, params.seed)
    rows = []
    with show_progress(len(params.datasets), "data set", encoder.spec.name) as bar:
        for dataset, file, images in zip(params.datasets, snakemake.input.pairs, snakemake.input.images, strict=True):
            if "condition" not in pq.read_schema(file).names:
                items = select_items(
                    parquet.read(file, BENCHMARK), params.scored, params.sample, params.seed
                ).to_pylist()
                with open_images(images) as source:
                    found = companions(encoder, items, partial(load_image, source), params.repeats, how)
                of = {"model": encoder.spec.name, "dataset": dataset, "profile": "equations", "setting": "pairs"}
                rows += [{**of, **row} for row in found]
            bar.update(1)
    parquet.write(snakemake.output.rows, parquet.build_table(rows, METRICS), METRICS)
