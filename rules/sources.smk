"""Stage sources: raw files, fetched, checked and read."""


localrules:
    fetch,
    fetch_archive,
    fetch_weights,
    fetch_snapshot,  # nodes of a cluster may have no network


rule fetch:
    """One raw file: the user's own path, a local copy below WALTZ_DATA, a file of an archive, or the network."""
    input:
        own=lambda wildcards: FILES[wildcards.source, wildcards.part].get("path", []),
        archive=lambda wildcards: archive_file(wildcards.source, wildcards.part),
    output:
        raw="<results>/sources/raw/{source}/{part}/{file}",
    log:
        "<logs>/fetch/{source}/{part}/{file}.log",
    conda:
        "../envs/data.yaml"
    params:
        file=lambda wildcards: FILES[wildcards.source, wildcards.part],
        lock=LOCK_FILE,
        code=code("fetch.py"),
    script:
        "../workflow/scripts/fetch.py"


rule fetch_archive:
    """One archive that raw files are taken from."""
    output:
        raw="<results>/sources/archives/{source}/{part}/{file}",
    log:
        "<logs>/fetch_archive/{source}/{part}/{file}.log",
    conda:
        "../envs/data.yaml"
    params:
        file=lambda wildcards: FILES[wildcards.source, wildcards.part],
        lock=LOCK_FILE,
        code=code("fetch.py"),
    script:
        "../workflow/scripts/fetch.py"


rule images_together:
    """The list of the places where a source's images lie, read as if they were one."""
    input:
        parts=lambda wildcards: [
            raw_file(wildcards.source, name)
            for name in image_parts(config, wildcards.source)
        ],
    output:
        listed="<results>/sources/raw/{source}/images.txt",
    log:
        "<logs>/images_together/{source}.log",
    conda:
        "../envs/data.yaml"
    params:
        code=code("images_together.py"),
    script:
        "../workflow/scripts/images_together.py"


rule fetch_weights:
    """One file of weights, shared by all studies."""
    output:
        file=f"{WEIGHTS}/web/{{place}}",
    log:
        "<logs>/fetch_weights/{place}.log",
    wildcard_constraints:
        place=".+",
    conda:
        "../envs/data.yaml"
    params:
        origin=lambda wildcards: WEB[f"{WEIGHTS}/web/{wildcards.place}"],
        lock=LOCK_FILE,
        code=code("fetch_weights.py"),
    script:
        "../workflow/scripts/fetch_weights.py"


rule fetch_snapshot:
    """One model of the hub at the commit of the lock file, which the first download records."""
    output:
        folder=directory(f"{WEIGHTS}/hub/{{repository}}"),
    log:
        "<logs>/fetch_snapshot/{repository}.log",
    wildcard_constraints:
        repository="[^/]+/[^/]+|[^/]+",
    conda:
        "../envs/models.yaml"
    params:
        repository=lambda wildcards: SNAPSHOTS[f"{WEIGHTS}/hub/{wildcards.repository}"],
        lock=LOCK_FILE,
        code=code("fetch_snapshot.py"),
    script:
        "../workflow/scripts/fetch_snapshot.py"


rule unpack_weights:
    """One model that comes in archives, in transformers format."""
    input:
        weights=lambda wildcards: [
            place
            for url, place in list_downloads(
                RESOLVED[wildcards.model], WEIGHTS
            ).items()
            if url
            in (RESOLVED[wildcards.model].weights, RESOLVED[wildcards.model].config)
        ],
    output:
        folder=directory(f"{WEIGHTS}/unpacked/{{model}}"),
    log:
        "<logs>/unpack_weights/{model}.log",
    conda:
        "../envs/models.yaml"
    params:
        unpack=lambda wildcards: RESOLVED[wildcards.model].unpack,
        code=code("unpack_weights.py"),
    script:
        "../workflow/scripts/unpack_weights.py"


rule take_answers:
    """The answers that an encoder chooses from, out of an archive."""
    input:
        archive=lambda wildcards: list_downloads(RESOLVED[wildcards.model], WEIGHTS)[
            RESOLVED[wildcards.model].answers.partition("#")[0]
        ],
    output:
        file=f"{WEIGHTS}/members/{{model}}/{{file}}",
    log:
        "<logs>/take_answers/{model}/{file}.log",
    wildcard_constraints:
        file="[^/]+",
    conda:
        "../envs/data.yaml"
    params:
        member=lambda wildcards: get_archive_member(RESOLVED[wildcards.model].answers),
        code=code("take_answers.py"),
    script:
        "../workflow/scripts/take_answers.py"


rule weights:
    """All weights that are fetched by url or at the lock file's commit; hub ids with a commit are fetched by their jobs."""
    input:
        sorted(FETCHED),


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
    """Open every image that a source needs: a manifest of all of them, and those missing or broken with the fault."""
    input:
        rows=lambda wildcards: (
            f"<results>/sources/{wildcards.source}.parquet"
            if wildcards.source in RAW_SOURCES
            else [
                f"<results>/benchmark/{name}.parquet"
                for name, entry in DATASETS.items()
                if entry["source"] == wildcards.source
            ]
        ),
        images=lambda wildcards: raw_file(wildcards.source, IMAGES),
    output:
        faults="<results>/sources/images/{source}.parquet",
        manifest="<results>/sources/images/{source}.csv",
        run="<results>/sources/images/{source}.run.json",
    log:
        "<logs>/check_images/{source}.log",
    conda:
        "../envs/data.yaml"
    params:
        code=code("check_images.py"),
    script:
        "../workflow/scripts/check_images.py"
