"""The shards of one data set's attributions put together, in the order of profile, item and role."""

import json
from pathlib import Path

import pyarrow as pa

from waltz.core import parquet
from waltz.core.atomic import write_text
from waltz.core.job import job
from waltz.core.schema import ATTRIBUTION

with job(snakemake.log[0]):
    shards = [parquet.read(file, ATTRIBUTION) for file in snakemake.input.rows]
    rows = pa.concat_tables(shards).sort_by([("profile", "ascending"), ("item_id", "ascending"), ("role", "ascending")])
    parquet.write(snakemake.output.rows, rows, ATTRIBUTION)
    records = [json.loads(Path(file).read_text(encoding="utf-8")) for file in snakemake.input.runs]
    write_text(snakemake.output.run, json.dumps(records, indent=1, sort_keys=True) + "\n")
