"""Stage sources: raw files, fetched and checked."""


rule fetch:
    """One raw file: the user's own path, a local copy below WALTZ_DATA, or the network."""
    input:
        own=lambda wildcards: (
            [DATASETS[wildcards.dataset]["path"]]
            if "path" in DATASETS[wildcards.dataset]
            else []
        ),
    output:
        raw="<results>/sources/raw/{source}/{dataset}/{file}",
    log:
        "<logs>/fetch/{source}/{dataset}/{file}.log",
    conda:
        "../envs/data.yaml"
    params:
        file=lambda wildcards: DATASETS[wildcards.dataset],
        code=code("fetch.py"),
    script:
        "../workflow/scripts/fetch.py"
