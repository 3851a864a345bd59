"""Stage consistency: decoders' explanations compared with their answers, by self-consistency tests and by CC-SHAP.

A job takes one model, one group and one shard: language models get the text tasks of a group, VL decoders its data sets
with images.
"""

from waltz.plan.plan import (
    CONSISTENCY_LAYOUTS,
    get_job_result,
    get_sharded_step,
)

# The tests of a decoder load the helper and the judge as well.
TESTING_MODELS = ask(PLAN.list_testing_models, "{decoder}")
CHECKED_PART = ask(PLAN.checked_parts.get, "{part}")
EDITED_DATASETS = ask(PLAN.list_edited_datasets, "{decoder}", "{group}")
# CC-SHAP, its contributions and its edits are cut into the same shards.
SHARDED_STEP = ask(get_sharded_step, "{result}")


localrules:
    merge_consistency_shards,
    consistency_metrics,


rule self_consistency_tests:
    """Self-consistency tests of one decoder."""
    input:
        rows=rows("{group}", "{decoder}"),
        images=images("{group}", prompted="{decoder}"),
        weights=weights(TESTING_MODELS),
        words=expand(
            "<package>/resources/wordnet/{words}",
            words=["adjectives.txt", "adverbs.txt", "modifiers.tsv"],
        ),
    output:
        rows="<results>/consistency/{decoder}/tests/shards/{group}.{shard}.parquet",
        run="<results>/consistency/{decoder}/tests/shards/{group}.{shard}.run.json",
    log:
        "<logs>/self_consistency_tests/{decoder}/{group}.{shard}.log",
    priority: NEEDED_ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **loads(TESTING_MODELS),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        prompts=prompts("{decoder}", *PLAN.helpers),
        user_images=USER_IMAGES,
        model=model("{decoder}"),
        helper=ask(PLAN.get_helper_settings, "{decoder}"),
        judge=PLAN.get_judge_settings(),
        datasets=datasets("{group}", prompted="{decoder}"),
        settings=settings("self_consistency_tests"),
        shards=shards("tests", "{decoder}", "{group}"),
        code=code("consistency.py"),
    message:
        "Self-consistency tests of {wildcards.decoder} on {wildcards.group}, shard {wildcards.shard} of {params.shards}"
    script:
        "../workflow/scripts/consistency.py"


rule cc_shap_shard:
    """CC-SHAP of one decoder with the attributions of its answers and explanations, or their shift after edits."""
    input:
        rows=rows("{group}", "{decoder}"),
        images=images("{group}", prompted="{decoder}"),
        weights=weights("{decoder}"),
    output:
        rows="<results>/consistency/{decoder}/cc-shap/shards/{group}.{shard}.parquet",
        contributions="<results>/consistency/{decoder}/contributions/shards/{group}.{shard}.parquet",
        run="<results>/consistency/{decoder}/cc-shap/shards/{group}.{shard}.run.json",
    log:
        "<logs>/cc_shap/{decoder}/{group}.{shard}.log",
    priority: NEEDED_ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **loads("{decoder}"),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        prompts=prompts("{decoder}"),
        user_images=USER_IMAGES,
        model=model("{decoder}"),
        datasets=datasets("{group}", prompted="{decoder}"),
        settings=settings("cc_shap"),
        shards=shards("cc-shap", "{decoder}", "{group}"),
        code=code("cc_shap.py"),
    message:
        "CC-SHAP of {wildcards.decoder} on {wildcards.group}, shard {wildcards.shard} of {params.shards}"
    script:
        "../workflow/scripts/cc_shap.py"


# The edits are those that the tests made, so that the same edited texts are explained.
use rule cc_shap_shard as cc_shap_edits with:
    input:
        rows=rows_of(EDITED_DATASETS),
        tests="<results>/consistency/{decoder}/tests/{group}.parquet",
        unedited="<results>/consistency/{decoder}/cc-shap/shards/{group}.{shard}.parquet",
        images=images_of(EDITED_DATASETS, prompted="{decoder}"),
        weights=weights("{decoder}"),
    output:
        rows="<results>/consistency/{decoder}/edited/shards/{group}.{shard}.parquet",
        contributions="<results>/consistency/{decoder}/edited-contributions/shards/{group}.{shard}.parquet",
        run="<results>/consistency/{decoder}/edited/shards/{group}.{shard}.run.json",
    log:
        "<logs>/cc_shap_edits/{decoder}/{group}.{shard}.log",
    priority: ON_GPUS
    params:
        prompts=prompts("{decoder}"),
        user_images=USER_IMAGES,
        model=model("{decoder}"),
        datasets=ask(PLAN.get_settings, EDITED_DATASETS),
        settings=settings("cc_shap"),
        shards=shards("cc-shap", "{decoder}", "{group}"),
        code=code("cc_shap.py"),
    message:
        "CC-SHAP of {wildcards.decoder} after edits on {wildcards.group}, shard {wildcards.shard} of {params.shards}"


rule merge_consistency_shards:
    """The shards of one part of a decoder's results on one group of data sets as one file."""
    input:
        rows=expand(
            "<results>/consistency/{decoder}/{result}/shards/{group}.{shard}.parquet",
            shard=shard_numbers(SHARDED_STEP, "{decoder}", "{group}"),
            allow_missing=True,
        ),
        runs=expand(
            "<results>/consistency/{decoder}/{job}/shards/{group}.{shard}.run.json",
            job=ask(get_job_result, "{result}"),
            shard=shard_numbers(SHARDED_STEP, "{decoder}", "{group}"),
            allow_missing=True,
        ),
    output:
        rows="<results>/consistency/{decoder}/{result}/{group}.parquet",
        run="<results>/consistency/{decoder}/{result}/{group}.run.json",
    log:
        "<logs>/merge_consistency_shards/{decoder}/{result}/{group}.log",
    wildcard_constraints:
        result=PLAN.build_pattern(CONSISTENCY_LAYOUTS),
        decoder=PLAN.build_pattern(PLAN.run_decoders),
    conda:
        "../envs/environment.yaml"
    params:
        layout=ask(CONSISTENCY_LAYOUTS.get, "{result}"),
        code=code("merge_shards.py"),
    script:
        "../workflow/scripts/merge_shards.py"


# A recorded model has no jobs: its rows come from the files of its source.
rule recorded_tests:
    """Test verdicts, CC-SHAP and attributions of one model that was run elsewhere on one group of data sets."""
    input:
        records=ask(PLAN.get_recorded_rows, "{recorded_model}"),
    output:
        tests="<results>/consistency/{recorded_model}/tests/{group}.parquet",
        tests_run="<results>/consistency/{recorded_model}/tests/{group}.run.json",
        cc_shap="<results>/consistency/{recorded_model}/cc-shap/{group}.parquet",
        cc_shap_run="<results>/consistency/{recorded_model}/cc-shap/{group}.run.json",
        contributions="<results>/consistency/{recorded_model}/contributions/{group}.parquet",
    log:
        "<logs>/recorded_tests/{recorded_model}/{group}.log",
    conda:
        "../envs/environment.yaml"
    params:
        model=model("{recorded_model}"),
        datasets=ask(PLAN.select_prompted, "{recorded_model}", "{group}"),
        profiles=STUDY.profiles,
        code=code("recorded_tests.py"),
    script:
        "../workflow/scripts/recorded_tests.py"


rule cc_shap:
    """CC-SHAP, contributions and edits of all decoders that the study names."""
    input:
        expand(
            "<results>/consistency/{file.model}/cc-shap/{file.name}.parquet",
            file=files_of("cc-shap", PLAN.explained),
        ),
        expand(
            "<results>/consistency/{file.model}/contributions/{file.name}.parquet",
            file=files_of("contributions", PLAN.explained),
        ),
        expand(
            "<results>/consistency/{file.model}/edited/{file.name}.parquet",
            file=files_of("edited", PLAN.edited),
        ),
        expand(
            "<results>/consistency/{file.model}/edited-contributions/{file.name}.parquet",
            file=files_of("edited-contributions", PLAN.edited),
        ),


rule consistency_part:
    """Every number of tests and CC-SHAP of the models of one kind on one group, and the correlations between them."""
    input:
        tests=expand(
            "<results>/consistency/{file.model}/tests/{file.name}.parquet",
            file=files_of("tests", ask(PLAN.select_tested, CHECKED_PART)),
        ),
        cc_shap=expand(
            "<results>/consistency/{file.model}/cc-shap/{file.name}.parquet",
            file=files_of("cc-shap", ask(PLAN.select_explained, CHECKED_PART)),
        ),
        edited=expand(
            "<results>/consistency/{file.model}/edited/{file.name}.parquet",
            file=files_of("edited", ask(PLAN.select_edited, CHECKED_PART)),
        ),
    output:
        metrics="<results>/consistency/metrics/{part}.parquet",
        correlations="<results>/consistency/correlations/{part}.parquet",
    log:
        "<logs>/consistency_part/{part}.log",
    wildcard_constraints:
        part=PLAN.build_pattern(PLAN.checked_parts),
    conda:
        "../envs/environment.yaml"
    params:
        resampling=settings("resampling"),
        margin=STUDY.reporting.excess_margin,
        runs=CHECKED_PART,
        averaged=ask(PLAN.holds_tasks, "{part}"),
        together=ask(PLAN.name_pooled_data, "{part}"),
        code=code("consistency_metrics.py"),
    script:
        "../workflow/scripts/consistency_metrics.py"


rule consistency_metrics:
    """Every number of the self-consistency tests and of CC-SHAP, and the correlations between them."""
    input:
        metrics=expand(
            "<results>/consistency/metrics/{part}.parquet", part=PLAN.checked_parts
        ),
        correlations=expand(
            "<results>/consistency/correlations/{part}.parquet",
            part=PLAN.checked_parts,
        ),
    output:
        metrics="<results>/consistency/metrics.parquet",
        correlations="<results>/consistency/correlations.parquet",
    log:
        "<logs>/consistency_metrics.log",
    conda:
        "../envs/environment.yaml"
    params:
        layouts={"metrics": "METRICS", "correlations": "METRICS"},
        code=code("concatenate_parts.py"),
    script:
        "../workflow/scripts/concatenate_parts.py"
