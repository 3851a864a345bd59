"""Stage benchmark: items with votes, and what validation says about them."""


rule items:
    """One raw file that holds finished items, as a benchmark."""
    input:
        unpack(item_files),
    output:
        pairs="<results>/benchmark/{dataset}.parquet",
        annotations="<results>/benchmark/annotations/{dataset}.parquet",
    log:
        "<logs>/items/{dataset}.log",
    conda:
        "../envs/data.yaml"
    params:
        format=lambda wildcards: DATASETS[wildcards.dataset]["format"],
        source=lambda wildcards: DATASETS[wildcards.dataset]["source"],
        valid_votes=study("benchmark.valid_votes"),
        code=code("items.py"),
    script:
        "../workflow/scripts/items.py"


rule validation_statistics:
    """Votes, lexical items, divergence and agreement of every data set (thesis A.2)."""
    input:
        pairs=expand("<results>/benchmark/{dataset}.parquet", dataset=DATASETS),
        annotations=expand(
            "<results>/benchmark/annotations/{dataset}.parquet", dataset=DATASETS
        ),
    output:
        statistics="<results>/benchmark/validation/statistics.parquet",
        frequencies="<results>/benchmark/validation/frequencies.parquet",
    log:
        "<logs>/validation_statistics.log",
    conda:
        "../envs/data.yaml"
    params:
        datasets=list(DATASETS),
        resamples=study("reporting.resamples"),
        confidence=study("reporting.confidence"),
        seed=study("seed"),
        code=code("validation_statistics.py"),
    script:
        "../workflow/scripts/validation_statistics.py"
