"""Stage evaluation: what each model makes of each text, a job for one model and one group of data sets."""

SCORABLE = {
    group: scorable_among(names)
    for group, names in SCORED.items()
    if scorable_among(names)
}


DECODERS = {
    kind: models
    for kind in ("vision", "text")
    if (models := [name for name in SCORING_MODELS if MODELS[name].kind == kind])
}


rule mismatched:
    """Texts of images beside those of other images, as a data set."""
    input:
        rows=lambda wildcards: f"<results>/sources/{ALIGNED[wildcards.aligned]['source']}.parquet",
    output:
        pairs="<results>/benchmark/{aligned}.parquet",
        run="<results>/benchmark/{aligned}.run.json",
    log:
        "<logs>/mismatched/{aligned}.log",
    conda:
        "../envs/data.yaml"
    params:
        size=lambda wildcards: ALIGNED[wildcards.aligned]["size"],
        choice=lambda wildcards: ALIGNED[wildcards.aligned].get("choice"),
        seed=study("seed"),
        code=code("mismatched.py"),
    script:
        "../workflow/scripts/mismatched.py"


for GROUP, NAMES in SCORABLE.items():

    rule:
        name:
            f"perplexity_{GROUP}"
        input:
            pairs=expand(
                "<results>/benchmark/{dataset}.parquet", dataset=pairs_among(NAMES)
            ),
            weights=lambda wildcards: weight_files(MODELS[wildcards.reader]),
        output:
            scores=expand(
                "<results>/evaluation/{{reader}}/{dataset}.parquet",
                dataset=pairs_among(NAMES),
            ),
            runs=expand(
                "<results>/evaluation/{{reader}}/{dataset}.run.json",
                dataset=pairs_among(NAMES),
            ),
        log:
            f"<logs>/perplexity/{{reader}}/{GROUP}.log",
        conda:
            "../envs/models.yaml"
        threads: THREADS
        resources:
            gpu=1,
            mem_mb=lambda wildcards: memory_mb(wildcards.reader),
            runtime=SCORING_MINUTES,
        params:
            model=lambda wildcards: select_decisive_fields(MODELS[wildcards.reader]),
            profiles=study("profiles"),
            scored=study("evaluation.items"),
            sample=study("evaluation.sample"),
            seed=study("seed"),
            tokens_per_batch=study("evaluation.tokens_per_batch"),
            code=code("perplexity.py"),
        script:
            "../workflow/scripts/perplexity.py"

    rule:
        name:
            f"align_{GROUP}"
        input:
            pairs=expand("<results>/benchmark/{dataset}.parquet", dataset=NAMES),
            images=images_where(ENCODERS, NAMES),
            weights=lambda wildcards: files_of(wildcards.encoder),
        output:
            scores=expand(
                "<results>/evaluation/{{encoder}}/{dataset}.parquet", dataset=NAMES
            ),
            runs=expand(
                "<results>/evaluation/{{encoder}}/{dataset}.run.json", dataset=NAMES
            ),
        log:
            f"<logs>/align/{{encoder}}/{GROUP}.log",
        conda:
            "../envs/models.yaml"
        threads: THREADS
        resources:
            gpu=1,
            mem_mb=lambda wildcards: memory_mb(wildcards.encoder),
            runtime=SCORING_MINUTES,
        params:
            model=lambda wildcards: select_decisive_fields(MODELS[wildcards.encoder]),
            profiles=study("profiles"),
            scored=study("evaluation.items"),
            sample=study("evaluation.sample"),
            seed=study("seed"),
            code=lambda wildcards: code(
                "align.py", get_encoder_module(MODELS[wildcards.encoder].kind)
            ),
        script:
            "../workflow/scripts/align.py"


rule answer:
    """Answers to the questions of one data set by one encoder with an answering head."""
    input:
        rows=lambda wildcards: f"<results>/sources/{ASKED[wildcards.asked]['source']}.parquet",
        images=lambda wildcards: raw_file(ASKED[wildcards.asked]["source"], IMAGES),
        weights=lambda wildcards: files_of(wildcards.answerer),
    output:
        scores="<results>/evaluation/{answerer}/{asked}.parquet",
        run="<results>/evaluation/{answerer}/{asked}.run.json",
    log:
        "<logs>/answer/{answerer}/{asked}.log",
    conda:
        "../envs/models.yaml"
    threads: THREADS
    resources:
        gpu=1,
        mem_mb=lambda wildcards: memory_mb(wildcards.answerer),
        runtime=SCORING_MINUTES,
    params:
        model=lambda wildcards: select_decisive_fields(MODELS[wildcards.answerer]),
        asked=lambda wildcards: ASKED[wildcards.asked],
        profiles=study("profiles"),
        seed=study("seed"),
        code=lambda wildcards: code(
            "answer.py", get_encoder_module(MODELS[wildcards.answerer].kind)
        ),
    script:
        "../workflow/scripts/answer.py"


SCORED_PARTS = parted([*WITH_SCORES, *ANSWERED, *DECODED])


rule metrics_part:
    """Every metric of the models of one kind on one group of data sets."""
    input:
        scores=lambda wildcards: [
            f"<results>/evaluation/{model}/{dataset}.parquet"
            for model, dataset in SCORED_PARTS[wildcards.part]
        ],
        questions=lambda wildcards: [
            f"<results>/sources/{ASKED[name]['source']}.parquet"
            for name in asked_in(SCORED_PARTS[wildcards.part])
        ],
        probes=lambda wildcards: expand(
            "<results>/benchmark/{dataset}.parquet",
            dataset=probes_in(SCORED_PARTS[wildcards.part]),
        ),
    output:
        metrics="<results>/evaluation/metrics/{part}.parquet",
    log:
        "<logs>/metrics/{part}.log",
    wildcard_constraints:
        part="|".join(map(re.escape, SCORED_PARTS)) or "none",
    conda:
        "../envs/report.yaml"
    params:
        runs=lambda wildcards: SCORED_PARTS[wildcards.part],
        asked=lambda wildcards: asked_in(SCORED_PARTS[wildcards.part]),
        averaged=lambda wildcards: (
            [name for names in SCORED.values() for name in names if name in SETS]
            if wildcards.part.endswith(".benchmark")
            else []
        ),
        profiles=study("profiles"),
        resamples=study("reporting.resamples"),
        confidence=study("reporting.confidence"),
        seed=study("seed"),
        code=code("metrics_part.py"),
    script:
        "../workflow/scripts/metrics_part.py"


rule metrics:
    """Every metric of every model on every data set, and the paired comparisons of models."""
    input:
        parts=expand("<results>/evaluation/metrics/{part}.parquet", part=SCORED_PARTS),
        scores=[
            f"<results>/evaluation/{model}/{dataset}.parquet"
            for model, dataset in [*WITH_SCORES, *ANSWERED, *DECODED]
        ],
    output:
        metrics="<results>/evaluation/metrics.parquet",
        comparisons="<results>/evaluation/comparisons.parquet",
    log:
        "<logs>/metrics.log",
    conda:
        "../envs/report.yaml"
    params:
        runs=[*WITH_SCORES, *ANSWERED, *DECODED],
        profiles=study("profiles"),
        resamples=study("reporting.resamples"),
        confidence=study("reporting.confidence"),
        seed=study("seed"),
        code=code("metrics.py"),
    script:
        "../workflow/scripts/metrics.py"
