"""Stage evaluation: scores, answers and choices of each model on each group of data sets, and their metrics."""


localrules:  # a second each
    merge_evaluation_shards,
    merge_task_shards,


rule mismatched:
    """Texts of images next to those of other images, as a data set."""
    input:
        rows=lambda w: PLAN.list_source_rows(STUDY.alignment[w.aligned].source),
    output:
        pairs="<results>/benchmark/{aligned}.parquet",
        run="<results>/benchmark/{aligned}.run.json",
    log:
        "<logs>/mismatched/{aligned}.log",
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=lambda w: 4000 + PLAN.estimate_rows_memory_mb([w.aligned]),
    params:
        size=lambda w: STUDY.alignment[w.aligned].size,
        choice=lambda w: STUDY.alignment[w.aligned].choice,
        seed=STUDY.seed,
        code=code("mismatched.py"),
    script:
        "../workflow/scripts/mismatched.py"


rule perplexity:
    """Perplexity of captions and foils: one language model on one group of data sets."""
    input:
        rows=lambda w: PLAN.list_rows_files(PLAN.select_pairs(w.group)),
        weights=lambda w: MODELS.list_weight_files(w.language_model),
    output:
        scores="<results>/evaluation/{language_model}/{group}.parquet",
        run="<results>/evaluation/{language_model}/{group}.run.json",
    log:
        "<logs>/perplexity/{language_model}/{group}.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **request_resources(lambda w: [w.language_model]),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        model=lambda w: MODELS.get_settings(w.language_model),
        datasets=lambda w: PLAN.get_settings(PLAN.select_pairs(w.group)),
        profiles=STUDY.profiles,
        scored=STUDY.evaluation.items,
        sample=STUDY.evaluation.sample,
        tokens_per_batch=STUDY.evaluation.tokens_per_batch,
        seed=STUDY.seed,
        code=code("perplexity.py"),
    script:
        "../workflow/scripts/perplexity.py"


rule align:
    """Alignment scores of texts with their images: one encoder on one group of data sets."""
    input:
        rows=lambda w: PLAN.list_rows_files(PLAN.select_scorable(w.group)),
        images=lambda w: PLAN.list_image_files(PLAN.select_scorable(w.group)),
        weights=lambda w: MODELS.list_files(w.encoder),
    output:
        scores="<results>/evaluation/{encoder}/{group}.parquet",
        run="<results>/evaluation/{encoder}/{group}.run.json",
    log:
        "<logs>/align/{encoder}/{group}.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **request_resources(lambda w: [w.encoder]),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        own_images=OWN_IMAGES,
        model=lambda w: MODELS.get_settings(w.encoder),
        datasets=lambda w: PLAN.get_settings(PLAN.select_scorable(w.group)),
        profiles=STUDY.profiles,
        scored=STUDY.evaluation.items,
        sample=STUDY.evaluation.sample,
        seed=STUDY.seed,
        code=lambda w: code("align.py", MODELS.get_module(w.encoder)),
    script:
        "../workflow/scripts/align.py"


rule answer:
    """Answers to open questions: one encoder with an answering head on one group of data sets."""
    input:
        rows=lambda w: PLAN.list_rows_files(PLAN.select_open_questions(w.group)),
        images=lambda w: PLAN.list_image_files(PLAN.select_open_questions(w.group)),
        weights=lambda w: MODELS.list_files(w.answerer),
    output:
        scores="<results>/evaluation/{answerer}/{group}.parquet",
        run="<results>/evaluation/{answerer}/{group}.run.json",
    log:
        "<logs>/answer/{answerer}/{group}.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **request_resources(
            lambda w: [w.answerer], lambda w: PLAN.select_open_questions(w.group)
        ),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        own_images=OWN_IMAGES,
        model=lambda w: MODELS.get_settings(w.answerer),
        datasets=lambda w: PLAN.get_settings(PLAN.select_open_questions(w.group)),
        profiles=STUDY.profiles,
        seed=STUDY.seed,
        code=lambda w: code("answer.py", MODELS.get_module(w.answerer)),
    script:
        "../workflow/scripts/answer.py"


rule decode:
    """Answers of one VL decoder to one shard of the questions of one group of data sets."""
    input:
        rows=lambda w: PLAN.list_rows_files(PLAN.select_prompted(w.vl_decoder, w.group)),
        images=lambda w: PLAN.list_image_files(
            PLAN.select_prompted(w.vl_decoder, w.group)
        ),
        weights=lambda w: MODELS.list_weight_files(w.vl_decoder),
        prompts=lambda w: MODELS.list_prompt_files(w.vl_decoder),
    output:
        scores="<results>/evaluation/{vl_decoder}/shards/{group}.{shard}.parquet",
        run="<results>/evaluation/{vl_decoder}/shards/{group}.{shard}.run.json",
    log:
        "<logs>/decode/{vl_decoder}/{group}.{shard}.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **request_resources(lambda w: [w.vl_decoder]),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        own_images=OWN_IMAGES,
        model=lambda w: MODELS.get_settings(w.vl_decoder),
        datasets=lambda w: PLAN.get_settings(
            PLAN.select_prompted(w.vl_decoder, w.group)
        ),
        profiles=STUDY.profiles,
        scored=STUDY.evaluation.items,
        sample=STUDY.evaluation.decoder_sample or STUDY.evaluation.sample,
        cot_tokens=STUDY.evaluation.cot_tokens,
        shards=lambda w: count_shards("evaluation", w.vl_decoder, w.group),
        seed=STUDY.seed,
        code=code("decode.py"),
    script:
        "../workflow/scripts/decode.py"


rule decode_tasks:
    """Answers of one language model to one shard of the text tasks of one group."""
    input:
        rows=lambda w: PLAN.list_rows_files(
            PLAN.select_prompted(w.language_model, w.group)
        ),
        weights=lambda w: MODELS.list_weight_files(w.language_model),
        prompts=lambda w: MODELS.list_prompt_files(w.language_model),
    output:
        scores="<results>/evaluation/{language_model}/shards/{group}.tasks.{shard}.parquet",
        run="<results>/evaluation/{language_model}/shards/{group}.tasks.{shard}.run.json",
    log:
        "<logs>/decode_tasks/{language_model}/{group}.tasks.{shard}.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **request_resources(lambda w: [w.language_model]),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        model=lambda w: MODELS.get_settings(w.language_model),
        datasets=lambda w: PLAN.get_settings(
            PLAN.select_prompted(w.language_model, w.group)
        ),
        profiles=STUDY.profiles,
        scored=STUDY.evaluation.items,
        sample=STUDY.evaluation.decoder_sample or STUDY.evaluation.sample,
        cot_tokens=STUDY.evaluation.cot_tokens,
        shards=lambda w: count_shards("evaluation", w.language_model, w.group),
        seed=STUDY.seed,
        code=code("decode.py"),
    script:
        "../workflow/scripts/decode.py"


rule merge_evaluation_shards:
    """The shards of one VL decoder on one group of data sets as one file."""
    input:
        rows=lambda w: list_shards(
            "<results>/evaluation/{model}/shards/{group}.{shard}.parquet",
            "evaluation",
            w.vl_decoder,
            w.group,
        ),
        runs=lambda w: list_shards(
            "<results>/evaluation/{model}/shards/{group}.{shard}.run.json",
            "evaluation",
            w.vl_decoder,
            w.group,
        ),
    output:
        rows="<results>/evaluation/{vl_decoder}/{group}.parquet",
        run="<results>/evaluation/{vl_decoder}/{group}.run.json",
    log:
        "<logs>/merge_evaluation_shards/{vl_decoder}/{group}.log",
    conda:
        "../envs/environment.yaml"
    params:
        layout="EVALUATION",
        order=["position"],
        code=code("merge_shards.py"),
    script:
        "../workflow/scripts/merge_shards.py"


use rule merge_evaluation_shards as merge_task_shards with:
    input:
        rows=lambda w: list_shards(
            "<results>/evaluation/{model}/shards/{group}.tasks.{shard}.parquet",
            "evaluation",
            w.language_model,
            w.group,
        ),
        runs=lambda w: list_shards(
            "<results>/evaluation/{model}/shards/{group}.tasks.{shard}.run.json",
            "evaluation",
            w.language_model,
            w.group,
        ),
    output:
        rows="<results>/evaluation/{language_model}/{group}.tasks.parquet",
        run="<results>/evaluation/{language_model}/{group}.tasks.run.json",
    log:
        "<logs>/merge_evaluation_shards/{language_model}/{group}.tasks.log",


rule recorded_answers:
    """Answers of one model that was run elsewhere to the questions of one group of data sets."""
    input:
        records=lambda w: PLAN.get_recorded_rows(w.recorded_model),
    output:
        scores="<results>/evaluation/{recorded_model}/{group}.parquet",
        run="<results>/evaluation/{recorded_model}/{group}.run.json",
    log:
        "<logs>/recorded_answers/{recorded_model}/{group}.log",
    conda:
        "../envs/environment.yaml"
    params:
        model=lambda w: MODELS.get_settings(w.recorded_model),
        datasets=lambda w: PLAN.select_prompted(w.recorded_model, w.group),
        profiles=STUDY.profiles,
        code=code("recorded_answers.py"),
    script:
        "../workflow/scripts/recorded_answers.py"


rule metrics_part:
    """Every metric of the models of one kind on one group of data sets, and the differences that tests can show."""
    input:
        scores=lambda w: PLAN.list_run_files("evaluation", PLAN.scored_parts[w.part]),
        questions=lambda w: PLAN.list_rows_files(
            PLAN.get_questions_among(PLAN.scored_parts[w.part])
        ),
        probes=lambda w: PLAN.list_rows_files(
            PLAN.list_probes_among(PLAN.scored_parts[w.part])
        ),
    output:
        metrics="<results>/evaluation/metrics/{part}.parquet",
        detectable="<results>/evaluation/detectable/{part}.parquet",
    log:
        "<logs>/metrics/{part}.log",
    wildcard_constraints:
        part=PLAN.build_pattern(PLAN.scored_parts),
    conda:
        "../envs/environment.yaml"
    params:
        **PLAN.resampling,
        runs=lambda w: PLAN.scored_parts[w.part],
        questions=lambda w: PLAN.get_questions_among(PLAN.scored_parts[w.part]),
        averaged=lambda w: PLAN.list_averaged(w.part),
        profiles=STUDY.profiles,
        code=code("metrics_part.py"),
    script:
        "../workflow/scripts/metrics_part.py"


rule metrics:
    """Every metric of every model on every data set, and the paired comparisons of models."""
    input:
        parts=expand(
            "<results>/evaluation/metrics/{part}.parquet", part=PLAN.scored_parts
        ),
        scores=PLAN.list_run_files("evaluation", PLAN.scored),
    output:
        metrics="<results>/evaluation/metrics.parquet",
        comparisons="<results>/evaluation/comparisons.parquet",
    log:
        "<logs>/metrics.log",
    conda:
        "../envs/environment.yaml"
    params:
        **PLAN.resampling,
        runs=PLAN.scored,
        profiles=STUDY.profiles,
        code=code("metrics.py"),
    script:
        "../workflow/scripts/metrics.py"
