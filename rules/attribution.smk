"""Stage attribution: MM-SHAP, a job for one model, one group of data sets and one shard."""

SHARDS = study("attribution.shards") or 1
ATTRIBUTED = {
    group: scorable_among(names)
    for group, names in grouped(config, "attribution").items()
    if scorable_among(names)
}
ATTRIBUTING = [name for name in study("attribution.models") or [] if name in ENCODERS]
ATTRIBUTING_ANSWERS = [
    name
    for name in study("attribution.models") or []
    if name in SEEING and name in SCORING_MODELS
]
ATTRIBUTING_QUESTIONS = [
    name for name in study("attribution.models") or [] if name in ANSWERERS
]
ATTRIBUTED_QUESTIONS = [
    name
    for names in grouped(config, "attribution").values()
    for name in names
    if name in ASKED
]
ATTRIBUTED_ANSWERS = {
    group: pairs_among(names)
    for group, names in grouped(config, "attribution").items()
    if pairs_among(names)
}
COMPANIONS = study("attribution.companions")
SETTINGS = {
    "published": {},
    "equations": {
        "estimator": study("attribution.estimator"),
        "evaluations": study("attribution.evaluations"),
        "standard_error": study("attribution.standard_error") or None,
    },
}
ATTRIBUTIONS = PLAN.attributed

for GROUP, NAMES in ATTRIBUTED.items():

    rule:
        name:
            f"attribute_{GROUP}"
        input:
            pairs=expand("<results>/benchmark/{dataset}.parquet", dataset=NAMES),
            images=images_where(ATTRIBUTING, NAMES),
            weights=lambda wildcards: files_of(wildcards.encoder),
        output:
            rows=expand(
                "<results>/attribution/{{encoder}}/shards/{dataset}.{{shard}}.parquet",
                dataset=NAMES,
            ),
            runs=expand(
                "<results>/attribution/{{encoder}}/shards/{dataset}.{{shard}}.run.json",
                dataset=NAMES,
            ),
        log:
            f"<logs>/attribute/{{encoder}}/{GROUP}.{{shard}}.log",
        conda:
            "../envs/models.yaml"
        threads: THREADS
        resources:
            gpu=1,
            mem_mb=lambda wildcards: memory_mb(wildcards.encoder),
            runtime=EXPLAINING_MINUTES,
        params:
            model=lambda wildcards: select_decisive_fields(MODELS[wildcards.encoder]),
            profiles=study("profiles"),
            settings={profile: SETTINGS[profile] for profile in study("profiles")},
            scored=study("evaluation.items"),
            scored_sample=study("evaluation.sample"),
            sample=study("attribution.sample"),
            shards=SHARDS,
            seed=study("seed"),
            code=lambda wildcards: code(
                "attribute.py", get_encoder_module(MODELS[wildcards.encoder].kind)
            ),
        script:
            "../workflow/scripts/attribute.py"

    rule:
        name:
            f"companions_{GROUP}"
        input:
            pairs=expand("<results>/benchmark/{dataset}.parquet", dataset=NAMES),
            images=images_where(ATTRIBUTING, NAMES),
            weights=lambda wildcards: files_of(wildcards.encoder),
        output:
            rows=f"<results>/attribution/{{encoder}}/companions/{GROUP}.parquet",
        log:
            f"<logs>/companions/{{encoder}}/{GROUP}.log",
        conda:
            "../envs/models.yaml"
        threads: THREADS
        resources:
            gpu=1,
            mem_mb=lambda wildcards: memory_mb(wildcards.encoder),
            runtime=EXPLAINING_MINUTES,
        params:
            model=lambda wildcards: select_decisive_fields(MODELS[wildcards.encoder]),
            datasets=NAMES,
            scored=study("evaluation.items"),
            sample=study("attribution.companions.sample"),
            repeats=study("attribution.companions.repeats"),
            resamples=study("reporting.resamples"),
            confidence=study("reporting.confidence"),
            seed=study("seed"),
            code=lambda wildcards: code(
                "companions.py", get_encoder_module(MODELS[wildcards.encoder].kind)
            ),
        script:
            "../workflow/scripts/companions.py"


for GROUP, NAMES in ATTRIBUTED_ANSWERS.items():

    rule:
        name:
            f"attribute_answers_{GROUP}"
        input:
            pairs=expand("<results>/benchmark/{dataset}.parquet", dataset=NAMES),
            images=images_where(ATTRIBUTING_ANSWERS, NAMES),
            weights=lambda wildcards: weight_files(MODELS[wildcards.decoder]),
            prompts=lambda wildcards: prompts_of(wildcards.decoder),
        output:
            rows=expand(
                "<results>/attribution/{{decoder}}/shards/{dataset}.{{shard}}.parquet",
                dataset=NAMES,
            ),
            runs=expand(
                "<results>/attribution/{{decoder}}/shards/{dataset}.{{shard}}.run.json",
                dataset=NAMES,
            ),
        log:
            f"<logs>/attribute/{{decoder}}/{GROUP}.{{shard}}.log",
        conda:
            "../envs/models.yaml"
        threads: THREADS
        resources:
            gpu=1,
            mem_mb=lambda wildcards: memory_mb(wildcards.decoder),
            runtime=EXPLAINING_MINUTES,
        params:
            model=lambda wildcards: select_decisive_fields(MODELS[wildcards.decoder]),
            datasets=NAMES,
            profiles=study("profiles"),
            settings={profile: SETTINGS[profile] for profile in study("profiles")},
            value=study("attribution.value") or "log-probability",
            scored=study("evaluation.items"),
            scored_sample=study("evaluation.asked") or study("evaluation.sample"),
            sample=study("attribution.asked") or study("attribution.sample"),
            shards=SHARDS,
            seed=study("seed"),
            code=code("attribute_answers.py"),
        script:
            "../workflow/scripts/attribute_answers.py"


for (GROUP, MODELS_OF), NAMES in {
    **{(group, "encoder"): names for group, names in ATTRIBUTED.items()},
    **{(group, "decoder"): names for group, names in ATTRIBUTED_ANSWERS.items()},
}.items():

    rule:
        name:
            f"attribution_{GROUP}"
            if MODELS_OF == "encoder"
            else f"attribution_answers_{GROUP}"
        input:
            rows=expand(
                f"<results>/attribution/{{{{{MODELS_OF}}}}}/shards/{{dataset}}.{{shard}}.parquet",
                dataset=NAMES,
                shard=range(SHARDS),
            ),
            runs=expand(
                f"<results>/attribution/{{{{{MODELS_OF}}}}}/shards/{{dataset}}.{{shard}}.run.json",
                dataset=NAMES,
                shard=range(SHARDS),
            ),
        output:
            rows=expand(
                f"<results>/attribution/{{{{{MODELS_OF}}}}}/{{dataset}}.parquet",
                dataset=NAMES,
            ),
            runs=expand(
                f"<results>/attribution/{{{{{MODELS_OF}}}}}/{{dataset}}.run.json",
                dataset=NAMES,
            ),
        log:
            f"<logs>/attribution/{{{MODELS_OF}}}/{GROUP}.log",
        conda:
            "../envs/data.yaml"
        params:
            shards=SHARDS,
            code=code("attribution.py"),
        script:
            "../workflow/scripts/attribution.py"


ATTRIBUTED_PARTS = parted(ATTRIBUTIONS)


rule shares_part:
    """Mean T-SHAP, ablations, companions and verbs of the models of one kind on one group of data sets."""
    input:
        rows=lambda wildcards: [
            f"<results>/attribution/{model}/{dataset}.parquet"
            for model, dataset in ATTRIBUTED_PARTS[wildcards.part]
        ],
        scores=lambda w: PLAN.scores_files(PLAN.attributed_parts[w.part]),
        probes=lambda wildcards: expand(
            "<results>/benchmark/{dataset}.parquet",
            dataset=probes_in(ATTRIBUTED_PARTS[wildcards.part]),
        ),
        companions=lambda wildcards: companions_of(wildcards.part),
    output:
        shares="<results>/attribution/shares/{part}.parquet",
        metrics="<results>/attribution/metrics/{part}.parquet",
    log:
        "<logs>/shares/{part}.log",
    wildcard_constraints:
        part="|".join(map(re.escape, ATTRIBUTED_PARTS)) or "none",
    conda:
        "../envs/report.yaml"
    params:
        runs=lambda wildcards: ATTRIBUTED_PARTS[wildcards.part],
        answering=[*ATTRIBUTING_ANSWERS, *ATTRIBUTING_QUESTIONS],
        probes=lambda wildcards: probes_in(ATTRIBUTED_PARTS[wildcards.part]),
        resamples=study("reporting.resamples"),
        confidence=study("reporting.confidence"),
        seed=study("seed"),
        code=code("shares.py"),
    script:
        "../workflow/scripts/shares.py"


rule shares:
    """What all attributions say together."""
    input:
        shares=expand(
            "<results>/attribution/shares/{part}.parquet", part=ATTRIBUTED_PARTS
        ),
        metrics=expand(
            "<results>/attribution/metrics/{part}.parquet", part=ATTRIBUTED_PARTS
        ),
    output:
        shares="<results>/attribution/shares.parquet",
        metrics="<results>/attribution/metrics.parquet",
    log:
        "<logs>/shares.log",
    conda:
        "../envs/report.yaml"
    params:
        layouts={"shares": "SHARES", "metrics": "METRICS"},
        code=code("concatenate_parts.py"),
    script:
        "../workflow/scripts/concatenate_parts.py"
