"""Stage filters: judgements of models on candidates, and which candidates they keep."""


rule filter_candidates:
    """Grammaticality, entailment and ranking of one instrument's candidates; nothing is dropped."""
    input:
        candidates="<results>/foils/{instrument}.parquet",
        weights=lambda w: MODELS.list_weight_files(
            *PLAN.get_filter_models(w.instrument).values()
        ),
    output:
        filtered="<results>/filters/{instrument}.parquet",
        run="<results>/filters/{instrument}.run.json",
    log:
        "<logs>/filter_candidates/{instrument}.log",
    priority: NEEDED_ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: lambda w: MODEL_THREADS if PLAN.get_filter_models(w.instrument) else 1
    resources:
        **request_resources(lambda w: PLAN.get_filter_models(w.instrument).values()),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        filters=lambda w: STUDY.instruments[w.instrument].filters,
        models=lambda w: {
            key: MODELS.get_settings(name)
            for key, name in PLAN.get_filter_models(w.instrument).items()
        },
        grammaticality=lambda w: PLAN.get_min_grammaticality(w.instrument),
        code=code("filter_candidates.py"),
    script:
        "../workflow/scripts/filter_candidates.py"
