"""Open every image that a source needs."""

import csv
import time
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq

from waltz.core.files import parquet
from waltz.core.files.atomic import replace_file
from waltz.core.job_records import log_job, write_record
from waltz.core.schema import IMAGE_FAULTS
from waltz.sources.images import check_images, open_images

inputs, outputs = snakemake.input, snakemake.output

with log_job(snakemake.log[0]):
    start = time.perf_counter()
    files = [inputs.rows] if isinstance(inputs.rows, str) else list(inputs.rows)
    image_columns = pa.concat_arrays(
        [pq.read_table(file, columns=["image"])["image"].combine_chunks() for file in files]
    )
    needed = image_columns.unique().drop_null().to_pylist()
    with open_images(inputs.images) as images:
        faults = {fault.image: fault.reason for fault in check_images(images, needed)}
    rows = [{"image": image, "fault": reason} for image, reason in faults.items()]
    parquet.write_rows(outputs.faults, rows, IMAGE_FAULTS)
    with replace_file(outputs.manifest) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        manifest = csv.writer(file, lineterminator="\n")
        manifest.writerow(["image", "found", "fault"])
        manifest.writerows((image, "no" if image in faults else "yes", faults.get(image, "")) for image in needed)
    write_record(
        outputs.run,
        rows_in=len(needed),
        rows_out=len(needed) - len(faults),
        seconds=round(time.perf_counter() - start, 3),
        rejected=dict(Counter(reason.split(":")[0] for reason in faults.values())),
    )
