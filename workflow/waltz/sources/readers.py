"""Registry of raw formats: the reader of each format, its layout and the files that it needs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from waltz.core.errors import UserError
from waltz.core.schema import Layout
from waltz.sources.formats import bbh, coco, comve, esnli, foilit, gqa, swig, visdial, visual7w, vqa
from waltz.sources.layouts import CAPTIONS, FOIL_PAIRS, FRAMES, QUESTIONS, TEXTS, TURNS

Rows = Iterator[dict[str, Any]]
Files = Mapping[str, str]
"""Path of each file, by its name in the study."""

COCO_PREFIX = "coco-"
"""Files whose names start with this are COCO captions next to the source's own files: captions or image names."""


@dataclass(frozen=True)
class Format:
    """A raw format.

    Attributes:
        layout: Layout of its rows.
        read: Reads the rows from files and the name of the source.
        needs: Names that its files must have; every other file is a split of that name.
        splits: Whether there are such other files; at least one then.
    """

    layout: Layout
    read: Callable[[Files, str], Rows]
    needs: tuple[str, ...] = ()
    splits: bool = True


def read_source(form: str, files: Files, source: str) -> tuple[Rows, Layout]:
    """Return an iterator over the rows of one source, and their layout.

    Raises:
        UserError: A file that the format needs is missing, or there are no files, or too many.
    """
    raw_format = FORMATS[form]
    where = f"study file: sources.{source}.files"
    missing = [name for name in raw_format.needs if name not in files]
    if missing:
        raise UserError(f"{where}: the format {form} needs {', '.join(missing)}")
    splits = _select_splits(files, raw_format.needs)
    if raw_format.splits and not splits:
        raise UserError(f"{where}: the format {form} needs a file for each split; name it by the split")
    if not raw_format.splits and splits:
        raise UserError(
            f"{where}: the format {form} has no file {', '.join(splits)}; name only {', '.join(raw_format.needs)}"
        )
    return raw_format.read(files, source), raw_format.layout


def _select_splits(files: Files, needs: tuple[str, ...] = ()) -> dict[str, str]:
    return {name: path for name, path in files.items() if name not in needs and not name.startswith(COCO_PREFIX)}


def _read_captions(files: Files, source: str) -> Rows:
    return chain.from_iterable(coco.read_captions(path, source, split) for split, path in _select_splits(files).items())


def _read_frames(files: Files, source: str) -> Rows:
    space = swig.read_situation_space(files["space"])
    splits = _select_splits(files, ("space",)).items()
    return chain.from_iterable(swig.read_frames(path, space, source, split) for split, path in splits)


def _read_turns(files: Files, source: str) -> Rows:
    names: dict[str, str] = {}
    for name, path in files.items():
        if name.startswith(COCO_PREFIX):
            names |= coco.read_image_names(path)
    return chain.from_iterable(
        visdial.read_turns(path, source, names if names and split == "train" else visdial.IMAGE_NAMES)
        for split, path in _select_splits(files).items()
    )


def _read_foil_pairs(files: Files, source: str) -> Rows:
    captions = [path for name, path in files.items() if name.startswith(COCO_PREFIX)]
    splits = _select_splits(files).items()
    return chain.from_iterable(foilit.read_pairs(path, captions, source, split) for split, path in splits)


def _read_gqa(files: Files, source: str) -> Rows:
    return chain.from_iterable(
        (gqa.read_lines if path.endswith(".jsonl") else gqa.read_questions)(path, source, split)
        for split, path in _select_splits(files).items()
    )


def _read_single_file(read: Callable[[str, str, str], Rows]) -> Callable[[Files, str], Rows]:
    """Return a reader of exactly one file.

    Ids of these formats are positions in the file, so that two files of one source would share ids.
    """

    def read_rows(files: Files, source: str) -> Rows:
        if len(files) != 1:
            raise UserError(
                f"study file: sources.{source}.files: too many files (got {len(files)}, expected 1);"
                " make another source of each further file"
            )
        ((name, path),) = files.items()
        return read(path, name, source)

    return read_rows


FORMATS = {
    "coco-captions": Format(CAPTIONS, _read_captions),
    "visual7w": Format(
        QUESTIONS, lambda files, source: visual7w.read_questions(files["telling"], source), ("telling",), splits=False
    ),
    "swig": Format(FRAMES, _read_frames, ("space",)),
    "imsitu": Format(FRAMES, _read_frames, ("space",)),
    "visdial": Format(TURNS, _read_turns),
    "foil-it": Format(FOIL_PAIRS, _read_foil_pairs),
    "vqa": Format(
        QUESTIONS,
        lambda files, source: vqa.read_questions(files["questions"], files["annotations"], source),
        ("questions", "annotations"),
        splits=False,
    ),
    "gqa": Format(QUESTIONS, _read_gqa),
    "e-snli": Format(TEXTS, _read_single_file(lambda path, split, source: esnli.read_pairs(path, source, split))),
    "e-snli-lines": Format(
        TEXTS,
        lambda files, source: esnli.read_lines(files["premises"], files["hypotheses"], files["labels"], source, "test"),
        ("premises", "hypotheses", "labels"),
        splits=False,
    ),
    "comve": Format(
        TEXTS,
        lambda files, source: comve.read_pairs(files["sentences"], files["answers"], source, "test"),
        ("sentences", "answers"),
        splits=False,
    ),
    "bbh": Format(TEXTS, _read_single_file(lambda path, task, source: bbh.read_data(path, task, source, "val"))),
    "bbh-examples": Format(
        TEXTS, _read_single_file(lambda path, task, source: bbh.read_examples(path, task, source, "test"))
    ),
}
"""Raw formats by the name that a study gives them."""
