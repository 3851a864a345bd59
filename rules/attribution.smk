"""Stage attribution: MM-SHAP, a job for one model, one group of data sets and one shard, and shares of text."""

ATTRIBUTED_PART = ask(PLAN.attributed_parts.get, "{part}")
ATTRIBUTED_PROBES = ask(PLAN.list_probes_among, ATTRIBUTED_PART)


localrules:
    merge_attribution_shards,
    shares,


# Attributions take longest: their jobs come first on a GPU, and are cut into shards by their estimated hours.
rule attribute:
    """MM-SHAP of the scores or answers of one encoder."""
    input:
        rows=expand(
            "<results>/benchmark/{dataset}.parquet",
            dataset=select("{group}", PAIRS, PROBES),
        ),
        images=images("{group}", PAIRS, PROBES),
        weights=weights("{encoder}"),
    output:
        rows="<results>/attribution/{encoder}/shards/{group}.{shard}.parquet",
        run="<results>/attribution/{encoder}/shards/{group}.{shard}.run.json",
    log:
        "<logs>/attribute/{encoder}/{group}.{shard}.log",
    priority: NEEDED_ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **loads("{encoder}"),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        user_images=USER_IMAGES,
        model=model("{encoder}"),
        datasets=datasets("{group}", PAIRS, PROBES),
        explained="scores",
        settings=settings("attribute"),
        shards=shards("attribution", "{encoder}", "{group}"),
        code=code_of("attribute.py", "{encoder}"),
    message:
        "MM-SHAP of {wildcards.encoder} on {wildcards.group}, shard {wildcards.shard} of {params.shards}"
    script:
        "../workflow/scripts/attribute.py"


# An encoder with an answering head explains its answers to open questions, by the same script.
use rule attribute as attribute_questions with:
    input:
        rows=expand(
            "<results>/sources/{source}.parquet",
            source=sources_of(select("{group}", OPEN)),
        ),
        images=images("{group}", OPEN),
        weights=weights("{answerer}"),
    output:
        rows="<results>/attribution/{answerer}/shards/{group}.{shard}.parquet",
        run="<results>/attribution/{answerer}/shards/{group}.{shard}.run.json",
    log:
        "<logs>/attribute_questions/{answerer}/{group}.{shard}.log",
    resources:
        **loads("{answerer}", rows_of=datasets("{group}", OPEN)),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        model=model("{answerer}"),
        datasets=datasets("{group}", OPEN),
        explained="answers",
        settings=settings("attribute_questions"),
        shards=shards("attribution", "{answerer}", "{group}"),
        code=code_of("attribute.py", "{answerer}"),
    message:
        "MM-SHAP of the answers of {wildcards.answerer} on {wildcards.group}, shard {wildcards.shard} of {params.shards}"


rule attribute_answers:
    """MM-SHAP of one VL decoder's answers."""
    input:
        rows=expand(
            "<results>/benchmark/{dataset}.parquet", dataset=select("{group}", PAIRS)
        ),
        images=images("{group}", PAIRS),
        weights=weights("{vl_decoder}"),
    output:
        rows="<results>/attribution/{vl_decoder}/shards/{group}.{shard}.parquet",
        run="<results>/attribution/{vl_decoder}/shards/{group}.{shard}.run.json",
    log:
        "<logs>/attribute_answers/{vl_decoder}/{group}.{shard}.log",
    priority: NEEDED_ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **loads("{vl_decoder}"),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        prompts=prompts("{vl_decoder}"),
        user_images=USER_IMAGES,
        model=model("{vl_decoder}"),
        datasets=datasets("{group}", PAIRS),
        settings=settings("attribute_answers"),
        shards=shards("attribution", "{vl_decoder}", "{group}"),
        code=code("attribute_answers.py"),
    message:
        "MM-SHAP of the answers of {wildcards.vl_decoder} on {wildcards.group}, shard {wildcards.shard} of {params.shards}"
    script:
        "../workflow/scripts/attribute_answers.py"


# Shards are merged without loading a model; each keeps its own run record in the list of the merged file.
rule merge_attribution_shards:
    """The shards of one model on one group of data sets as one file."""
    input:
        rows=expand(
            "<results>/attribution/{model}/shards/{group}.{shard}.parquet",
            shard=shard_numbers("attribution", "{model}", "{group}"),
            allow_missing=True,
        ),
        runs=expand(
            "<results>/attribution/{model}/shards/{group}.{shard}.run.json",
            shard=shard_numbers("attribution", "{model}", "{group}"),
            allow_missing=True,
        ),
    output:
        rows="<results>/attribution/{model}/{group}.parquet",
        run="<results>/attribution/{model}/{group}.run.json",
    log:
        "<logs>/merge_attribution_shards/{model}/{group}.log",
    conda:
        "../envs/environment.yaml"
    params:
        layout="ATTRIBUTION",
        order=["profile", "item_id", "setting", "role"],
        code=code("merge_shards.py"),
    script:
        "../workflow/scripts/merge_shards.py"


rule companions:
    """Companion measures of MM-SHAP: one encoder on one group of data sets."""
    input:
        rows=expand(
            "<results>/benchmark/{dataset}.parquet",
            dataset=select("{group}", PAIRS, PROBES),
        ),
        images=images("{group}", PAIRS, PROBES),
        weights=weights("{encoder}"),
    output:
        rows="<results>/attribution/{encoder}/companions/{group}.parquet",
    log:
        "<logs>/companions/{encoder}/{group}.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **loads("{encoder}"),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        resampling=settings("resampling"),
        user_images=USER_IMAGES,
        model=model("{encoder}"),
        datasets=datasets("{group}", PAIRS, PROBES),
        settings=settings("companions"),
        code=code_of("companions.py", "{encoder}"),
    message:
        "EMAP and perceptual score of {wildcards.encoder} on {wildcards.group}"
    script:
        "../workflow/scripts/companions.py"


rule answer_companions:
    """Companion measures of the answers of one encoder with an answering head on one group of data sets."""
    input:
        rows=expand(
            "<results>/sources/{source}.parquet",
            source=sources_of(select("{group}", OPEN)),
        ),
        images=images("{group}", OPEN),
        weights=weights("{answerer}"),
    output:
        rows="<results>/attribution/{answerer}/companions/{group}.parquet",
    log:
        "<logs>/answer_companions/{answerer}/{group}.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **loads("{answerer}", rows_of=datasets("{group}", OPEN)),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        resampling=settings("resampling"),
        user_images=USER_IMAGES,
        model=model("{answerer}"),
        datasets=datasets("{group}", OPEN),
        settings=settings("answer_companions"),
        code=code_of("answer_companions.py", "{answerer}"),
    message:
        "Perceptual score of the answers of {wildcards.answerer} on {wildcards.group}"
    script:
        "../workflow/scripts/answer_companions.py"


# A table waits only for the parts that it shows, not for all models.
rule shares_part:
    """Mean T-SHAP, ablations, companions and verbs of the models of one kind on one group of data sets."""
    input:
        rows=expand(
            "<results>/attribution/{file.model}/{file.name}.parquet",
            file=files_of("attribution", ATTRIBUTED_PART),
        ),
        scores=expand(
            "<results>/evaluation/{file.model}/{file.name}.parquet",
            file=files_of("evaluation", ATTRIBUTED_PART),
        ),
        probes=expand(
            "<results>/benchmark/{dataset}.parquet", dataset=ATTRIBUTED_PROBES
        ),
        companions=expand(
            "<results>/attribution/{file.model}/companions/{file.name}.parquet",
            file=ask(PLAN.list_companion_files, ATTRIBUTED_PART),
        ),
    output:
        shares="<results>/attribution/shares/{part}.parquet",
        metrics="<results>/attribution/metrics/{part}.parquet",
    log:
        "<logs>/shares/{part}.log",
    wildcard_constraints:
        part=PLAN.build_pattern(PLAN.attributed_parts),
    conda:
        "../envs/environment.yaml"
    params:
        resampling=settings("resampling"),
        runs=ATTRIBUTED_PART,
        answering=PLAN.select_attributed_models("vision", "answering"),
        probes=ATTRIBUTED_PROBES,
        code=code("shares.py"),
    script:
        "../workflow/scripts/shares.py"


rule shares:
    """Shares of text, ablations and companion measures of all models."""
    input:
        shares=expand(
            "<results>/attribution/shares/{part}.parquet", part=PLAN.attributed_parts
        ),
        metrics=expand(
            "<results>/attribution/metrics/{part}.parquet", part=PLAN.attributed_parts
        ),
    output:
        shares="<results>/attribution/shares.parquet",
        metrics="<results>/attribution/metrics.parquet",
    log:
        "<logs>/shares.log",
    conda:
        "../envs/environment.yaml"
    params:
        layouts={"shares": "SHARES", "metrics": "METRICS"},
        code=code("concatenate_parts.py"),
    script:
        "../workflow/scripts/concatenate_parts.py"
