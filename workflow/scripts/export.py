"""Write the benchmark as a Hugging Face data set and in VALSE's layout."""

import logging
import time
from pathlib import Path

import pyarrow.parquet as pq

from waltz.core.files import parquet
from waltz.core.job_records import log_job, write_record
from waltz.core.schema import AUDIT, BENCHMARK, CONDITIONS, FUNNEL
from waltz.export.facts import StudyFacts, build_source_facts, read_terms
from waltz.export.folder import write_dataset, write_valse_files
from waltz.export.parts import Part

inputs, params, output = snakemake.input, snakemake.params, snakemake.output

with log_job(snakemake.log[0]):
    started = time.monotonic()
    raw = iter(inputs.raw)
    sources = {
        name: build_source_facts(name, entry, {file: next(raw) for file in entry["files"]})
        for name, entry in params.sources.items()
    }
    images = dict(zip(params.images, inputs.images, strict=True))
    parts = []
    for (name, (source, form)), file in zip(params.parts.items(), inputs.benchmark, strict=True):
        layout = CONDITIONS if form == "cv-probes" else BENCHMARK
        no_images_reason = read_terms(params.sources[source]).no_images_reason
        parts.append(Part(name, source, form, layout, parquet.read(file, layout), images.get(source), no_images_reason))
    originals = {
        source: {row["source_id"]: row for row in pq.read_table(file).to_pylist()}
        for source, file in zip(params.rows, inputs.rows, strict=True)
    }
    facts = StudyFacts(
        study=params.study,
        seed=params.seed,
        valid_votes=params.valid_votes,
        sources=sources,
        instruments=params.instruments,
        models=params.models,
        funnel=parquet.read_rows(inputs.funnel, FUNNEL) if inputs.funnel else [],
        audit=parquet.read_rows(inputs.audit, AUDIT) if inputs.audit else [],
        about=params.about,
    )
    written_parts = write_dataset(Path(output.dataset), parts, facts, inputs.funnel or None)
    files = write_valse_files(Path(output.valse), parts, originals, params.span_method)
    faults = [
        f"{part.part.name}: image {fault.image} {fault.reason}" for part in written_parts for fault in part.faults
    ]
    for fault in faults:
        logging.warning("%s; it is null in the export", fault)
    items, seconds = sum(part.items.num_rows for part in parts), time.monotonic() - started
    write_record(output.run, rows_in=items, rows_out=items, seconds=seconds, valse=files, images_skipped=faults)
