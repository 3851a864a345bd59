"""Build the released items again from their inputs."""

from dataclasses import asdict

from waltz.core.files import parquet
from waltz.core.files.atomic import write_text
from waltz.core.job_records import log_job, show_progress
from waltz.core.schema import MISSES, REPRODUCTION
from waltz.foils.reproduction import measure_reproduction, render_markdown
from waltz.sources.raw_files import read_object_entries

inputs, output, released = snakemake.input, snakemake.output, snakemake.params.released

with (
    log_job(snakemake.log[0]),
    show_progress(len(released), "instrument", "reproduced") as bar,
):
    tables = [
        parquet.read_table(file, columns=["source_id", "caption"])
        for file in inputs.captions
    ]
    captions = {
        row["source_id"]: row["caption"]
        for table in tables
        for row in table.to_pylist()
    }
    shares, misses = [], []
    for instrument in released:
        items = [
            {"id": item_id, **record}
            for item_id, record in read_object_entries(inputs[instrument], "")
        ]
        share, missed = measure_reproduction(instrument, items, captions)
        shares.append(
            {"instrument": instrument, "metric": "reproduced", **asdict(share)}
        )
        misses += [{"instrument": instrument, **vars(miss)} for miss in missed]
        bar.update(1)
    parquet.write_rows(output.shares, shares, REPRODUCTION)
    parquet.write_rows(output.misses, misses, MISSES)
    write_text(output.table, render_markdown(shares, misses))
