"""Measure how well judges that do not see the image distinguish captions from foils."""

from pathlib import Path

from waltz.benchmark.statistics import audit_blind_judges
from waltz.core.devices import lease_device
from waltz.core.files import parquet
from waltz.core.job_records import log_job, show_progress
from waltz.core.schema import AUDIT, BENCHMARK
from waltz.filters.gruen import score_texts
from waltz.filters.nli import infer_relations
from waltz.filters.pipeline import RANKING_TOKENS
from waltz.model_registry import ModelSpec
from waltz.models.text.causal import compute_mean_log_likelihoods, load_causal_model
from waltz.models.text.classifier import load_classifier
from waltz.models.text.masked import compute_pseudo_log_likelihoods, load_masked_model

params = snakemake.params

with log_job(snakemake.log[0]), lease_device(snakemake.resources.get("gpu", 0), snakemake.threads) as device:
    specs = {key: ModelSpec(**model) for key, model in params.models.items()}
    masked, acceptability = (
        load_masked_model(specs["likelihood"], device),
        load_classifier(specs["acceptability"], device),
    )
    nli, causal = load_classifier(specs["nli"], device), load_causal_model(specs["ranking"], device)
    benchmarks = [parquet.read_rows(file, BENCHMARK) for file in snakemake.input.pairs]
    items = [item for benchmark in benchmarks for item in benchmark]
    texts = sorted({item[side] for item in items for side in ("caption", "foil")})
    pairs = [(item[a], item[b]) for item in items for a, b in (("caption", "foil"), ("foil", "caption"))]
    cache = Path(snakemake.output.audit).parent / ".store"
    with show_progress(5 * len(texts), "text", "audit") as bar:
        tokens = {text: masked.tokenize(text) for text in texts}
        pseudo = compute_pseudo_log_likelihoods(masked, tokens.values(), cache, bar.update)
        likelihoods = compute_mean_log_likelihoods(texts, causal, RANKING_TOKENS, cache, bar.update)
        scores = {
            "causal LM": {text: score.value for text, score in likelihoods.items()},
            "GRUEN": score_texts(texts, masked, acceptability, cache, bar.update),
            "masked LM": {text: pseudo[ids] for text, ids in tokens.items()},
        }
        inferences = infer_relations(pairs, nli, cache, bar.update)
    contradictions = {pair: inference.contradiction for pair, inference in inferences.items()}
    rows = []
    for instrument, benchmark in zip(params.instruments, benchmarks, strict=True):
        rows += audit_blind_judges(
            instrument,
            benchmark,
            scores,
            contradictions,
            threshold=params.threshold,
            resamples=params.resamples,
            confidence=params.confidence,
            seed=params.seed,
        )
    parquet.write_rows(snakemake.output.audit, rows, AUDIT)
