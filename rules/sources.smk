"""Stage sources: raw files, fetched, checked and read."""


rule fetch:
    """One raw file: the user's own path, a local copy below WALTZ_DATA, or the network."""
    input:
        own=lambda wildcards: FILES[wildcards.source, wildcards.part].get("path", []),
    output:
        raw="<results>/sources/raw/{source}/{part}/{file}",
    log:
        "<logs>/fetch/{source}/{part}/{file}.log",
    conda:
        "../envs/data.yaml"
    params:
        file=lambda wildcards: FILES[wildcards.source, wildcards.part],
        code=code("fetch.py"),
    script:
        "../workflow/scripts/fetch.py"


rule source:
    """One source in its upstream format as typed rows; what cannot be used keeps its reason."""
    input:
        raw=source_files,
    output:
        rows="<results>/sources/{source}.parquet",
        run="<results>/sources/{source}.run.json",
    log:
        "<logs>/source/{source}.log",
    conda:
        "../envs/data.yaml"
    params:
        format=lambda wildcards: RAW_SOURCES[wildcards.source]["format"],
        names=lambda wildcards: list(RAW_SOURCES[wildcards.source]["files"]),
        code=code("source.py"),
    script:
        "../workflow/scripts/source.py"


rule check_images:
    """Open every image that a source needs; those missing or broken are named with the fault."""
    input:
        rows="<results>/sources/{source}.parquet",
        images=lambda wildcards: raw_file(wildcards.source, "images"),
    output:
        faults="<results>/sources/images/{source}.parquet",
    log:
        "<logs>/check_images/{source}.log",
    conda:
        "../envs/data.yaml"
    params:
        code=code("check_images.py"),
    script:
        "../workflow/scripts/check_images.py"
