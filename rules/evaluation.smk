"""Stage evaluation: scores, answers and choices of each model on each group of data sets, and their metrics."""

SCORED_PART = ask(PLAN.scored_parts.get, "{part}")
COMPARED_PART = ask(PLAN.compared_parts.get, "{part}")
SCORED_PAIRS = ask(PLAN.list_user_pairs_among, SCORED_PART)
SCORED_QUESTIONS = ask(PLAN.get_questions_among, SCORED_PART)


localrules:  # a second each
    merge_evaluation_shards,
    merge_task_shards,


# Data sets of high discrepancy: the foil is the text of another image.
rule mismatched:
    """A data set that pairs the text of each image with the text of another image."""
    input:
        rows=ask(PLAN.list_rows_of_alignment, "{aligned}"),
    output:
        pairs="<results>/benchmark/{aligned}.parquet",
        run="<results>/benchmark/{aligned}.run.json",
    log:
        "<logs>/mismatched/{aligned}.log",
    conda:
        "../envs/environment.yaml"
    resources:
        mem_mb=ask(PLAN.estimate_drawing_memory_mb, "{aligned}"),
    params:
        settings=entry(STUDY.alignment, "{aligned}", "size", "choice"),
        seed=STUDY.seed,
        code=code("mismatched.py"),
    script:
        "../workflow/scripts/mismatched.py"


rule perplexity:
    """Perplexity of captions and foils: one language model on one group of data sets."""
    input:
        rows=expand(
            "<results>/benchmark/{dataset}.parquet", dataset=select("{group}", PAIRS)
        ),
        weights=weights("{language_model}"),
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
        **loads("{language_model}"),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        model=model("{language_model}"),
        datasets=datasets("{group}", PAIRS),
        settings=settings("perplexity"),
        code=code("perplexity.py"),
    script:
        "../workflow/scripts/perplexity.py"


rule align:
    """Alignment scores of texts with their images: one encoder on one group of data sets."""
    input:
        rows=expand(
            "<results>/benchmark/{dataset}.parquet",
            dataset=select("{group}", PAIRS, PROBES),
        ),
        images=images("{group}", PAIRS, PROBES),
        weights=weights("{encoder}"),
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
        **loads("{encoder}"),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        user_images=USER_IMAGES,
        model=model("{encoder}"),
        datasets=datasets("{group}", PAIRS, PROBES),
        settings=settings("align"),
        code=code_of("align.py", "{encoder}"),
    script:
        "../workflow/scripts/align.py"


rule answer:
    """Answers to open questions: one encoder with an answering head on one group of data sets."""
    input:
        rows=expand(
            "<results>/sources/{source}.parquet",
            source=sources_of(select("{group}", OPEN)),
        ),
        images=images("{group}", OPEN),
        weights=weights("{answerer}"),
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
        **loads("{answerer}", rows_of=datasets("{group}", OPEN)),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        user_images=USER_IMAGES,
        model=model("{answerer}"),
        datasets=datasets("{group}", OPEN),
        settings=settings("answer"),
        code=code_of("answer.py", "{answerer}"),
    script:
        "../workflow/scripts/answer.py"


# A language model scores the pairs of a group and answers its text tasks: two jobs, and two files.
rule decode_tasks:
    """Answers of one decoder to one shard of the questions of one group of data sets."""
    input:
        rows=expand(
            "<results>/sources/{source}.parquet",
            source=sources_of(select("{group}", CHOICE)),
        ),
        weights=weights("{language_model}"),
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
        **loads("{language_model}"),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        prompts=prompts("{language_model}"),
        model=model("{language_model}"),
        datasets=datasets("{group}", prompted="{language_model}"),
        settings=settings("decode"),
        shards=shards("evaluation", "{language_model}", "{group}"),
        code=code("decode.py"),
    message:
        "Answers of {wildcards.language_model} to the text tasks of {wildcards.group}, shard {wildcards.shard} of {params.shards}"
    script:
        "../workflow/scripts/decode.py"


# A VL decoder also reads the images of its questions.
use rule decode_tasks as decode with:
    input:
        rows=rows("{group}", "{vl_decoder}"),
        images=images("{group}", prompted="{vl_decoder}"),
        weights=weights("{vl_decoder}"),
    output:
        scores="<results>/evaluation/{vl_decoder}/shards/{group}.{shard}.parquet",
        run="<results>/evaluation/{vl_decoder}/shards/{group}.{shard}.run.json",
    log:
        "<logs>/decode/{vl_decoder}/{group}.{shard}.log",
    resources:
        **loads("{vl_decoder}"),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        prompts=prompts("{vl_decoder}"),
        user_images=USER_IMAGES,
        model=model("{vl_decoder}"),
        datasets=datasets("{group}", prompted="{vl_decoder}"),
        shards=shards("evaluation", "{vl_decoder}", "{group}"),
    message:
        "Answers of {wildcards.vl_decoder} on {wildcards.group}, shard {wildcards.shard} of {params.shards}"


rule merge_evaluation_shards:
    """The shards of one VL decoder on one group of data sets as one file."""
    input:
        rows=expand(
            "<results>/evaluation/{vl_decoder}/shards/{group}.{shard}.parquet",
            shard=shard_numbers("evaluation", "{vl_decoder}", "{group}"),
            allow_missing=True,
        ),
        runs=expand(
            "<results>/evaluation/{vl_decoder}/shards/{group}.{shard}.run.json",
            shard=shard_numbers("evaluation", "{vl_decoder}", "{group}"),
            allow_missing=True,
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
        rows=expand(
            "<results>/evaluation/{language_model}/shards/{group}.tasks.{shard}.parquet",
            shard=shard_numbers("evaluation", "{language_model}", "{group}"),
            allow_missing=True,
        ),
        runs=expand(
            "<results>/evaluation/{language_model}/shards/{group}.tasks.{shard}.run.json",
            shard=shard_numbers("evaluation", "{language_model}", "{group}"),
            allow_missing=True,
        ),
    output:
        rows="<results>/evaluation/{language_model}/{group}.tasks.parquet",
        run="<results>/evaluation/{language_model}/{group}.tasks.run.json",
    log:
        "<logs>/merge_evaluation_shards/{language_model}/{group}.tasks.log",


rule recorded_answers:
    """Answers of one model that was run elsewhere to the questions of one group of data sets."""
    input:
        records=ask(PLAN.get_recorded_rows, "{recorded_model}"),
    output:
        scores="<results>/evaluation/{recorded_model}/{group}.parquet",
        run="<results>/evaluation/{recorded_model}/{group}.run.json",
    log:
        "<logs>/recorded_answers/{recorded_model}/{group}.log",
    conda:
        "../envs/environment.yaml"
    params:
        model=model("{recorded_model}"),
        datasets=ask(PLAN.select_prompted, "{recorded_model}", "{group}"),
        profiles=STUDY.profiles,
        code=code("recorded_answers.py"),
    script:
        "../workflow/scripts/recorded_answers.py"


rule metrics_part:
    """Every metric of the models of one kind on one group of data sets."""
    input:
        scores=expand(
            "<results>/evaluation/{file.model}/{file.name}.parquet",
            file=files_of("evaluation", SCORED_PART),
        ),
        questions=expand(
            "<results>/sources/{source}.parquet", source=sources_of(SCORED_QUESTIONS)
        ),
        probes=expand(
            "<results>/benchmark/{dataset}.parquet",
            dataset=ask(PLAN.list_probes_among, SCORED_PART),
        ),
        pairs=expand("<results>/benchmark/{dataset}.parquet", dataset=SCORED_PAIRS),
    output:
        metrics="<results>/evaluation/metrics/{part}.parquet",
    log:
        "<logs>/metrics/{part}.log",
    wildcard_constraints:
        part=PLAN.build_pattern(PLAN.scored_parts),
    conda:
        "../envs/environment.yaml"
    params:
        resampling=settings("resampling"),
        runs=SCORED_PART,
        questions=SCORED_QUESTIONS,
        pairs=SCORED_PAIRS,
        seed=STUDY.seed,
        averaged=ask(PLAN.list_averaged, "{part}"),
        profiles=STUDY.profiles,
        code=code("metrics_part.py"),
    script:
        "../workflow/scripts/metrics_part.py"


# Two models are compared on the items that both scored, which takes more rows than a metric.
rule comparisons_part:
    """Paired comparisons of models that are compared in one table, on one group of data sets."""
    input:
        scores=expand(
            "<results>/evaluation/{file.model}/{file.name}.parquet",
            file=files_of("evaluation", COMPARED_PART),
        ),
    output:
        comparisons="<results>/evaluation/comparisons/{part}.parquet",
    log:
        "<logs>/comparisons/{part}.log",
    wildcard_constraints:
        part=PLAN.build_pattern(PLAN.compared_parts),
    conda:
        "../envs/environment.yaml"
    params:
        resampling=settings("resampling"),
        runs=COMPARED_PART,
        controls=PLAN.rulers,
        profiles=STUDY.profiles,
        code=code("comparisons_part.py"),
    script:
        "../workflow/scripts/comparisons_part.py"


rule metrics:
    """Every metric of every model on every data set, and the paired comparisons of models."""
    input:
        parts=expand(
            "<results>/evaluation/metrics/{part}.parquet", part=PLAN.scored_parts
        ),
        comparisons=expand(
            "<results>/evaluation/comparisons/{part}.parquet", part=PLAN.compared_parts
        ),
        scores=expand(
            "<results>/evaluation/{file.model}/{file.name}.parquet",
            file=files_of("evaluation", PLAN.scored),
        ),
    output:
        metrics="<results>/evaluation/metrics.parquet",
        comparisons="<results>/evaluation/comparisons.parquet",
    log:
        "<logs>/metrics.log",
    conda:
        "../envs/environment.yaml"
    params:
        resampling=settings("resampling"),
        runs=PLAN.scored,
        parts=PLAN.compared_parts,
        controls=PLAN.rulers,
        profiles=STUDY.profiles,
        code=code("metrics.py"),
    script:
        "../workflow/scripts/metrics.py"
