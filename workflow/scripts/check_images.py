"""Open every image that a source needs."""

import time
from collections import Counter

from waltz.core.files import parquet
from waltz.core.jobs.records import log_job, write_record
from waltz.core.schema import IMAGE_FAULTS
from waltz.sources.images import (
    check_images,
    list_image_names,
    open_images,
    write_manifest,
)

inputs, outputs = snakemake.input, snakemake.output

with log_job(snakemake.log[0]):
    start = time.perf_counter()
    names = list_image_names(
        [inputs.rows] if isinstance(inputs.rows, str) else inputs.rows
    )
    with open_images(inputs.images) as images:
        faults = check_images(images, names)
    parquet.write_rows(
        outputs.faults,
        [{"image": fault.image, "fault": fault.reason} for fault in faults],
        IMAGE_FAULTS,
    )
    write_manifest(outputs.manifest, names, faults)
    write_record(
        outputs.run,
        rows_in=len(names),
        rows_out=len(names) - len(faults),
        seconds=round(time.perf_counter() - start, 3),
        rejected=dict(Counter(fault.reason.split(":")[0] for fault in faults)),
    )
