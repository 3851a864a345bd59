"""The shards of each data set's attributions put together, in the order of profile, item, setting and role."""

import json
from pathlib import Path

import pyarrow as pa

from waltz.core.files import parquet
from waltz.core.files.atomic import write_text
from waltz.core.job_log import log_job
from waltz.core.schema import ATTRIBUTION

ORDER = [(name, "ascending") for name in ("profile", "item_id", "setting", "role")]
shards = snakemake.params.shards

with log_job(snakemake.log[0]):
    for number, (file, record) in enumerate(zip(snakemake.output.rows, snakemake.output.runs, strict=True)):
        part = slice(number * shards, (number + 1) * shards)
        rows = pa.concat_tables([parquet.read(shard, ATTRIBUTION) for shard in snakemake.input.rows[part]])
        parquet.write(file, rows.sort_by(ORDER), ATTRIBUTION)
        records = [json.loads(Path(run).read_text(encoding="utf-8")) for run in snakemake.input.runs[part]]
        write_text(record, json.dumps(records, indent=1, sort_keys=True) + "\n")
