"""Bring one raw file to its place: the user's own path, a local copy, a file of an archive, or the network."""

from pathlib import Path

from waltz.core.files.archives import extract_member
from waltz.core.files.downloads import (
    LOCK_ON_DOWNLOAD,
    check_against_lock,
    copy_checked,
    fetch,
    find_local_copy,
    get_archive_member,
)
from waltz.core.job_records import log_job

params = snakemake.params
file, target = params.file, Path(snakemake.output.raw)

with log_job(snakemake.log[0]):
    if snakemake.input.get("archive"):
        extract_member(Path(snakemake.input.archive), get_archive_member(file["url"]), target)
    elif own := Path(file["path"]) if "path" in file else find_local_copy(file):
        said = file.get("sha256")
        if said == LOCK_ON_DOWNLOAD:
            check_against_lock(own, file["url"].partition("#")[0], Path(params.lock))
        copy_checked(own, target, None if said == LOCK_ON_DOWNLOAD else said)
    else:
        name = file.get("local", target.name)
        where = (
            f"put a copy into a folder as {name} and set WALTZ_DATA to the folder, or name it as `path` in the study"
        )
        fetch(file["url"], target, file["sha256"], Path(params.lock), where, file.get("size"))
