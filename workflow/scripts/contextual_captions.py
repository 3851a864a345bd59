"""CV-Probes' contextual captions, one an annotation of the chosen images."""

import time
from collections import Counter
from functools import partial

import pyarrow.parquet as pq

from waltz.core.devices import lease_device
from waltz.core.files import parquet
from waltz.core.job_records import log_job, write_record
from waltz.core.schema import PROBE_CAPTIONS
from waltz.foils.cv_probes import IMAGES_PER_VERB, VERBS, build_contextual_captions, select_images, select_verbs
from waltz.foils.english.wordnet import read_verbs
from waltz.model_registry import ModelSpec
from waltz.models.decoders.language_model import load, reply_to

params = snakemake.params
settings = params.settings

with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    start = time.perf_counter()
    frames = pq.read_table(snakemake.input.rows).to_pylist()
    verbs = select_verbs(frames, settings.get("verbs", VERBS))
    wanted = settings.get("images", IMAGES_PER_VERB)
    images = select_images(frames, params.seed, verbs, wanted)
    generate, name = None, ""
    if params.model:
        model = load(ModelSpec(**params.model[0]), device)
        generate, name = partial(reply_to, model), model.spec.name
    rows = build_contextual_captions(frames, images, read_verbs(), generate, name)
    parquet.write_rows(snakemake.output.captions, rows, PROBE_CAPTIONS)
    write_record(
        snakemake.output.run,
        rows_in=len(frames),
        rows_out=len(rows),
        seconds=round(time.perf_counter() - start, 3),
        instrument="cv-probes",
        verbs=verbs,
        images=sum(map(len, images.values())),
        fewer_images={verb: len(found) for verb, found in images.items() if len(found) < wanted},
        writers=Counter(row["writer"] for row in rows if row["caption"]),
        refused=Counter(row["rejected"] for row in rows if row["rejected"]),
        model=params.model,
        seed=params.seed,
        device=device.name,
        device_choice=device.reason,
    )
