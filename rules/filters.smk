"""Stage filters: what models say about candidates, and which they keep."""


rule filter_candidates:
    """Grammaticality, entailment and ranking of one instrument's candidates; nothing is dropped."""
    input:
        candidates="<results>/foils/{instrument}.parquet",
        weights=lambda wildcards: weight_files_of(
            needed_models(config, wildcards.instrument).values()
        ),
    output:
        filtered="<results>/filters/{instrument}.parquet",
        run="<results>/filters/{instrument}.run.json",
    log:
        "<logs>/filter_candidates/{instrument}.log",
    conda:
        "../envs/foils.yaml"
    resources:
        gpu=lambda wildcards: int(bool(INSTRUMENTS[wildcards.instrument]["filters"])),
        mem_mb=6000,
    params:
        filters=lambda wildcards: INSTRUMENTS[wildcards.instrument]["filters"],
        models=lambda wildcards: {
            key: select_decisive_fields(MODELS[name])
            for key, name in needed_models(config, wildcards.instrument).items()
        },
        grammaticality=lambda wildcards: (
            study("filters.grammaticality")
            if "grammaticality" in INSTRUMENTS[wildcards.instrument]["filters"]
            else None
        ),
        code=code("filter_candidates.py"),
    script:
        "../workflow/scripts/filter_candidates.py"
