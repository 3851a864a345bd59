"""COCO captions: `images` of id and file_name, `annotations` of id, image_id and caption."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.sources.fields import check_unique, join_lines, read_field, read_identifier
from waltz.sources.raw_files import read_list_entries


def read_captions(path: str | Path, source: str, split: str | None) -> Iterator[dict[str, Any]]:
    """Yield captions in file order, each on one line.

    Args:
        path: A COCO captions file (captions_val2017.json and its like).
        source: Name of the source.
        split: Name of the split.
    Yields:
        Rows of the layout `CAPTIONS`; an empty caption is rejected.
    Raises:
        UserError: Truncated or malformed JSON, a missing or mistyped field, a repeated id, an image id without image.
    """
    names = read_image_names(path)
    seen_ids: set[str] = set()
    for number, annotation in enumerate(read_list_entries(path, "annotations", dict)):
        caption_id = read_identifier(annotation, "id", f"{path}: annotation {number}")
        where = f"{path}: annotation {caption_id}"
        check_unique(seen_ids, caption_id, where)
        image_id = read_identifier(annotation, "image_id", where)
        if image_id not in names:
            raise UserError(f"{where}: image_id {image_id} is not among the file's images")
        caption = join_lines(read_field(annotation, "caption", str, where))
        yield {
            "source": source,
            "source_id": caption_id,
            "split": split,
            "image": names[image_id],
            "caption": caption,
            "rejected": None if caption else "the caption is empty",
        }


def read_image_names(path: str | Path) -> dict[str, str]:
    """Return the file name of each image id of a COCO file.

    Raises:
        UserError: Truncated or malformed JSON, a missing or mistyped field, a repeated id.
    """
    names: dict[str, str] = {}
    for number, image in enumerate(read_list_entries(path, "images", dict)):
        image_id = read_identifier(image, "id", f"{path}: image {number}")
        if image_id in names:
            raise UserError(f"{path}: image {image_id}: duplicate id in the file")
        names[image_id] = read_field(image, "file_name", str, f"{path}: image {image_id}")
    return names
