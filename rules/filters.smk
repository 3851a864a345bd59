"""Stage filters: judgments of models on candidates, and which candidates they keep."""

# Models of the filters that an instrument names; none where it names none, and then its job needs no GPU.
FILTER_MODELS = ask(BUILD.list_filter_models, "{instrument}")


rule filter_candidates:
    """Grammaticality, entailment and ranking of one instrument's candidates; nothing is dropped."""
    input:
        candidates="<results>/foils/{instrument}.parquet",
        weights=weights(FILTER_MODELS),
    output:
        filtered="<results>/filters/{instrument}.parquet",
        run="<results>/filters/{instrument}.run.json",
    log:
        "<logs>/filter_candidates/{instrument}.log",
    priority: NEEDED_ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: threads_for(FILTER_MODELS)
    resources:
        **loads(FILTER_MODELS),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        filters=ask(BUILD.list_filters, "{instrument}"),
        models=ask(
            MODELS.get_settings_by_key, ask(BUILD.get_filter_models, "{instrument}")
        ),
        grammaticality=ask(BUILD.get_min_grammaticality, "{instrument}"),
        code=code("filter_candidates.py"),
    script:
        "../workflow/scripts/filter_candidates.py"
