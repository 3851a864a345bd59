"""Stage attribution: MM-SHAP, a job for one model, one group of data sets and one shard, and shares of text."""


localrules:
    merge_attribution_shards,
    shares,


rule attribute:
    """MM-SHAP of one encoder's scores."""
    input:
        rows=lambda w: PLAN.list_rows_files(PLAN.select_scorable(w.group)),
        images=lambda w: PLAN.list_image_files(PLAN.select_scorable(w.group)),
        weights=lambda w: MODELS.list_files(w.encoder),
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
        **request_resources(lambda w: [w.encoder]),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        own_images=OWN_IMAGES,
        model=lambda w: MODELS.get_settings(w.encoder),
        datasets=lambda w: PLAN.get_settings(PLAN.select_scorable(w.group)),
        settings=PLAN.estimation,
        scored=STUDY.evaluation.items,
        scored_sample=STUDY.evaluation.sample,
        sample=STUDY.attribution.sample,
        shards=lambda w: count_shards("attribution", w.encoder, w.group),
        seed=STUDY.seed,
        code=lambda w: code("attribute.py", MODELS.get_module(w.encoder)),
    script:
        "../workflow/scripts/attribute.py"


rule attribute_answers:
    """MM-SHAP of one VL decoder's answers."""
    input:
        rows=lambda w: PLAN.list_rows_files(PLAN.select_pairs(w.group)),
        images=lambda w: PLAN.list_image_files(PLAN.select_pairs(w.group)),
        weights=lambda w: MODELS.list_weight_files(w.vl_decoder),
        prompts=lambda w: MODELS.list_prompt_files(w.vl_decoder),
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
        **request_resources(lambda w: [w.vl_decoder]),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        own_images=OWN_IMAGES,
        model=lambda w: MODELS.get_settings(w.vl_decoder),
        datasets=lambda w: PLAN.get_settings(PLAN.select_pairs(w.group)),
        settings=PLAN.estimation,
        value=STUDY.attribution.value,
        scored=STUDY.evaluation.items,
        scored_sample=STUDY.evaluation.decoder_sample or STUDY.evaluation.sample,
        sample=STUDY.attribution.decoder_sample or STUDY.attribution.sample,
        shards=lambda w: count_shards("attribution", w.vl_decoder, w.group),
        seed=STUDY.seed,
        code=code("attribute_answers.py"),
    script:
        "../workflow/scripts/attribute_answers.py"


rule attribute_questions:
    """MM-SHAP of the answers to open questions of one encoder with an answering head."""
    input:
        rows=lambda w: PLAN.list_rows_files(PLAN.select_open_questions(w.group)),
        images=lambda w: PLAN.list_image_files(PLAN.select_open_questions(w.group)),
        weights=lambda w: MODELS.list_files(w.answerer),
    output:
        rows="<results>/attribution/{answerer}/shards/{group}.{shard}.parquet",
        run="<results>/attribution/{answerer}/shards/{group}.{shard}.run.json",
    log:
        "<logs>/attribute_questions/{answerer}/{group}.{shard}.log",
    priority: NEEDED_ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **request_resources(
            lambda w: [w.answerer], lambda w: PLAN.select_open_questions(w.group)
        ),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        own_images=OWN_IMAGES,
        model=lambda w: MODELS.get_settings(w.answerer),
        datasets=lambda w: PLAN.get_settings(PLAN.select_open_questions(w.group)),
        settings=PLAN.estimation,
        sample=STUDY.attribution.sample,
        shards=lambda w: count_shards("attribution", w.answerer, w.group),
        seed=STUDY.seed,
        code=lambda w: code("attribute_questions.py", MODELS.get_module(w.answerer)),
    script:
        "../workflow/scripts/attribute_questions.py"


rule merge_attribution_shards:
    """The shards of one model on one group of data sets as one file."""
    input:
        rows=lambda w: list_shards(
            "<results>/attribution/{model}/shards/{group}.{shard}.parquet",
            "attribution",
            w.model,
            w.group,
        ),
        runs=lambda w: list_shards(
            "<results>/attribution/{model}/shards/{group}.{shard}.run.json",
            "attribution",
            w.model,
            w.group,
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
        rows=lambda w: PLAN.list_rows_files(PLAN.select_scorable(w.group)),
        images=lambda w: PLAN.list_image_files(PLAN.select_scorable(w.group)),
        weights=lambda w: MODELS.list_files(w.encoder),
    output:
        rows="<results>/attribution/{encoder}/companions/{group}.parquet",
    log:
        "<logs>/companions/{encoder}/{group}.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **request_resources(lambda w: [w.encoder]),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        **PLAN.companion_settings,
        **PLAN.resampling,
        own_images=OWN_IMAGES,
        model=lambda w: MODELS.get_settings(w.encoder),
        datasets=lambda w: PLAN.get_settings(PLAN.select_scorable(w.group)),
        scored=STUDY.evaluation.items,
        code=lambda w: code("companions.py", MODELS.get_module(w.encoder)),
    script:
        "../workflow/scripts/companions.py"


rule answer_companions:
    """Companion measures of the answers of one encoder with an answering head on one group of data sets."""
    input:
        rows=lambda w: PLAN.list_rows_files(PLAN.select_open_questions(w.group)),
        images=lambda w: PLAN.list_image_files(PLAN.select_open_questions(w.group)),
        weights=lambda w: MODELS.list_files(w.answerer),
    output:
        rows="<results>/attribution/{answerer}/companions/{group}.parquet",
    log:
        "<logs>/answer_companions/{answerer}/{group}.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **request_resources(
            lambda w: [w.answerer], lambda w: PLAN.select_open_questions(w.group)
        ),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        **PLAN.companion_settings,
        **PLAN.resampling,
        own_images=OWN_IMAGES,
        model=lambda w: MODELS.get_settings(w.answerer),
        datasets=lambda w: PLAN.get_settings(PLAN.select_open_questions(w.group)),
        profiles=STUDY.profiles,
        code=lambda w: code("answer_companions.py", MODELS.get_module(w.answerer)),
    script:
        "../workflow/scripts/answer_companions.py"


rule shares_part:
    """Mean T-SHAP, ablations, companions and verbs of the models of one kind on one group of data sets."""
    input:
        rows=lambda w: PLAN.list_run_files("attribution", PLAN.attributed_parts[w.part]),
        scores=lambda w: PLAN.list_run_files(
            "evaluation", PLAN.attributed_parts[w.part]
        ),
        probes=lambda w: PLAN.list_rows_files(
            PLAN.list_probes_among(PLAN.attributed_parts[w.part])
        ),
        companions=lambda w: PLAN.list_companion_files(PLAN.attributed_parts[w.part]),
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
        **PLAN.resampling,
        runs=lambda w: PLAN.attributed_parts[w.part],
        answering=[
            *PLAN.select_attributed_models("vision"),
            *PLAN.select_attributed_models("answering"),
        ],
        probes=lambda w: PLAN.list_probes_among(PLAN.attributed_parts[w.part]),
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
