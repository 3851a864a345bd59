"""Grammaticality, entailment and ranking of one instrument's candidates."""

import time
from pathlib import Path
from typing import Any

from waltz.core.devices import Device, lease_device
from waltz.core.files import parquet
from waltz.core.job_records import log_job, show_progress, write_record
from waltz.core.schema import CANDIDATES, FILTERED
from waltz.filters.pipeline import FilterModels, filter_candidates
from waltz.model_registry import ModelSpec

params = snakemake.params


def load_models(models: dict[str, Any], device: Device) -> FilterModels:
    """Load the models that the filters use; import them only where a filter does."""
    if not models:
        return FilterModels()
    from waltz.models.text.causal import load_causal_model
    from waltz.models.text.classifier import load_classifier
    from waltz.models.text.masked import load_masked_model

    loaders = {
        "likelihood": load_masked_model,
        "acceptability": load_classifier,
        "nli": load_classifier,
        "ranking": load_causal_model,
    }
    return FilterModels(**{key: loaders[key](ModelSpec(**model), device) for key, model in models.items()})


with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    start = time.perf_counter()
    candidates = parquet.read_rows(snakemake.input.candidates, CANDIDATES)
    models = load_models(params.models, device)
    cache = Path(snakemake.output.filtered).parent / ".store" / snakemake.wildcards.instrument
    with show_progress(len(candidates), "text", snakemake.wildcards.instrument) as bar:
        rows, close = filter_candidates(candidates, models, params.filters, params.grammaticality, cache, bar.update)
    parquet.write_rows(snakemake.output.filtered, rows, FILTERED)
    write_record(
        snakemake.output.run,
        rows_in=len(candidates),
        rows_out=sum(row["kept"] for row in rows),
        seconds=round(time.perf_counter() - start, 3),
        instrument=snakemake.wildcards.instrument,
        filters=params.filters,
        grammaticality=params.grammaticality,
        models=params.models,
        device=device.name,
        device_choice=device.reason,
        close_to_a_threshold=close,
    )
