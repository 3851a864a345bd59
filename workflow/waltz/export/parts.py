"""Write the parts of an exported benchmark: their columns and types, and Parquet files of items and
images.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from waltz.core.downloads.checksums import compute_sha256
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.atomic import replace_file
from waltz.core.files.json_objects import JsonObject
from waltz.core.layout import Layout
from waltz.core.schema import BENCHMARK, CONDITIONS, SPAN
from waltz.export.facts import Entry, read_terms
from waltz.sources.images import (
    ImageFault,
    ImageSource,
    check_images,
    find_image_path,
    open_images,
)

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
"""Type of an image in the `datasets` library."""

ITEM_COLUMNS = {
    "item_id": "Name of the item, unique within its configuration. Ids repeat across configurations.",
    "instrument": "The test that the item belongs to.",
    "piece": "The linguistic phenomenon that the instrument tests.",
    "source": "Origin of image and caption.",
    "source_id": "Name of the annotation within its source.",
    "split": "Split of the source, not of this data set.",
    "image": "The image file, unchanged; null where it could not be opened.",
    "image_file": "File name of the image in its source.",
    "caption": "A text that is meant to be true of the image.",
    "foil": "The same text with a phrase exchanged, meant to be false of the image.",
    "caption_span": "Characters of the caption that differ from the foil, from start to before end.",
    "foil_span": "Characters of the foil that differ from the caption.",
    "caption_phrases": "The words exchanged, on the caption's side; balancing counts them.",
    "foil_phrases": "The words exchanged, on the foil's side.",
    "direction": "Kind of exchange within the instrument.",
    "proposal_rank": "Rank of the foil among a model's proposals of as many tokens, from 0; null without a model.",
    "proposal_score": "Score of that model, higher is better.",
    "grammaticality": "GRUEN grammaticality of the foil.",
    "caption_grammaticality": "GRUEN grammaticality of the caption, where captions were ranked.",
    "caption_perplexity": "Perplexity of the caption, where captions were ranked.",
    "nli_entailment": "Probability that the caption entails the foil, by a natural language inference model.",
    "nli_neutral": "Probability that it does neither.",
    "nli_contradiction": "Probability that the caption contradicts the foil.",
    "voter": "Voters: people, or the oracle of drawn scenes. Null where nobody voted or a release does not say.",
    "votes_caption": "Votes that the caption describes the image and the foil does not. Null where nobody voted.",
    "votes_foil": "Votes that the foil describes the image and the caption does not.",
    "votes_other": "Votes for both, neither or cannot tell.",
    "valid": "True if enough votes are for the caption. Null where nobody voted.",
    "release": "The upstream record as JSON, for items that were not built here.",
    "group": "The two items whose images and captions are each other's foils; null without such a group.",
}
"""Columns of caption-and-foil items, in their order."""

PROBE_COLUMNS = {
    "item_id": "Name of the item.",
    "form": "original or simplified wording.",
    "condition": "Kind of image and kind of caption of the pair.",
    "verb": "The contextual verb.",
    "image": ITEM_COLUMNS["image"],
    "image_file": ITEM_COLUMNS["image_file"],
    "image_kind": "contextual if the image shows the action of the verb, plain if it does not.",
    "caption": "The text that goes with the image.",
    "caption_kind": "contextual if the caption names the action, plain if it does not.",
    "verb_span": "Characters of the caption's verb, from start to before end.",
    "match": "True if the caption is true of the image; false if it names an action that the image does not show.",
    "group": "The image with the action that the item is derived from; items of a group are not independent.",
}
"""Columns of CV-Probes, in their order."""

OMITTED_COLUMNS = ("kept", "rejected")
"""Columns of the benchmark layout that are not exported because they have the same value for every
item.
"""

CROISSANT_TYPES = {
    pa.string(): "sc:Text",
    pa.bool_(): "sc:Boolean",
    pa.int32(): "sc:Integer",
    pa.int64(): "sc:Integer",
    pa.float64(): "sc:Float",
}


def get_column_descriptions(layout: Layout) -> dict[str, str]:
    """Return the meanings of the columns of an exported layout (`BENCHMARK` or `CONDITIONS`), in
    their order.
    """
    return {BENCHMARK.name: ITEM_COLUMNS, CONDITIONS.name: PROBE_COLUMNS}[layout.name]


def build_export_schema(layout: Layout, embedded: bool) -> pa.Schema:
    """Return the Arrow schema of an exported layout, with the metadata that marks images for the
    `datasets` library.

    Args:
        layout: `BENCHMARK` or `CONDITIONS`.
        embedded: Whether the images are included; otherwise `image` is missing, and `image_file`
            names them.
    """
    # The layout has the name of the image; here `image` is the image, and `image_file` its name.
    types = {field.name: field.type for field in layout.schema} | {
        "image": IMAGE,
        "image_file": pa.string(),
    }
    names = list(get_column_descriptions(layout))
    if not embedded:
        names.remove("image")
    schema = pa.schema([pa.field(name, types[name]) for name in names])
    features = {field.name: _describe_feature(field.type) for field in schema}
    # As the `datasets` library writes it, which reads the types of columns from here.
    info = json.dumps({"info": {"features": features}}, separators=(",", ":"))
    return schema.with_metadata({"huggingface": info})


def get_croissant_type(arrow_type: pa.DataType) -> str:
    """Return Croissant's name of the type of a scalar column."""
    if arrow_type == IMAGE:
        return "sc:ImageObject"
    return CROISSANT_TYPES[arrow_type]


def _describe_feature(arrow_type: pa.DataType) -> JsonObject:
    """Return a column's type as the `datasets` library describes it."""
    if arrow_type == IMAGE:
        return {"_type": "Image"}
    if arrow_type == SPAN:
        return {field.name: _describe_feature(field.type) for field in arrow_type}
    if pa.types.is_list(arrow_type):
        return {
            "feature": _describe_feature(arrow_type.value_type),
            "length": -1,
            "_type": "Sequence",
        }
    # Arrow prints float64 as `double`.
    name = str(arrow_type).replace("double", "float64")
    return {"dtype": name, "_type": "Value"}


SHARD_BYTES = 500_000_000
"""Approximate bytes of images in one file, as in the hub's own tools."""
ROW_GROUP_SIZE = 100
"""Rows of a row group in files with images, so that a viewer reads few of them at once."""


@dataclass(frozen=True)
class DatasetPart:
    """Describe one configuration of the data set.

    Attributes:
        name: Name of an instrument or data set of the study.
        source: Name of the source in the study.
        form: `instrument` or `cv-probes` (built by waltz), `valse-release` or `pairs`.
        layout: Layout of the items, `BENCHMARK` or `CONDITIONS`.
        items: The items.
        images: Folder or archive of images to include; None to include only their names.
        no_images_reason: Reason why the images are not included; None if they are.
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
    """Describe a file of the data set.

    Attributes:
        path: Path in the data set's folder.
        sha256: Checksum.
        size: Size in bytes.
    """

    path: str
    sha256: str
    size: int


@dataclass(frozen=True)
class WrittenPart:
    """Hold a part and its written files.

    Attributes:
        part: The part.
        files: The files, in order.
        faults: Images that could not be opened, so that they are null.
    """

    part: DatasetPart
    files: tuple[DataFile, ...]
    faults: tuple[ImageFault, ...]

    @property
    def splits(self) -> dict[str, list[str]]:
        """Return the file patterns of each split: `test` has all items, `valid` the items not voted
        invalid.
        """
        # A file is named by its subset, its number and their number.
        patterns: dict[str, str] = {}
        for file in self.files:
            subset = PurePosixPath(file.path).name.partition("-")[0]
            patterns[subset] = f"{self.part.name}/{subset}-*.parquet"
        splits = {"test": list(patterns.values())}
        if "valid" in patterns:
            splits["valid"] = [patterns["valid"]]
        return splits


def read_part(
    name: str, source: str, form: str, file: str, entry: Entry, images: str | None
) -> DatasetPart:
    """Read a part of a study.

    Args:
        name: Name of the part.
        source: Name of the source.
        form: See `DatasetPart`.
        file: Parquet file of the items.
        entry: Entry of the source in the study, with its licenses.
        images: Folder or archive of the source's images if they may be passed on.
    """
    layout = BENCHMARK
    if form == "cv-probes":
        layout = CONDITIONS
    items = parquet.read(file, layout)
    return DatasetPart(
        name, source, form, layout, items, images, read_terms(entry).no_images_reason
    )


def write_part(
    part: DatasetPart, folder: Path, shard_bytes: int = SHARD_BYTES
) -> WrittenPart:
    """Write a part as Parquet files: `<part>/valid-00000-of-00001.parquet`, and `invalid-…` for
    items voted invalid.

    Items without votes are among the valid ones, as in the evaluation. Images are embedded byte for
    byte as in their source.

    Args:
        part: The part.
        folder: Folder of the data set.
        shard_bytes: Approximate bytes of images in one file.
    Raises:
        UserError: The part has no items.
    """
    if not part.items.num_rows:
        raise UserError(
            f"data set {part.name!r}: no items to export; remove it from the study"
        )
    if part.images is None:
        return WrittenPart(part, _write_subsets(part, folder, None, shard_bytes), ())
    names = part.items.column("image").to_pylist()
    with open_images(part.images) as source:
        faults = check_images(source, names)
        broken_images = {fault.image for fault in faults}
        paths = {}
        # Found once for each image, as items share images.
        for name in dict.fromkeys(names):
            if name not in broken_images:
                paths[name] = find_image_path(source, name)
        files = _write_subsets(part, folder, EmbeddedImages(source, paths), shard_bytes)
    return WrittenPart(part, files, tuple(faults))


@dataclass(frozen=True)
class EmbeddedImages:
    """Read the images that are embedded in a part's files.

    Attributes:
        source: The images.
        paths: Path in the source of each image that can be opened, by its name.
    """

    source: ImageSource
    paths: Mapping[str, str]

    def get_size(self, name: str) -> int:
        """Return the bytes of an image; 0 for an image that could not be opened."""
        if name not in self.paths:
            return 0
        return self.source.size(self.paths[name])

    def read_images(self, names: Sequence[str]) -> pa.Array:
        """Return images as the `datasets` library stores them; null for an image that could not be
        opened.
        """
        images = {}
        # Each image is read once for the rows of a group.
        for name in set(names) & set(self.paths):
            path = self.paths[name]
            images[name] = {"bytes": self.source.read(path), "path": Path(path).name}
        return pa.array([images.get(name) for name in names], type=IMAGE)


def _write_subsets(
    part: DatasetPart, folder: Path, images: EmbeddedImages | None, shard_bytes: int
) -> tuple[DataFile, ...]:
    """Write the files of each subset, and return them in order."""
    files = []
    for subset, items in _split_by_votes(part.items).items():
        # Without images, all items fit one file.
        sizes = [0] * items.num_rows
        if images is not None:
            sizes = [
                images.get_size(name) for name in items.column("image").to_pylist()
            ]
        shards = list(_split_shards(sizes, shard_bytes))
        for index, (start, end) in enumerate(shards):
            path = f"{part.name}/{subset}-{index:05d}-of-{len(shards):05d}.parquet"
            _write_file(folder / path, part, items.slice(start, end - start), images)
            files.append(describe_file(folder, path))
    return tuple(files)


def describe_file(folder: Path, path: str) -> DataFile:
    """Return path, checksum and size of a file in the data set's folder."""
    return DataFile(path, compute_sha256(folder / path), (folder / path).stat().st_size)


def _write_file(
    path: Path, part: DatasetPart, items: pa.Table, images: EmbeddedImages | None
) -> None:
    schema = build_export_schema(part.layout, images is not None)
    # Small row groups only if there are images to read.
    group_size = ROW_GROUP_SIZE
    if images is None:
        group_size = max(items.num_rows, 1)
    with (
        replace_file(path) as temporary,
        pq.ParquetWriter(temporary, schema, **parquet.STORAGE) as writer,
    ):
        for start in range(0, items.num_rows, group_size):
            rows = items.slice(start, group_size)
            names = rows.column("image")
            # `image_file` keeps the name when `image` becomes the bytes.
            columns = {name: rows.column(name) for name in rows.schema.names} | {
                "image_file": names
            }
            if images is not None:
                columns["image"] = images.read_images(names.to_pylist())
            writer.write_table(
                pa.table([columns[name] for name in schema.names], schema=schema)
            )


def _split_by_votes(items: pa.Table) -> dict[str, pa.Table]:
    """Return the items of each subset that has any; items without votes, and all items of
    CV-Probes, are `valid`.
    """
    if "valid" not in items.schema.names:
        return {"valid": items}
    # Null means that nobody voted.
    is_valid = pc.fill_null(items.column("valid"), True)
    subsets = {
        "valid": items.filter(is_valid),
        "invalid": items.filter(pc.invert(is_valid)),
    }
    return {subset: rows for subset, rows in subsets.items() if rows.num_rows}


def _split_shards(sizes: Sequence[int], max_size: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows whose sizes add up to at most `max_size`; each range has at least one
    row.
    """
    start, total = 0, 0
    for row, size in enumerate(sizes):
        # A single row that is too large has its own range.
        if row > start and total + size > max_size:
            yield start, row
            start, total = row, 0
        total += size
    yield start, len(sizes)
