"""Stage consistency: CC-SHAP, a job for one model, one group of data sets and one shard; also before and after edits."""

CC_SHARDS = study("consistency.shards") or 1
CC_SETTINGS = study("consistency.cc_shap")
CC_MODELS = EXPLAINING if CC_SETTINGS else []
CC_EDITS = CC_SETTINGS.get("edits", False)
CC_EDITED = [
    name for name in CC_MODELS if CC_EDITS is True or (CC_EDITS and name in CC_EDITS)
]
"""Models whose contributions are computed before and after edits as well."""
CC_POSED = {
    (group, kind): (models, posed_among(models[0], names))
    for group, names in EXPLAINED.items()
    for kind in ("vision", "text")
    if (models := [name for name in CC_MODELS if MODELS[name].kind == kind])
    and posed_among(models[0], names)
}
CC_SHAPS = [
    (model, dataset)
    for models, names in CC_POSED.values()
    for model in models
    for dataset in names
    if takes(model, GROUP_OF[dataset])
]
CC_PARTS = {"cc-shap": "CC_SHAP", "contributions": "ATTRIBUTION"}
EDIT_PARTS = {"edited": "EDITED", "edited-contributions": "ATTRIBUTION"}
CC_RECORDS = {"contributions": "cc-shap", "edited-contributions": "edited"}
"""Parts whose records are those of the part that the same job writes."""


for (GROUP, KIND), (NAMED, NAMES) in CC_POSED.items():
    CALLED = GROUP if KIND == "vision" else f"texts_{GROUP}"

    rule:
        name:
            f"cc_shap_{CALLED}"
        input:
            rows=[posed_file(name) for name in NAMES],
            images=images_where(KIND == "vision", NAMES),
            weights=lambda wildcards: weight_files(MODELS[wildcards.decoder]),
            prompts=lambda wildcards: prompts_of(wildcards.decoder),
        output:
            rows=cc_shards("cc-shap", NAMES),
            contributions=cc_shards("contributions", NAMES),
            runs=cc_shards("cc-shap", NAMES, "run.json"),
        log:
            f"<logs>/cc_shap/{{decoder}}/{CALLED}.{{shard}}.log",
        wildcard_constraints:
            decoder="|".join(map(re.escape, NAMED)),
        conda:
            "../envs/models.yaml"
        threads: THREADS
        resources:
            gpu=1,
            mem_mb=lambda wildcards: memory_mb(wildcards.decoder),
            runtime=EXPLAINING_MINUTES,
        params:
            model=lambda wildcards: select_decisive_fields(MODELS[wildcards.decoder]),
            posing=posing(NAMES),
            profiles=study("profiles"),
            sample=study("consistency.sample"),
            cc_shap={key: value for key, value in CC_SETTINGS.items() if key != "edits"},
            tokens=study("consistency.tokens"),
            shards=CC_SHARDS,
            seed=study("seed"),
            seeds=study("consistency.seeds") or [study("seed")],
            code=code("cc_shap.py"),
        script:
            "../workflow/scripts/cc_shap.py"

    EDITED_HERE = [name for name in NAMED if name in CC_EDITED]
    if EDITED_HERE:

        rule:
            name:
                f"cc_shap_edits_{CALLED}"
            input:
                rows=[posed_file(name) for name in NAMES],
                tests=expand(
                    "<results>/consistency/{{decoder}}/tests/{dataset}.parquet",
                    dataset=NAMES,
                ),
                unedited=cc_shards("cc-shap", NAMES),
                images=images_where(KIND == "vision", NAMES),
                weights=lambda wildcards: weight_files(MODELS[wildcards.decoder]),
                prompts=lambda wildcards: prompts_of(wildcards.decoder),
            output:
                rows=cc_shards("edited", NAMES),
                contributions=cc_shards("edited-contributions", NAMES),
                runs=cc_shards("edited", NAMES, "run.json"),
            log:
                f"<logs>/cc_shap_edits/{{decoder}}/{CALLED}.{{shard}}.log",
            wildcard_constraints:
                decoder="|".join(map(re.escape, EDITED_HERE)),
            conda:
                "../envs/models.yaml"
            threads: THREADS
            resources:
                gpu=1,
                mem_mb=lambda wildcards: memory_mb(wildcards.decoder),
                runtime=EXPLAINING_MINUTES,
            params:
                model=lambda wildcards: select_decisive_fields(
                    MODELS[wildcards.decoder]
                ),
                posing=posing(NAMES),
                profiles=study("profiles"),
                sample=study("consistency.sample"),
                cc_shap={
                    key: value for key, value in CC_SETTINGS.items() if key != "edits"
                },
                tokens=study("consistency.tokens"),
                shards=CC_SHARDS,
                seed=study("seed"),
                seeds=study("consistency.seeds") or [study("seed")],
                code=code("cc_shap_edits.py"),
            script:
                "../workflow/scripts/cc_shap_edits.py"

    for PART, LAYOUT in (CC_PARTS | (EDIT_PARTS if EDITED_HERE else {})).items():
        RECORDED = CC_RECORDS.get(PART, PART)

        rule:
            name:
                f"cc_shap_whole_{PART.replace('-', '_')}_{CALLED}"
            input:
                rows=expand(
                    f"<results>/consistency/{{{{decoder}}}}/{PART}/shards/{{dataset}}.{{shard}}.parquet",
                    dataset=NAMES,
                    shard=range(CC_SHARDS),
                ),
                runs=expand(
                    f"<results>/consistency/{{{{decoder}}}}/{RECORDED}/shards/{{dataset}}.{{shard}}.run.json",
                    dataset=NAMES,
                    shard=range(CC_SHARDS),
                ),
            output:
                rows=expand(
                    f"<results>/consistency/{{{{decoder}}}}/{PART}/{{dataset}}.parquet",
                    dataset=NAMES,
                ),
                runs=expand(
                    f"<results>/consistency/{{{{decoder}}}}/{PART}/{{dataset}}.run.json",
                    dataset=NAMES,
                ),
            log:
                f"<logs>/cc_shap_whole/{{decoder}}/{PART}.{CALLED}.log",
            wildcard_constraints:
                decoder="|".join(
                    map(re.escape, EDITED_HERE if PART in EDIT_PARTS else NAMED)
                ),
            conda:
                "../envs/data.yaml"
            params:
                layout=LAYOUT,
                shards=CC_SHARDS,
                code=code("whole.py"),
            script:
                "../workflow/scripts/whole.py"


rule cc_shap:
    """CC-SHAP, contributions and edits of all decoders that the study names."""
    input:
        [PLAN.consistency_file(part, run) for part, run in PLAN.explained_parts],
