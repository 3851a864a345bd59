"""Ask one decoder the questions of every data set of a group."""

import time
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path

from waltz.core.devices import describe_device, lease_device
from waltz.core.files import parquet
from waltz.core.files.download_lock import compute_sha256
from waltz.core.job_log import log_job, show_progress
from waltz.core.run_record import write_record
from waltz.core.schema import EVALUATION
from waltz.evaluation.decoder_tasks import left_out, posed, posed_rows, voice_of
from waltz.evaluation.decoders import Saying, sampling_of
from waltz.evaluation.label_choice import tally
from waltz.evaluation.prompting.generation_cache import Examinee
from waltz.models.decoders import load_decoder
from waltz.models.registry import ModelSpec
from waltz.sources.images import load_image, open_images

params, given, made = snakemake.params, snakemake.input, snakemake.output

with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    which = {"scored": params.scored, "sample": params.sample, "seed": params.seed}
    asked = [
        [posed(file, name, entry, profile, **which) for profile in params.profiles]
        for (name, entry), file in zip(params.posing.items(), given.rows, strict=True)
    ]
    decoder = load_decoder(ModelSpec(**params.model), device)
    voices = [voice_of(decoder, profile) for profile in params.profiles]
    sayings = [Saying(params.seed, sampling_of(decoder, profile), params.thought) for profile in params.profiles]
    images = given.get("images") or [None] * len(asked)
    for of, file, folder, scores, record in zip(asked, given.rows, images, made.scores, made.runs, strict=True):
        start = time.perf_counter()
        prompts, label = sum(one.prompts(params.thought) for one in of), f"{decoder.spec.name} {of[0].dataset}"
        with open_images(folder) if folder else nullcontext() as source, show_progress(prompts, "prompt", label) as bar:
            examinee = Examinee(decoder, partial(load_image, source), Path(scores).parent / ".store", bar.update)
            told = zip(of, voices, sayings, strict=True)
            rows = [row for one, voice, saying in told for row in posed_rows(examinee, one, voice, saying)]
        parquet.write(scores, parquet.build_table(rows, EVALUATION), EVALUATION)
        write_record(
            record,
            rows_in=sum(map(len, of)),
            rows_out=len(rows),
            seconds=round(time.perf_counter() - start, 3),
            model=params.model,
            profiles=params.profiles,
            data=compute_sha256(file),
            **describe_device(device),
            seed=params.seed,
            saying={profile: asdict(saying) for profile, saying in zip(params.profiles, sayings, strict=True)},
            left_out=left_out(of),
            **tally(rows),
        )
