"""COCO captions, and FOIL-it: COCO captions in which one noun was replaced.

An annotation of FOIL-it is a foil or a correct caption. Its `id` names the COCO caption from which
a foil was derived, and `foil_id` names the foil. The released benchmark restored the correct
caption by replacing the foil word, even inside other words (which gave "basebat bat"); here the
correct caption is looked up among the COCO captions.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.sources.raw_files import (
    check_unique,
    join_lines,
    read_field,
    read_identifier,
    read_list_entries,
)


def read_captions(
    path: str | Path, source: str, split: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the captions of a COCO file, such as captions_val2017.json, as rows of the layout
    `CAPTIONS`.

    Each caption is put on one line; an empty caption is rejected.
    """
    names = read_image_names(path)
    seen_ids: set[str] = set()
    for number, annotation in enumerate(read_list_entries(path, "annotations", dict)):
        caption_id = read_identifier(annotation, "id", f"{path}: annotation {number}")
        location = f"{path}: annotation {caption_id}"
        check_unique(seen_ids, caption_id, location)
        image_id = read_identifier(annotation, "image_id", location)
        if image_id not in names:
            raise UserError(
                f"{location}: image_id {image_id} is not among the file's images"
            )
        caption = join_lines(read_field(annotation, "caption", str, location))
        yield {
            "source": source,
            "source_id": caption_id,
            "split": split,
            "image": names[image_id],
            "caption": caption,
            "rejected": None if caption else "the caption is empty",
        }


def read_image_names(path: str | Path) -> dict[str, str]:
    """Return the file names of the images of a COCO file, by image id."""
    names: dict[str, str] = {}
    for number, image in enumerate(read_list_entries(path, "images", dict)):
        image_id = read_identifier(image, "id", f"{path}: image {number}")
        if image_id in names:
            raise UserError(f"{path}: image {image_id}: duplicate id in the file")
        names[image_id] = read_field(
            image, "file_name", str, f"{path}: image {image_id}"
        )
    return names


def read_foil_it(
    path: str | Path, captions: Sequence[str | Path], source: str, split: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the annotations of a foilv1.0_{train,test}_2017.json, as rows of the layout
    `FOIL_PAIRS`.

    `source_id` is the `foil_id` of a foil; for a correct caption it is `annotation-` and the
    position in the file. Rejected are correct captions (they give no pair), foils whose caption is
    not in the captions files or belongs to another image, and foils that are empty or equal their
    caption.

    Args:
        captions: COCO captions files that hold the correct captions (train2014 for train, val2014
            for test).
    """
    images = {
        image_id: name
        for file in captions
        for image_id, name in read_image_names(file).items()
    }
    # Caption and image of each caption id; all captions are in memory.
    correct = {
        row["source_id"]: (row["caption"], row["image"])
        for file in captions
        for row in read_captions(file, source, split)
    }
    seen_ids: set[str] = set()
    for number, annotation in enumerate(read_list_entries(path, "annotations", dict)):
        # Only foils have a `foil_id`; a correct caption is named by its position.
        is_foil = read_field(annotation, "foil", bool, f"{path}: annotation {number}")
        if is_foil:
            source_id = read_identifier(
                annotation, "foil_id", f"{path}: annotation {number}"
            )
            check_unique(seen_ids, source_id, f"{path}: foil {source_id}")
        else:
            source_id = f"annotation-{number}"
        location = f"{path}: {'foil ' if is_foil else ''}{source_id}"
        image_id = read_identifier(annotation, "image_id", location)
        if image_id not in images:
            raise UserError(
                f"{location}: image_id {image_id} is not among the images of {', '.join(map(str, captions))}"
            )
        row = _build_foil_it_row(annotation, images[image_id], correct, location)
        yield {"source": source, "source_id": source_id, "split": split} | row


def _build_foil_it_row(
    annotation: Mapping[str, Any],
    image: str,
    correct: Mapping[str, tuple[str, str]],
    location: str,
) -> dict[str, Any]:
    caption_id = read_identifier(annotation, "id", location)
    foil = join_lines(read_field(annotation, "caption", str, location))
    caption, caption_image = correct.get(caption_id, (None, None))
    reason: str | None = None
    # The first reason that applies is recorded.
    if not annotation["foil"]:
        reason = "a correct caption, no foil"
    elif caption is None:
        reason = f"its caption {caption_id} is not in the captions files"
    elif caption_image != image:
        reason = f"its caption {caption_id} is of another image"
    elif not foil:
        reason = "the foil is empty"
    elif foil == caption:
        reason = "the foil equals its caption"
    return {
        "image": image,
        "caption_id": caption_id,
        "caption": caption,
        "foil": foil,
        "target_word": read_field(annotation, "target_word", str, location),
        "foil_word": read_field(annotation, "foil_word", str, location),
        "rejected": reason,
    }
