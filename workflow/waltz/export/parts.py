"""Parts of a benchmark with their items and images, and the Parquet files in which they are exported."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from waltz.core.errors import UserError
from waltz.core.files.atomic import replace_file
from waltz.core.files.download_lock import compute_sha256
from waltz.core.schema import Layout
from waltz.export.columns import IMAGE, build_export_schema
from waltz.sources.images import ImageFault, ImageSource, check_images, find_image_path, open_images

SHARD_BYTES = 500_000_000
"""Approximate bytes of images in one file, as in the hub's own tools."""
ROW_GROUP_SIZE = 100
"""Rows of a row group in files with images, so that a viewer reads few of them at once."""


@dataclass(frozen=True)
class Part:
    """Configuration of the data set.

    Attributes:
        name: Name of an instrument or data set of the study.
        source: Its source in the study.
        form: `instrument` or `cv-probes` (built by waltz), `valse-release` or `pairs`.
        layout: Layout of its items, `BENCHMARK` or `CONDITIONS`.
        items: The items.
        images: Folder or archive of images to include; None to include only their names.
        no_images_reason: Why the images are not included; None where they are.
    """

    name: str
    source: str
    form: str
    layout: Layout
    items: pa.Table
    images: str | None
    no_images_reason: str | None


@dataclass(frozen=True)
class DataFile:
    """A file of the data set.

    Attributes:
        path: Its path in the data set's folder.
        sha256: Its checksum.
        size: Its bytes.
    """

    path: str
    sha256: str
    size: int


@dataclass(frozen=True)
class WrittenPart:
    """A part and the files that hold it.

    Attributes:
        part: The part.
        files: Its files, in order.
        faults: Images that could not be opened, so that they are null.
    """

    part: Part
    files: tuple[DataFile, ...]
    faults: tuple[ImageFault, ...]


def write_part(part: Part, folder: Path, shard_bytes: int = SHARD_BYTES) -> WrittenPart:
    """Write a part as Parquet files `<part>/test-00000-of-00001.parquet`.

    Images are embedded byte for byte as in their source.

    Args:
        part: The part.
        folder: The data set's folder.
        shard_bytes: Approximate bytes of images in one file.
    Raises:
        UserError: The part has no items, or its images' folder or archive cannot be read.
    """
    if not part.items.num_rows:
        raise UserError(f"data set {part.name!r}: no items to export; remove it from the study")
    names = part.items.column("image").to_pylist()
    with open_images(part.images) if part.images is not None else nullcontext() as source:
        faults = check_images(source, names) if source else []
        broken_images = {fault.image for fault in faults}
        paths = (
            {name: find_image_path(source, name) for name in dict.fromkeys(names) if name not in broken_images}
            if source
            else {}
        )
        sizes = {name: source.size(path) for name, path in paths.items()} if source else {}
        shards = list(_split_shards([sizes.get(name, 0) for name in names], shard_bytes))
        files = []
        for index, (start, end) in enumerate(shards):
            path = f"{part.name}/test-{index:05d}-of-{len(shards):05d}.parquet"
            _write_file(folder / path, part, part.items.slice(start, end - start), source, paths)
            files.append(describe_file(folder, path))
    return WrittenPart(part, tuple(files), tuple(faults))


def describe_file(folder: Path, path: str) -> DataFile:
    """Return path, checksum and size of a file in the data set's folder."""
    return DataFile(path, compute_sha256(folder / path), (folder / path).stat().st_size)


def _write_file(path: Path, part: Part, items: pa.Table, source: ImageSource | None, paths: Mapping[str, str]) -> None:
    schema = build_export_schema(part.layout, source is not None)
    size = ROW_GROUP_SIZE if source else max(items.num_rows, 1)
    with replace_file(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for start in range(0, items.num_rows, size):
            rows = items.slice(start, size)
            names = rows.column("image")
            columns = {name: rows.column(name) for name in rows.schema.names} | {"image_file": names}
            if source:
                columns["image"] = _embed_images(names.to_pylist(), source, paths)
            writer.write_table(pa.table([columns[name] for name in schema.names], schema=schema))


def _embed_images(names: Sequence[str], source: ImageSource, paths: Mapping[str, str]) -> pa.Array:
    """Return images as the `datasets` library stores them; null where one could not be opened."""
    images = {
        name: {"bytes": source.read(paths[name]), "path": Path(paths[name]).name} for name in set(names) & set(paths)
    }
    return pa.array([images.get(name) for name in names], type=IMAGE)


def _split_shards(sizes: Sequence[int], max_size: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows whose sizes add up to at most `max_size`, with at least one row each."""
    start, total = 0, 0
    for row, size in enumerate(sizes):
        if row > start and total + size > max_size:
            yield start, row
            start, total = row, 0
        total += size
    yield start, len(sizes)
