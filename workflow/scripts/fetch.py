"""Bring one raw file to its place: the user's own path, a local copy, a file of an archive, or the network."""

from pathlib import Path

from waltz.core.files.archives import take_member
from waltz.core.files.download_lock import LOCK
from waltz.core.files.fetch import check_by_lock, fetch, take
from waltz.core.files.urls import member_of
from waltz.core.job_log import job
from waltz.core.raw_files import local_copy

params = snakemake.params
file, target = params.file, Path(snakemake.output.raw)

with job(snakemake.log[0]):
    if snakemake.input.get("archive"):
        take_member(Path(snakemake.input.archive), member_of(file["url"]), target)
    elif own := Path(file["path"]) if "path" in file else local_copy(file):
        said = file.get("sha256")
        if said == LOCK:
            check_by_lock(own, file["url"].partition("#")[0], Path(params.lock))
        take(own, target, None if said == LOCK else said)
    else:
        name = file.get("local", target.name)
        where = (
            f"put a copy into a folder as {name} and set WALTZ_DATA to the folder, or name it as `path` in the study"
        )
        fetch(file["url"], target, file["sha256"], Path(params.lock), where, file.get("size"))
