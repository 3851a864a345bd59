"""Stage consistency: decoders' explanations compared with their answers, by self-consistency tests and by CC-SHAP.

A job takes one model, one group and one shard: language models get the text tasks of a group, VL decoders its data sets
with images.
"""

from waltz.plan.plan import CONSISTENCY_LAYOUTS, RECORDED_WITH


localrules:
    merge_consistency_shards,
    consistency_metrics,


rule self_consistency_tests:
    """Self-consistency tests of one decoder."""
    input:
        rows=lambda w: PLAN.list_rows_files(PLAN.select_prompted(w.decoder, w.group)),
        images=lambda w: PLAN.list_images_for(
            w.decoder, PLAN.select_prompted(w.decoder, w.group)
        ),
        prompts=lambda w: MODELS.list_prompt_files(w.decoder, *PLAN.helpers),
        weights=lambda w: MODELS.list_files(*PLAN.list_testing_models(w.decoder)),
        words=[
            locate_in_package(f"resources/wordnet/{words}")
            for words in ("adjectives.txt", "adverbs.txt", "modifiers.tsv")
        ],
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
        **request_resources(lambda w: PLAN.list_testing_models(w.decoder)),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        own_images=OWN_IMAGES,
        model=lambda w: MODELS.get_settings(w.decoder),
        helper=lambda w: PLAN.get_helper_settings(w.decoder),
        judge=next(map(MODELS.get_settings, PLAN.judges), None),
        datasets=lambda w: PLAN.get_settings(PLAN.select_prompted(w.decoder, w.group)),
        profiles=STUDY.profiles,
        sample=STUDY.consistency.sample,
        shards=lambda w: count_shards("tests", w.decoder, w.group),
        tests=STUDY.consistency.tests,
        meaning=STUDY.consistency.meaning,
        tokens=STUDY.consistency.tokens.to_dict(),
        edits=STUDY.consistency.edits.to_dict(),
        seed=STUDY.seed,
        seeds=PLAN.consistency_seeds,
        repeated=STUDY.consistency.repeated,
        code=code("consistency.py"),
    script:
        "../workflow/scripts/consistency.py"


rule cc_shap_shard:
    """CC-SHAP of one decoder, with the attributions of its answers and explanations."""
    input:
        rows=lambda w: PLAN.list_rows_files(PLAN.select_prompted(w.decoder, w.group)),
        images=lambda w: PLAN.list_images_for(
            w.decoder, PLAN.select_prompted(w.decoder, w.group)
        ),
        weights=lambda w: MODELS.list_weight_files(w.decoder),
        prompts=lambda w: MODELS.list_prompt_files(w.decoder),
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
        **request_resources(lambda w: [w.decoder]),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        own_images=OWN_IMAGES,
        model=lambda w: MODELS.get_settings(w.decoder),
        datasets=lambda w: PLAN.get_settings(PLAN.select_prompted(w.decoder, w.group)),
        profiles=STUDY.profiles,
        sample=STUDY.consistency.sample,
        cc_shap=PLAN.cc_shap_settings,
        tokens=STUDY.consistency.tokens.to_dict(),
        shards=lambda w: count_shards("cc-shap", w.decoder, w.group),
        seed=STUDY.seed,
        seeds=PLAN.consistency_seeds,
        repeated=STUDY.consistency.repeated,
        code=code("cc_shap.py"),
    script:
        "../workflow/scripts/cc_shap.py"


rule cc_shap_edits:
    """How counterfactual edits shift the attributions of one decoder's answers and explanations."""
    input:
        rows=lambda w: PLAN.list_rows_files(PLAN.select_prompted(w.decoder, w.group)),
        tests="<results>/consistency/{decoder}/tests/{group}.parquet",
        unedited="<results>/consistency/{decoder}/cc-shap/shards/{group}.{shard}.parquet",
        images=lambda w: PLAN.list_images_for(
            w.decoder, PLAN.select_prompted(w.decoder, w.group)
        ),
        weights=lambda w: MODELS.list_weight_files(w.decoder),
        prompts=lambda w: MODELS.list_prompt_files(w.decoder),
    output:
        rows="<results>/consistency/{decoder}/edited/shards/{group}.{shard}.parquet",
        contributions="<results>/consistency/{decoder}/edited-contributions/shards/{group}.{shard}.parquet",
        run="<results>/consistency/{decoder}/edited/shards/{group}.{shard}.run.json",
    log:
        "<logs>/cc_shap_edits/{decoder}/{group}.{shard}.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **request_resources(lambda w: [w.decoder]),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        own_images=OWN_IMAGES,
        model=lambda w: MODELS.get_settings(w.decoder),
        datasets=lambda w: PLAN.get_settings(PLAN.select_prompted(w.decoder, w.group)),
        profiles=STUDY.profiles,
        sample=STUDY.consistency.sample,
        cc_shap=PLAN.cc_shap_settings,
        tokens=STUDY.consistency.tokens.to_dict(),
        shards=lambda w: count_shards("cc-shap", w.decoder, w.group),
        seed=STUDY.seed,
        seeds=PLAN.consistency_seeds,
        repeated=STUDY.consistency.repeated,
        code=code("cc_shap_edits.py"),
    script:
        "../workflow/scripts/cc_shap_edits.py"


rule merge_consistency_shards:
    """The shards of one part of a decoder's results on one group of data sets as one file."""
    input:
        rows=lambda w: list_shards(
            "<results>/consistency/{model}/{result}/shards/{group}.{shard}.parquet",
            "tests" if w.result == "tests" else "cc-shap",
            w.decoder,
            w.group,
            result=w.result,
        ),
        runs=lambda w: list_shards(
            "<results>/consistency/{model}/{result}/shards/{group}.{shard}.run.json",
            "tests" if w.result == "tests" else "cc-shap",
            w.decoder,
            w.group,
            result=RECORDED_WITH.get(w.result, w.result),
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
        layout=lambda w: CONSISTENCY_LAYOUTS[w.result],
        code=code("merge_shards.py"),
    script:
        "../workflow/scripts/merge_shards.py"


rule recorded_tests:
    """Test verdicts, CC-SHAP and attributions of one model that was run elsewhere on one group of data sets."""
    input:
        records=lambda w: PLAN.get_recorded_rows(w.recorded_model),
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
        model=lambda w: MODELS.get_settings(w.recorded_model),
        datasets=lambda w: PLAN.select_prompted(w.recorded_model, w.group),
        profiles=STUDY.profiles,
        code=code("recorded_tests.py"),
    script:
        "../workflow/scripts/recorded_tests.py"


rule cc_shap:
    """CC-SHAP, contributions and edits of all decoders that the study names."""
    input:
        PLAN.cc_shap_files,


rule consistency_part:
    """Every number of tests and CC-SHAP of the models of one kind on one group, and the correlations between them."""
    input:
        tests=lambda w: PLAN.list_run_files("tests", PLAN.tested_parts[w.part]),
        cc_shap=lambda w: PLAN.list_run_files(
            "cc-shap", PLAN.select_explained(PLAN.tested_parts[w.part])
        ),
        edited=lambda w: PLAN.list_run_files(
            "edited", PLAN.select_edited(PLAN.tested_parts[w.part])
        ),
    output:
        metrics="<results>/consistency/metrics/{part}.parquet",
        correlations="<results>/consistency/correlations/{part}.parquet",
    log:
        "<logs>/consistency_part/{part}.log",
    wildcard_constraints:
        part=PLAN.build_pattern(PLAN.tested_parts),
    conda:
        "../envs/environment.yaml"
    params:
        **PLAN.resampling,
        runs=lambda w: PLAN.tested_parts[w.part],
        averaged=lambda w: w.part.endswith(".tasks"),
        together=lambda w: f"all:{w.part.partition('.')[2]}",
        code=code("consistency_metrics.py"),
    script:
        "../workflow/scripts/consistency_metrics.py"


rule consistency_metrics:
    """Every number of the self-consistency tests and of CC-SHAP, and the correlations between them."""
    input:
        metrics=expand(
            "<results>/consistency/metrics/{part}.parquet", part=PLAN.tested_parts
        ),
        correlations=expand(
            "<results>/consistency/correlations/{part}.parquet", part=PLAN.tested_parts
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
