"""Where the data of a study lie: raw files, images, what is built of them."""


def raw_file(source, name):
    """Where a raw file is: drawn, in a folder of the user's, or fetched, by the first entry that names its url."""
    if name == IMAGES and len(image_parts(config, source)) > 1:
        return f"<results>/sources/raw/{source}/images.txt"
    entry = FILES[source, name]
    if "drawn" in entry:
        return f"<results>/sources/drawn/{entry['drawn']}"
    if name.partition("-")[0] == IMAGES and "path" in entry:
        return entry["path"]
    if is_url(entry.get("url", "")) and not get_archive_member(entry["url"]):
        source, name = OWNERS[entry["url"], "file"]
    return f"<results>/sources/raw/{source}/{name}/{file_name(FILES[source, name])}"


def archive_file(source, name):
    """The fetched archive that a raw file is a part of; none where it is a file of its own, or lies here."""
    url = FILES[source, name].get("url", "")
    if not get_archive_member(url):
        return []
    origin = url.partition("#")[0]
    source, name = OWNERS[origin, "archive"]
    return f"<results>/sources/archives/{source}/{name}/{get_file_name(origin)}"


def images_of(dataset):
    """The folder or archive of a data set's images."""
    entry = (INSTRUMENTS | DATASETS | ALIGNED | ASKED).get(dataset, PROBES)
    source = entry["source"]
    if not image_parts(config, source):
        raise WorkflowError(
            f"study file: sources.{source}.images is missing: encoders look at the images of {dataset}"
        )
    return raw_file(source, IMAGES)


def has_images(dataset):
    """Whether the study has the images of a data set."""
    entry = (INSTRUMENTS | DATASETS | ALIGNED | ASKED).get(dataset, PROBES)
    return bool(image_parts(config, entry.get("source")))


def images_where(encoders, names):
    """Images of some data sets, where an encoder looks at them."""
    return [images_of(name) for name in names] if encoders else []


def posed_file(dataset):
    """The rows that a data set's questions are made of."""
    if dataset in [*ASKED, *TASKS]:
        return f"<results>/sources/{(ASKED | TASKS)[dataset]['source']}.parquet"
    return f"<results>/benchmark/{dataset}.parquet"


def released_files(wildcards):
    """The released files, and the rows of the captions that plurality and relations were made from."""
    given = {name: raw_file(DATASETS[name]["source"], name) for name in RELEASED}
    captions = [
        f"<results>/sources/{name}.parquet"
        for name, entry in RAW_SOURCES.items()
        if entry["format"] == "coco-captions"
    ]
    return given | {"captions": captions}


def built_file(instrument):
    """Items of an instrument that is built, apart from the released ones where these have its name."""
    beside = "built/" if instrument in DATASETS else ""
    return f"<results>/benchmark/{beside}{instrument}.parquet"


DRAWN_FILES = sorted(
    {
        raw_file(*key)
        for key, entry in FILES.items()
        if "drawn" in entry and key[1].partition("-")[0] != IMAGES
    }
    | {
        f"<results>/sources/drawn/{path}"
        for path in PROBES.get("descriptions", {}).values()
    }
)
DRAWN_IMAGES = sorted(
    {
        raw_file(*key)
        for key, entry in FILES.items()
        if "drawn" in entry and key[1].partition("-")[0] == IMAGES
    }
)


def item_files(wildcards):
    """The raw file of a data set, and its single annotations where the study names them."""
    entry = DATASETS[wildcards.dataset]
    named = {"raw": raw_file(entry["source"], wildcards.dataset)}
    return (
        named | {"annotations": entry["annotations"]}
        if "annotations" in entry
        else named
    )


def source_files(wildcards):
    """The raw files of a source, in the order of the study."""
    return [
        raw_file(wildcards.source, name)
        for name in RAW_SOURCES[wildcards.source]["files"]
    ]
