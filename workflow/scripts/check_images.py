"""Open every image that a source needs."""

import logging

import pyarrow.parquet as pq

from waltz.core import parquet
from waltz.core.job import job
from waltz.core.schema import IMAGE_FAULTS
from waltz.sources.images import check_images, open_images

with job(snakemake.log[0]):
    needed = pq.read_table(snakemake.input.rows, columns=["image"]).column("image").unique().drop_null().to_pylist()
    with open_images(snakemake.input.images) as images:
        faults = check_images(images, needed)
    rows = [{"image": fault.image, "fault": fault.reason} for fault in faults]
    parquet.write(snakemake.output.faults, parquet.to_table(rows, IMAGE_FAULTS), IMAGE_FAULTS)
    logging.info("%d of %d images cannot be used", len(faults), len(needed))
