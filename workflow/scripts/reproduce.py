"""Make the released items again from their inputs."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from waltz.core.files import parquet
from waltz.core.files.atomic import write_text
from waltz.core.job_records import log_job, show_progress
from waltz.core.schema import MISSES, REPRODUCTION
from waltz.foils.reproduction import measure_reproduction, render_markdown

given = snakemake.input

with log_job(snakemake.log[0]), show_progress(len(snakemake.params.released), "instrument", "reproduced") as bar:
    captions = {
        row["source_id"]: row["caption"]
        for file in given.captions
        for row in pq.read_table(file, columns=["source_id", "caption"]).to_pylist()
    }
    shares, misses = [], []
    for instrument in snakemake.params.released:
        items = json.loads(Path(given[instrument]).read_text(encoding="utf-8"))
        measured, missed = measure_reproduction(
            instrument, [{"id": key, **item} for key, item in items.items()], captions
        )
        shares.append({"instrument": instrument, "metric": "reproduced", **vars(measured)})
        misses += [{"instrument": instrument, **vars(miss)} for miss in missed]
        bar.update(1)
    parquet.write_rows(snakemake.output.shares, shares, REPRODUCTION)
    parquet.write_rows(snakemake.output.misses, misses, MISSES)
    write_text(snakemake.output.table, render_markdown(shares, misses))
