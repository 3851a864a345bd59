"""COCO captions, and FOIL-it: COCO captions in which one noun was replaced.

An annotation of FOIL-it is a foil or a correct caption. Its `id` names the COCO caption from which
a foil was derived, and `foil_id` names the foil. The released benchmark restored the correct
caption by replacing the foil word, even inside other words (which gave "basebat bat"); here the
correct caption is looked up among the COCO captions.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from waltz.core.errors import UserError
from waltz.sources.raw_entry import RawEntry
from waltz.sources.raw_files import (
    check_unique,
    find_empty,
    join_lines,
    read_identified_objects,
    read_objects,
)
from waltz.sources.records import CaptionRecord, FoilPairRecord

OTHER_KINDS = ("bbox", "segmentation", "keypoints", "category_id")
"""Fields by which annotations of other kinds are known, which merged files have next to captions."""


def read_captions(
    path: str | Path, source: str, split: str | None
) -> Iterator[CaptionRecord]:
    """Yield the captions of a COCO file, such as captions_val2017.json, or of Karpathy's
    dataset_coco.json.

    Each caption is put on one line. An empty caption, null and an annotation of another kind, such
    as a box, are rejected. Karpathy's file names the split of each image itself.
    """
    if _has_sentences(path):
        yield from _read_sentences(path, source, split)
        return
    names = read_image_names(path)
    for caption_id, annotation in read_identified_objects(
        path, "annotations", "annotation", "id"
    ):
        image_id = annotation.read_identifier("image_id")
        if image_id not in names:
            raise UserError(
                f"{annotation.location}: image_id {image_id} is not among the file's images"
            )
        caption = _read_caption(annotation)
        yield CaptionRecord(
            source=source,
            source_id=caption_id,
            split=split,
            image=names[image_id],
            caption=caption or "",
            rejected=_find_missing(annotation) or find_empty(caption=caption),
        )


def _read_caption(annotation: RawEntry) -> str | None:
    """Return the caption of an annotation on one line; None where it has none."""
    if _find_missing(annotation):
        return None
    return join_lines(annotation.read("caption", str))


def _find_missing(annotation: RawEntry) -> str | None:
    """Return why an annotation has no caption: it is null, or the annotation is of another kind."""
    if "caption" not in annotation.fields:
        for kind in OTHER_KINDS:
            if kind in annotation.fields:
                return f"an annotation without caption ({kind})"
    elif annotation.fields["caption"] is None:
        return "the caption is null"
    elif annotation.fields.get("foil") is True:
        return "a foil of FOIL-COCO, no caption"
    return None


def is_coco(path: str | Path) -> bool:
    """Return whether a JSON file lists images, as files of COCO and Karpathy's do."""
    try:
        return next(read_objects(path, "images", "image"), None) is not None
    except UserError:
        return False


def _has_sentences(path: str | Path) -> bool:
    """Return whether a file is Karpathy's, in which the captions stand with their images."""
    first = next(read_objects(path, "images", "image"), None)
    return first is not None and "sentences" in first.fields


def _read_sentences(
    path: str | Path, source: str, split: str | None
) -> Iterator[CaptionRecord]:
    """Yield the captions of Karpathy's file; ids are those of the sentences."""
    seen_ids: set[str] = set()
    for image in read_objects(path, "images", "image"):
        for sentence in image.read_objects("sentences", "sentence"):
            source_id = sentence.read_identifier("sentid")
            check_unique(seen_ids, source_id, f"{path}: sentence {source_id}")
            caption = join_lines(sentence.read("raw", str))
            yield CaptionRecord(
                source=source,
                source_id=source_id,
                split=image.read_optional("split", str) or split,
                image=image.read("filename", str),
                caption=caption,
                rejected=find_empty(caption=caption),
            )


def read_image_names(path: str | Path) -> dict[str, str]:
    """Return the file names of the images of a COCO file, by image id."""
    images = read_identified_objects(path, "images", "image", "id")
    return {image_id: image.read("file_name", str) for image_id, image in images}


def read_foil_it(
    path: str | Path, captions: Sequence[str | Path], source: str, split: str | None
) -> Iterator[FoilPairRecord]:
    """Yield the annotations of a foilv1.0_{train,test}_2017.json.

    `source_id` is the `foil_id` of a foil; for a correct caption it is `annotation-` and the
    position in the file. Rejected are correct captions (they give no pair), foils whose caption is
    not in the captions files or belongs to another image, and foils that are empty or equal their
    caption.

    Args:
        captions: COCO captions files that hold the correct captions (train2014 for train, val2014
            for test).
    """
    images: dict[str, str] = {}
    # All captions are in memory, by their id.
    correct: dict[str, CaptionRecord] = {}
    for file in captions:
        images |= read_image_names(file)
        for caption in read_captions(file, source, split):
            correct[caption.source_id] = caption

    seen_ids: set[str] = set()
    for number, annotation in enumerate(
        read_objects(path, "annotations", "annotation")
    ):
        # Only foils have a `foil_id`; a correct caption is named by its position.
        source_id = f"annotation-{number}"
        location = f"{path}: {source_id}"
        if annotation.read("foil", bool):
            source_id = annotation.read_identifier("foil_id")
            location = f"{path}: foil {source_id}"
            check_unique(seen_ids, source_id, location)

        annotation = annotation.at(location)
        image_id = annotation.read_identifier("image_id")
        if image_id not in images:
            raise UserError(
                f"{location}: image_id {image_id} is not among the images of {', '.join(map(str, captions))}"
            )
        caption_id = annotation.read_identifier("id")
        foil = join_lines(annotation.read("caption", str))
        correct_caption = correct.get(caption_id)
        yield FoilPairRecord(
            source=source,
            source_id=source_id,
            split=split,
            image=images[image_id],
            caption_id=caption_id,
            caption=correct_caption.caption if correct_caption else None,
            foil=foil,
            target_word=annotation.read("target_word", str),
            foil_word=annotation.read("foil_word", str),
            rejected=_find_fault(annotation, foil, correct_caption, images[image_id]),
        )


def _find_fault(
    annotation: RawEntry, foil: str, correct: CaptionRecord | None, image: str
) -> str | None:
    """Return the reason why an annotation of FOIL-it gives no pair; None where it gives one."""
    caption_id = annotation.read_identifier("id")
    if not annotation.read("foil", bool):
        return "a correct caption, no foil"
    if correct is None:
        return f"its caption {caption_id} is not in the captions files"
    if correct.image != image:
        return f"its caption {caption_id} is of another image"
    if not foil:
        return "the foil is empty"
    if foil == correct.caption:
        return "the foil equals its caption"
    return None
