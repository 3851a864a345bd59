"""Stage sources: raw files, fetched and checked."""

def raw_file(dataset):
    """Where the raw file of a data set is kept."""
    entry = DATASETS[dataset]
    return f"<results>/sources/raw/{entry['source']}/{dataset}/{file_name(entry)}"


def item_files(wildcards):
    """The raw file of a data set, and its single annotations where the study names them."""
    files = {"raw": raw_file(wildcards.dataset)}
    annotations = DATASETS[wildcards.dataset].get("annotations")
    return files | {"annotations": annotations} if annotations else files


rule fetch:
    """One raw file: the user's own path, a local copy below WALTZ_DATA, or the network."""
    input:
        own=lambda wildcards: [DATASETS[wildcards.dataset]["path"]] if "path" in DATASETS[wildcards.dataset] else [],
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
