"""COCO captions, and FOIL-it: COCO captions in which one noun was replaced.

An annotation of FOIL-it is a foil or a correct caption. `id` is the COCO caption that a foil was derived from,
`foil_id` names the foil. The released benchmark restored the correct caption by replacing the foil word, also inside
other words (which gave "basebat bat"); here it is looked up among the COCO captions.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.sources.raw_files import check_unique, join_lines, read_field, read_identifier, read_list_entries


def read_captions(path: str | Path, source: str, split: str | None) -> Iterator[dict[str, Any]]:
    """Yield the captions of a captions_val2017.json or its like, as rows of the layout `CAPTIONS`.

    Each caption is on one line; an empty one is rejected.
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
    """Return the file name of each image id of a COCO file."""
    names: dict[str, str] = {}
    for number, image in enumerate(read_list_entries(path, "images", dict)):
        image_id = read_identifier(image, "id", f"{path}: image {number}")
        if image_id in names:
            raise UserError(f"{path}: image {image_id}: duplicate id in the file")
        names[image_id] = read_field(image, "file_name", str, f"{path}: image {image_id}")
    return names


def read_foil_it(
    path: str | Path, captions: Sequence[str | Path], source: str, split: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the annotations of a foilv1.0_{train,test}_2017.json, as rows of the layout `FOIL_PAIRS`.

    `source_id` is the `foil_id` of a foil; for a correct caption it is `annotation-` and the position in the file.
    Correct captions (they are no pairs), foils whose caption is not in the captions files or belongs to another image,
    and foils that are empty or equal their caption are rejected.

    Args:
        captions: COCO captions files that hold the correct captions (train2014 for train, val2014 for test).
    """
    images = {image_id: name for file in captions for image_id, name in read_image_names(file).items()}
    correct = {
        row["source_id"]: (row["caption"], row["image"])
        for file in captions
        for row in read_captions(file, source, split)
    }
    seen_ids: set[str] = set()
    for number, annotation in enumerate(read_list_entries(path, "annotations", dict)):
        is_foil = read_field(annotation, "foil", bool, f"{path}: annotation {number}")
        if is_foil:
            source_id = read_identifier(annotation, "foil_id", f"{path}: annotation {number}")
            check_unique(seen_ids, source_id, f"{path}: foil {source_id}")
        else:
            source_id = f"annotation-{number}"
        where = f"{path}: {'foil ' if is_foil else ''}{source_id}"
        image_id = read_identifier(annotation, "image_id", where)
        if image_id not in images:
            raise UserError(f"{where}: image_id {image_id} is not among the images of {', '.join(map(str, captions))}")
        row = _build_foil_it_row(annotation, images[image_id], correct, where)
        yield {"source": source, "source_id": source_id, "split": split} | row


def _build_foil_it_row(
    annotation: Mapping[str, Any], image: str, correct: Mapping[str, tuple[str, str]], where: str
) -> dict[str, Any]:
    caption_id = read_identifier(annotation, "id", where)
    foil = join_lines(read_field(annotation, "caption", str, where))
    caption, caption_image = correct.get(caption_id, (None, None))
    if not annotation["foil"]:
        reason: str | None = "a correct caption, no foil"
    elif caption is None:
        reason = f"its caption {caption_id} is not in the captions files"
    elif caption_image != image:
        reason = f"its caption {caption_id} is of another image"
    elif not foil or foil == caption:
        reason = "the foil equals its caption" if foil else "the foil is empty"
    else:
        reason = None
    return {
        "image": image,
        "caption_id": caption_id,
        "caption": caption,
        "foil": foil,
        "target_word": read_field(annotation, "target_word", str, where),
        "foil_word": read_field(annotation, "foil_word", str, where),
        "rejected": reason,
    }
