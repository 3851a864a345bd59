"""Build the released items again from their inputs."""

from waltz.core.files import parquet
from waltz.core.files.atomic import write_text
from waltz.core.jobs.records import log_job, show_progress
from waltz.core.records import write_records
from waltz.core.schema import MissRecord, ReproductionRecord
from waltz.foils.released_items import read_released_items
from waltz.foils.reproduction import measure_reproduction, render_markdown

inputs, output, released = snakemake.input, snakemake.output, snakemake.params.released

with (
    log_job(snakemake.log[0]),
    show_progress(len(released), "instrument", "reproduced") as bar,
):
    captions: dict[str, str] = {}
    for file in inputs.captions:
        table = parquet.read_table(file, columns=["source_id", "caption"])
        ids = table["source_id"].to_pylist()
        captions |= zip(ids, table["caption"].to_pylist(), strict=True)
    shares: list[ReproductionRecord] = []
    misses: list[MissRecord] = []
    for instrument in released:
        items = list(read_released_items(inputs[instrument]))
        share, missed = measure_reproduction(instrument, items, captions)
        shares.append(
            ReproductionRecord(
                instrument=instrument, metric="reproduced", measure=share
            )
        )
        misses += missed
        bar.update(1)
    write_records(output.shares, shares, ReproductionRecord)
    write_records(output.misses, misses, MissRecord)
    write_text(output.table, render_markdown(shares, misses))
