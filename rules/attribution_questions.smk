"""Stage attribution: MM-SHAP of the answers to questions, by encoders with an answering head."""


rule attribute_questions:
    """MM-SHAP of the answers to questions by one encoder with an answering head."""
    input:
        rows=lambda wildcards: f"<results>/sources/{ASKED[wildcards.asked]['source']}.parquet",
        images=lambda wildcards: raw_file(ASKED[wildcards.asked]["source"], IMAGES),
        weights=lambda wildcards: files_of(wildcards.answerer),
    output:
        rows="<results>/attribution/{answerer}/shards/{asked}.{shard}.parquet",
        run="<results>/attribution/{answerer}/shards/{asked}.{shard}.run.json",
    log:
        "<logs>/attribute/{answerer}/{asked}.{shard}.log",
    conda:
        "../envs/models.yaml"
    threads: THREADS
    resources:
        gpu=1,
        mem_mb=lambda wildcards: memory_mb(wildcards.answerer),
        runtime=EXPLAINING_MINUTES,
    params:
        model=lambda wildcards: select_decisive_fields(MODELS[wildcards.answerer]),
        asked=lambda wildcards: ASKED[wildcards.asked],
        profiles=study("profiles"),
        settings={profile: SETTINGS[profile] for profile in study("profiles")},
        sample=study("attribution.sample"),
        shards=SHARDS,
        seed=study("seed"),
        code=lambda wildcards: code(
            "attribute_questions.py",
            get_encoder_module(MODELS[wildcards.answerer].kind),
        ),
    script:
        "../workflow/scripts/attribute_questions.py"


rule attribution_questions:
    """The shards of one data set of questions put together."""
    input:
        rows=expand(
            "<results>/attribution/{{answerer}}/shards/{{asked}}.{shard}.parquet",
            shard=range(SHARDS),
        ),
        runs=expand(
            "<results>/attribution/{{answerer}}/shards/{{asked}}.{shard}.run.json",
            shard=range(SHARDS),
        ),
    output:
        rows=["<results>/attribution/{answerer}/{asked}.parquet"],
        runs=["<results>/attribution/{answerer}/{asked}.run.json"],
    log:
        "<logs>/attribution/{answerer}/{asked}.log",
    conda:
        "../envs/data.yaml"
    params:
        shards=SHARDS,
        code=code("attribution.py"),
    script:
        "../workflow/scripts/attribution.py"
