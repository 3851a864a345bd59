"""All candidates of one instrument from the rows of its source."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from waltz.core.devices import lease_device
from waltz.core.files import parquet
from waltz.core.job_log import log_job, show_progress
from waltz.core.run_record import write_record
from waltz.core.schema import CANDIDATES
from waltz.foils.candidates import Refused, Tally, candidate_row
from waltz.foils.instruments import distinct, made, of_splits
from waltz.foils.proposer_needs import Needs
from waltz.instruments import INSTRUMENTS
from waltz.models.registry import ModelSpec

params = snakemake.params
instrument = snakemake.wildcards.instrument
settings = params.settings
tally = Tally()


def written(needs: Needs, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows of the candidates layout; refused source rows are counted."""
    numbers: dict[str, int] = {}
    for row, found in distinct(made(instrument, rows, needs)):
        if isinstance(found, Refused):
            tally.count(found.reason)
        else:
            number = numbers.setdefault(row["source_id"], 0)
            numbers[row["source_id"]] += 1
            yield candidate_row(found, row, number, instrument, INSTRUMENTS[instrument].piece)


with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    start = time.perf_counter()
    rows = pq.read_table(snakemake.input.rows).to_pylist()
    if "splits" in settings:
        rows = of_splits(rows, settings["splits"], f"instruments.{instrument}.splits")
    tally.rows = len(rows)
    stored = Path(snakemake.output.candidates).parent / ".store" / instrument
    needs = Needs()
    with show_progress(len(rows), "slot", instrument) as bar:
        if params.model:
            from waltz.foils.proposals import fitting, proposals
            from waltz.models.text.masked import load_masked_model

            model = load_masked_model(ModelSpec(**params.model[0]), device)
            longest, best = params.proposals["longest"], params.proposals["best"]
            needs = Needs(
                propose=partial(proposals, model=model, longest=longest, top=best, stored=stored, done=bar.update),
                fit=partial(fitting, model=model, stored=stored, done=bar.update),
                tokens=lambda text: len(model.tokenize(text)),
                most_tokens=settings.get("most_tokens"),
                best=best,
            )
        count, rejected = parquet.write_rows(snakemake.output.candidates, written(needs, rows), CANDIDATES)
    write_record(
        snakemake.output.run,
        rows_in=len(rows),
        rows_out=count,
        seconds=round(time.perf_counter() - start, 3),
        instrument=instrument,
        rejected=rejected,
        refused=dict(sorted(tally.refused.items(), key=lambda entry: (-entry[1], entry[0]))),
        settings=settings,
        model=params.model[0] if params.model else None,
        proposals=params.proposals,
        device=device.name,
        device_choice=device.reason,
    )
