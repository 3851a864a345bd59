"""Self-consistency tests of one shard of a group of data sets with one decoder."""

import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from waltz.consistency.edit_tests.rows import consistency_rows, settings_of, tally
from waltz.consistency.edit_tests.runner import interviewed
from waltz.consistency.item_selection import left_over_pair, to_ask
from waltz.core.devices import describe_device, lease_device
from waltz.core.files import parquet
from waltz.core.files.download_lock import compute_sha256
from waltz.core.job_log import log_job, show_progress
from waltz.core.run_record import write_record
from waltz.core.schema import CONSISTENCY
from waltz.evaluation.prompting.generation_cache import DecoderSession
from waltz.models.decoders import load_decoder
from waltz.models.registry import ModelSpec
from waltz.models.text.classifier import load_classifier
from waltz.sources.images import load_image, open_images

params = snakemake.params
shard = int(snakemake.wildcards.shard)
images = snakemake.input.get("images") or [None] * len(params.posed)

with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    decoder = load_decoder(ModelSpec(**params.model), device)
    helper = load_decoder(ModelSpec(**params.helper), device) if params.helper else decoder
    judge = load_classifier(ModelSpec(**params.judge), device) if params.judge else None
    for number, (dataset, entry) in enumerate(params.posed.items()):
        start, rows, asked, left_out = time.perf_counter(), [], {}, {}
        read = pq.read_table(snakemake.input.rows[number]).to_pylist()
        stored = Path(snakemake.output.rows[number]).parent / ".store"
        seen = open_images(images[number]) if images[number] else nullcontext()
        with seen as source, show_progress(0, "reply", f"{decoder.spec.name}, {dataset}") as bar:
            session = DecoderSession(decoder, partial(load_image, source), stored, bar.update)
            for profile in params.profiles:
                chosen = to_ask(read, dataset, entry, profile, params.sample, params.seed)
                questions = chosen.questions[shard :: params.shards]
                shared = profile == "published" and chosen.questions[0].form == "comve"
                pair = left_over_pair(read, entry, params.sample) if shared else None
                who = interviewed(session, helper, profile, judge, stored)
                runs = settings_of(profile, params.seeds, params.tokens, params.edits, bool(params.meaning), pair)
                rows += consistency_rows(questions, params.tests, runs, who)
                asked[profile], left_out[profile] = len(questions), dict(chosen.skipped)
        parquet.write(snakemake.output.rows[number], parquet.build_table(rows, CONSISTENCY), CONSISTENCY)
        write_record(
            snakemake.output.runs[number],
            rows_in=sum(asked.values()) * len(params.seeds),
            rows_out=len(rows),
            seconds=round(time.perf_counter() - start, 3),
            **{name: params[name] for name in ("model", "helper", "judge", "seed", "seeds", "tokens", "edits")},
            data=compute_sha256(snakemake.input.rows[number]),
            **describe_device(device),
            shard=f"{shard + 1} of {params.shards}",
            left_out=left_out,
            **tally(rows),
        )
