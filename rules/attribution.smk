"""Stage attribution: MM-SHAP of encoders, a job for one model, one group of data sets and one shard."""

SHARDS = study("attribution.shards") or 1
ATTRIBUTED = grouped(config, "attribution")
ATTRIBUTING = study("attribution.models") or []
SETTINGS = {
    "published": {},
    "equations": {
        "estimator": study("attribution.estimator"),
        "evaluations": study("attribution.evaluations"),
        "standard_error": study("attribution.standard_error") or None,
    },
}

for GROUP, NAMES in ATTRIBUTED.items():

    rule:
        name:
            f"attribute_{GROUP}"
        input:
            items=expand("<results>/benchmark/{dataset}.parquet", dataset=NAMES),
            images=[images_of(name) for name in NAMES],
            weights=lambda wildcards: weight_files(MODELS[wildcards.model]),
        output:
            rows=expand(
                "<results>/attribution/{{model}}/shards/{dataset}.{{shard}}.parquet",
                dataset=NAMES,
            ),
            runs=expand(
                "<results>/attribution/{{model}}/shards/{dataset}.{{shard}}.run.json",
                dataset=NAMES,
            ),
        log:
            f"<logs>/attribute/{{model}}/{GROUP}.{{shard}}.log",
        conda:
            "../envs/models.yaml"
        threads: 8
        resources:
            gpu=1,
            mem_mb=8000,
        params:
            model=lambda wildcards: decisive(MODELS[wildcards.model]),
            images=[images_of(name) for name in NAMES],
            profiles=study("profiles"),
            settings={profile: SETTINGS[profile] for profile in study("profiles")},
            scored=study("evaluation.items"),
            scored_sample=study("evaluation.sample"),
            sample=study("attribution.sample"),
            shards=SHARDS,
            seed=study("seed"),
            code=lambda wildcards: code(
                "attribute.py", encoder_module(MODELS[wildcards.model].kind)
            ),
        script:
            "../workflow/scripts/attribute.py"


rule attribution:
    """The shards of one data set put together."""
    input:
        rows=expand(
            "<results>/attribution/{{model}}/shards/{{scored}}.{shard}.parquet",
            shard=range(SHARDS),
        ),
        runs=expand(
            "<results>/attribution/{{model}}/shards/{{scored}}.{shard}.run.json",
            shard=range(SHARDS),
        ),
    output:
        rows="<results>/attribution/{model}/{scored}.parquet",
        run="<results>/attribution/{model}/{scored}.run.json",
    log:
        "<logs>/attribution/{model}/{scored}.log",
    conda:
        "../envs/data.yaml"
    params:
        code=code("attribution.py"),
    script:
        "../workflow/scripts/attribution.py"
