"""Parts of an exported benchmark: their columns and types, and the Parquet files of their items and images."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.atomic import replace_file
from waltz.core.files.downloads import compute_sha256
from waltz.core.schema import BENCHMARK, CONDITIONS, SPAN, Layout
from waltz.export.facts import read_terms
from waltz.sources.images import ImageFault, ImageSource, check_images, find_image_path, open_images

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
    "proposal_rank": "Rank of the foil among the proposals of a language model, from 0; null where no model was used.",
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
"""Columns of the benchmark layout that are not exported because they have the same value for every item."""

SUBSETS = ("valid", "invalid")
"""Subsets of a part's items that have files of their own."""

CROISSANT_TYPES = {
    pa.string(): "sc:Text",
    pa.bool_(): "sc:Boolean",
    pa.int32(): "sc:Integer",
    pa.int64(): "sc:Integer",
    pa.float64(): "sc:Float",
}


def get_column_descriptions(layout: Layout) -> dict[str, str]:
    """Return the meanings of the columns of an exported layout (`BENCHMARK` or `CONDITIONS`), in their order."""
    return {BENCHMARK.name: ITEM_COLUMNS, CONDITIONS.name: PROBE_COLUMNS}[layout.name]


def build_export_schema(layout: Layout, embedded: bool) -> pa.Schema:
    """Return the Arrow schema of an exported layout, with the metadata that marks images for the `datasets` library.

    Args:
        layout: `BENCHMARK` or `CONDITIONS`.
        embedded: Whether the images are included; otherwise `image` is missing, and `image_file` names them.
    """
    kinds = {field.name: field.type for field in layout.schema} | {"image": IMAGE, "image_file": pa.string()}
    names = [name for name in get_column_descriptions(layout) if embedded or name != "image"]
    schema = pa.schema([pa.field(name, kinds[name]) for name in names])
    features = {field.name: _describe_feature(field.type) for field in schema}
    info = json.dumps({"info": {"features": features}}, separators=(",", ":"))
    return schema.with_metadata({"huggingface": info})


def get_croissant_type(kind: pa.DataType) -> str:
    """Return Croissant's name of the type of a scalar column."""
    return "sc:ImageObject" if kind == IMAGE else CROISSANT_TYPES[kind]


def _describe_feature(kind: pa.DataType) -> dict[str, Any]:
    """Return a column's type as the `datasets` library describes it."""
    if kind == IMAGE:
        return {"_type": "Image"}
    if kind == SPAN:
        return {field.name: _describe_feature(field.type) for field in kind}
    if pa.types.is_list(kind):
        return {"feature": _describe_feature(kind.value_type), "length": -1, "_type": "Sequence"}
    return {"dtype": {pa.float64(): "float64"}.get(kind, str(kind)), "_type": "Value"}


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

    @property
    def splits(self) -> dict[str, list[str]]:
        """Patterns of the files of each split: `test` has all items, `valid` those that were not voted invalid."""
        present = {file.path.rpartition("/")[2].partition("-")[0] for file in self.files}
        patterns = {subset: f"{self.part.name}/{subset}-*.parquet" for subset in SUBSETS if subset in present}
        valid = {"valid": [patterns["valid"]]} if "valid" in patterns else {}
        return {"test": list(patterns.values()), **valid}


def read_part(name: str, source: str, form: str, file: str, entry: Mapping[str, Any], images: str | None) -> Part:
    """Read a part of a study.

    Args:
        file: Parquet file of its items.
        entry: Entry of the source in the study, with its licences.
        images: Folder or archive of the source's images, where they may be passed on.
    """
    layout = CONDITIONS if form == "cv-probes" else BENCHMARK
    return Part(name, source, form, layout, parquet.read(file, layout), images, read_terms(entry).no_images_reason)


def write_part(part: Part, folder: Path, shard_bytes: int = SHARD_BYTES) -> WrittenPart:
    """Write a part as Parquet files: `<part>/valid-00000-of-00001.parquet`, and `invalid-…` for items voted invalid.

    Items without votes are among the valid ones, as in the evaluation. Images are embedded byte for byte as in their
    source.

    Args:
        shard_bytes: Approximate bytes of images in one file.
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
        files = []
        for subset, items in _split_by_votes(part.items).items():
            item_sizes = [sizes.get(name, 0) for name in items.column("image").to_pylist()]
            shards = list(_split_shards(item_sizes, shard_bytes))
            for index, (start, end) in enumerate(shards):
                path = f"{part.name}/{subset}-{index:05d}-of-{len(shards):05d}.parquet"
                _write_file(folder / path, part, items.slice(start, end - start), source, paths)
                files.append(describe_file(folder, path))
    return WrittenPart(part, tuple(files), tuple(faults))


def describe_file(folder: Path, path: str) -> DataFile:
    """Return path, checksum and size of a file in the data set's folder."""
    return DataFile(path, compute_sha256(folder / path), (folder / path).stat().st_size)


def _write_file(path: Path, part: Part, items: pa.Table, source: ImageSource | None, paths: Mapping[str, str]) -> None:
    schema = build_export_schema(part.layout, source is not None)
    size = ROW_GROUP_SIZE if source else max(items.num_rows, 1)
    with replace_file(path) as temporary, pq.ParquetWriter(temporary, schema, **parquet.STORAGE) as writer:
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


def _split_by_votes(items: pa.Table) -> dict[str, pa.Table]:
    """Return the items of each subset that has any; those without votes, and all of CV-Probes, are `valid`."""
    if "valid" not in items.schema.names:
        return {"valid": items}
    is_valid = pc.fill_null(items.column("valid"), True)
    subsets = zip(SUBSETS, (items.filter(is_valid), items.filter(pc.invert(is_valid))), strict=True)
    return {subset: rows for subset, rows in subsets if rows.num_rows}


def _split_shards(sizes: Sequence[int], max_size: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows whose sizes add up to at most `max_size`, with at least one row each."""
    start, total = 0, 0
    for row, size in enumerate(sizes):
        if row > start and total + size > max_size:
            yield start, row
            start, total = row, 0
        total += size
    yield start, len(sizes)
