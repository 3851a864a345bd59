"""Stage consistency: decoders' explanations held against their answers, a job for one model, one group and one shard.

Language models are asked the text tasks of a group, decoders that see its data sets with images.
"""

EXPLANATION_SHARDS = study("consistency.shards") or 1
HELPER = [study("consistency.helper")] if study("consistency.helper") else []
JUDGE = [study("filters.nli")] if study("consistency.meaning") == "nli" else []
TESTED_SETS = {
    (group, sees): [
        name for name in names if (name in TASKS) != sees and name not in PROBE_SETS
    ]
    for group, names in EXPLAINED.items()
    for sees in dict.fromkeys(model in SEEING for model in EXPLAINING)
}
TESTED = PLAN.tested

for (GROUP, SEES), NAMES in TESTED_SETS.items():
    if not NAMES:
        continue
    PART = f"{GROUP}.images" if SEES else GROUP

    rule:
        name:
            f"consistency_images_{GROUP}" if SEES else f"consistency_{GROUP}"
        input:
            rows=[posed_file(name) for name in NAMES],
            images=images_where(SEES, NAMES),
            prompts=lambda wildcards: sorted(
                {
                    file
                    for name in [wildcards.decoder, *HELPER]
                    for file in prompts_of(name)
                }
            ),
            weights=lambda wildcards: sum(
                map(files_of, dict.fromkeys([wildcards.decoder, *HELPER, *JUDGE])), []
            ),
            words=expand(
                "resources/wordnet/{list}",
                list=["adjectives.txt", "adverbs.txt", "modifiers.tsv"],
            ),
        output:
            rows=expand(
                "<results>/consistency/{{decoder}}/tests/shards/{dataset}.{{shard}}.parquet",
                dataset=NAMES,
            ),
            runs=expand(
                "<results>/consistency/{{decoder}}/tests/shards/{dataset}.{{shard}}.run.json",
                dataset=NAMES,
            ),
        log:
            f"<logs>/consistency/{{decoder}}/{PART}.{{shard}}.log",
        conda:
            "../envs/consistency.yaml"
        threads: THREADS
        resources:
            gpu=1,
            mem_mb=lambda wildcards: memory_mb(wildcards.decoder),
            runtime=EXPLAINING_MINUTES,
        params:
            model=lambda wildcards: select_decisive_fields(MODELS[wildcards.decoder]),
            helper=lambda wildcards: next(
                (
                    select_decisive_fields(MODELS[name])
                    for name in HELPER
                    if name != wildcards.decoder
                ),
                None,
            ),
            judge=next((select_decisive_fields(MODELS[name]) for name in JUDGE), None),
            posed=posing(NAMES),
            profiles=study("profiles"),
            sample=study("consistency.sample"),
            shards=EXPLANATION_SHARDS,
            tests=study("consistency").get("tests"),
            meaning=study("consistency.meaning") or None,
            tokens=study("consistency.tokens"),
            edits=study("consistency.edits"),
            seed=study("seed"),
            seeds=study("consistency.seeds") or [study("seed")],
            code=code("consistency.py"),
        script:
            "../workflow/scripts/consistency.py"

    rule:
        name:
            f"consistency_whole_images_{GROUP}"
            if SEES
            else f"consistency_whole_{GROUP}"
        input:
            rows=expand(
                "<results>/consistency/{{decoder}}/tests/shards/{dataset}.{shard}.parquet",
                dataset=NAMES,
                shard=range(EXPLANATION_SHARDS),
            ),
            runs=expand(
                "<results>/consistency/{{decoder}}/tests/shards/{dataset}.{shard}.run.json",
                dataset=NAMES,
                shard=range(EXPLANATION_SHARDS),
            ),
        output:
            rows=expand(
                "<results>/consistency/{{decoder}}/tests/{dataset}.parquet",
                dataset=NAMES,
            ),
            runs=expand(
                "<results>/consistency/{{decoder}}/tests/{dataset}.run.json",
                dataset=NAMES,
            ),
        log:
            f"<logs>/consistency/{{decoder}}/{PART}.log",
        conda:
            "../envs/data.yaml"
        params:
            layout="CONSISTENCY",
            shards=EXPLANATION_SHARDS,
            code=code("whole.py"),
        script:
            "../workflow/scripts/whole.py"


rule consistency:
    """The self-consistency tests of all decoders that the study names."""
    input:
        [
            f"<results>/consistency/{model}/tests/{dataset}.parquet"
            for model, dataset in TESTED
        ],


TESTED_PARTS = parted(TESTED)


rule consistency_part:
    """Every number of tests and CC-SHAP of the models of one kind on one group, and the correlations between them."""
    input:
        tests=lambda wildcards: [
            f"<results>/consistency/{model}/tests/{dataset}.parquet"
            for model, dataset in TESTED_PARTS[wildcards.part]
        ],
        cc_shap=lambda wildcards: [
            f"<results>/consistency/{model}/cc-shap/{dataset}.parquet"
            for model, dataset in TESTED_PARTS[wildcards.part]
            if study("consistency.cc_shap")
        ],
        edited=lambda wildcards: [
            f"<results>/consistency/{model}/edited/{dataset}.parquet"
            for model, dataset in edited_among(TESTED_PARTS[wildcards.part])
        ],
    output:
        metrics="<results>/consistency/metrics/{part}.parquet",
        correlations="<results>/consistency/correlations/{part}.parquet",
    log:
        "<logs>/consistency_metrics/{part}.log",
    wildcard_constraints:
        part="|".join(map(re.escape, TESTED_PARTS)) or "none",
    conda:
        "../envs/report.yaml"
    params:
        runs=lambda wildcards: TESTED_PARTS[wildcards.part],
        edited=lambda wildcards: edited_among(TESTED_PARTS[wildcards.part]),
        averaged=lambda wildcards: wildcards.part.endswith(".tasks"),
        together=lambda wildcards: f"all:{wildcards.part.partition('.')[2]}",
        resamples=study("reporting.resamples"),
        confidence=study("reporting.confidence"),
        seed=study("seed"),
        code=code("consistency_metrics.py"),
    script:
        "../workflow/scripts/consistency_metrics.py"


rule consistency_metrics:
    """Every number of the self-consistency tests and of CC-SHAP, and the correlations between them."""
    input:
        metrics=expand(
            "<results>/consistency/metrics/{part}.parquet", part=TESTED_PARTS
        ),
        correlations=expand(
            "<results>/consistency/correlations/{part}.parquet", part=TESTED_PARTS
        ),
    output:
        metrics="<results>/consistency/metrics.parquet",
        correlations="<results>/consistency/correlations.parquet",
    log:
        "<logs>/consistency_metrics.log",
    conda:
        "../envs/report.yaml"
    params:
        layouts={"metrics": "METRICS", "correlations": "METRICS"},
        code=code("concatenate_parts.py"),
    script:
        "../workflow/scripts/concatenate_parts.py"
