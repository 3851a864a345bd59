"""Bring one raw file to its place: the user's own path, a local copy, or the network."""

from pathlib import Path

from waltz.core.fetch import download, take
from waltz.core.job import job
from waltz.core.study import local_copy

file = snakemake.params.file
target = Path(snakemake.output.raw)

with job(snakemake.log[0]):
    own = Path(file["path"]) if "path" in file else local_copy(file)
    if own:
        take(own, target, file.get("sha256"))
    else:
        name = file.get("local", target.name)
        where = (
            f"put a copy into a folder as {name} and set WALTZ_DATA to the folder, or name it as `path` in the study"
        )
        download(file["url"], target, file["sha256"], where)
