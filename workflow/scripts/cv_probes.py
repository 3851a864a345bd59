"""Select and review the captions of CV-Probes, and build the four conditions."""

import logging
import time
from functools import partial
from pathlib import Path

from waltz.benchmark.cv_probes import (
    build_conditions,
    count_rejections,
    list_checks,
    read_checks,
    read_written_captions,
    review_plain_captions,
    select_contextual_captions,
)
from waltz.benchmark.oracle import answer_checks
from waltz.core.devices import lease_device
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.job_records import log_job, show_progress, write_record
from waltz.core.schema import CONDITIONS, PROBE_CAPTIONS
from waltz.filters.gruen import score_texts
from waltz.foils.cv_probes import list_scene_captions, read_descriptions
from waltz.foils.english.wordnet import read_verbs
from waltz.model_registry import ModelSpec
from waltz.models.text.classifier import load_classifier
from waltz.models.text.masked import load_masked_model
from waltz.scenes.oracle import VOTER
from waltz.scenes.sampling import draw_scenes
from waltz.scenes.writers.files import find_scene

inputs, params = snakemake.input, snakemake.params

with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    start = time.perf_counter()
    contextual_rows = parquet.read_rows(inputs.contextual, PROBE_CAPTIONS)
    if inputs.get("written"):
        written_rows = read_written_captions(inputs.written, {row["image"]: row["verb"] for row in contextual_rows})
    elif inputs.get("descriptions"):
        written_rows = list_scene_captions(read_descriptions(inputs.descriptions))
    else:
        raise UserError(
            "study file: cv_probes.written is missing: people write the plain captions; make their tasks with"
            f" `waltz people export-captions --captions {inputs.contextual}`, see docs/explanation/foils-actions.md"
        )
    verbs = read_verbs()
    names = sorted({row["verb"] for row in contextual_rows})
    specs = {key: ModelSpec(**model) for key, model in params.models.items()}
    texts = sorted({row["caption"] for row in contextual_rows if row["caption"]})
    cache = Path(snakemake.output.probes).parent / ".store" / "cv-probes"
    with show_progress(2 * len(texts), "text", "cv-probes") as bar:
        scores = score_texts(
            texts,
            load_masked_model(specs["likelihood"], device),
            load_classifier(specs["acceptability"], device),
            cache,
            bar.update,
        )
    contextual = select_contextual_captions(contextual_rows, scores)
    answers, checker = None, None
    if inputs.get("checks"):
        answers, checker = read_checks(inputs.checks), "people"
    elif params.scenes:
        graphs = draw_scenes(params.scenes["count"], params.scenes["seed"])
        answers, checker = (
            answer_checks(list_checks(written_rows, contextual), partial(find_scene, graphs=graphs)),
            VOTER,
        )
    captions = [*contextual, *review_plain_captions(written_rows, contextual, verbs, names, answers)]
    rows = build_conditions(captions, verbs)
    parquet.write_rows(snakemake.output.captions, captions, PROBE_CAPTIONS)
    parquet.write_rows(snakemake.output.probes, rows, CONDITIONS)
    counts = count_rejections(captions)
    logging.info("%d items from %s", len(rows), counts)
    write_record(
        snakemake.output.run,
        rows_in=len(captions),
        rows_out=len(rows),
        seconds=round(time.perf_counter() - start, 3),
        instrument="cv-probes",
        captions=counts,
        checker=checker,
        models=params.models,
        device=device.name,
        device_choice=device.reason,
    )
