"""Each raw format with its reader, its layout and the files that it needs."""

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
    """Rows of one source, as they are read, and their layout.

    Raises:
        UserError: A file that the format needs is not named, or none, or one too many.
    """
    chosen = FORMATS[form]
    place = f"study file: sources.{source}.files"
    missing = [name for name in chosen.needs if name not in files]
    if missing:
        raise UserError(f"{place}: the format {form} needs {', '.join(missing)}")
    splits = _splits(files, chosen.needs)
    if chosen.splits and not splits:
        raise UserError(f"{place}: the format {form} needs a file for each split, by the split's name")
    if not chosen.splits and splits:
        raise UserError(
            f"{place}: the format {form} knows no file {', '.join(splits)}; it has {', '.join(chosen.needs)}"
        )
    return chosen.read(files, source), chosen.layout


def _splits(files: Files, needs: tuple[str, ...]) -> dict[str, str]:
    return {name: path for name, path in files.items() if name not in needs and not name.startswith(COCO_PREFIX)}


COCO_PREFIX = "coco-"
"""A file whose name begins so is COCO captions, beside the source's own: correct captions, or names of images."""


def _captions(files: Files, source: str) -> Rows:
    return chain.from_iterable(coco.read_captions(path, source, split) for split, path in _splits(files, ()).items())


def _frames(files: Files, source: str) -> Rows:
    space = swig.read_situation_space(files["space"])
    splits = _splits(files, ("space",)).items()
    return chain.from_iterable(swig.read_frames(path, space, source, split) for split, path in splits)


def _turns(files: Files, source: str) -> Rows:
    names: dict[str, str] = {}
    for name, path in files.items():
        if name.startswith(COCO_PREFIX):
            names |= coco.read_image_names(path)
    return chain.from_iterable(
        visdial.read_turns(path, source, names if names and split == "train" else visdial.IMAGE_NAMES)
        for split, path in _splits(files, ()).items()
    )


def _foil_pairs(files: Files, source: str) -> Rows:
    captions = [path for name, path in files.items() if name.startswith(COCO_PREFIX)]
    splits = _splits(files, ()).items()
    return chain.from_iterable(foilit.read_pairs(path, captions, source, split) for split, path in splits)


def _gqa(files: Files, source: str) -> Rows:
    return chain.from_iterable(
        (gqa.read_lines if path.endswith(".jsonl") else gqa.read_questions)(path, source, split)
        for split, path in _splits(files, ()).items()
    )


def _single(read: Callable[[str, str, str], Rows]) -> Callable[[Files, str], Rows]:
    """Formats whose ids are places in the file, so that two files of one source would share them."""

    def rows(files: Files, source: str) -> Rows:
        if len(files) != 1:
            raise UserError(f"study file: sources.{source}.files: one file a source; make another source of the rest")
        ((name, path),) = files.items()
        return read(path, name, source)

    return rows


FORMATS = {
    "coco-captions": Format(CAPTIONS, _captions),
    "visual7w": Format(
        QUESTIONS, lambda files, source: visual7w.read_questions(files["telling"], source), ("telling",), splits=False
    ),
    "swig": Format(FRAMES, _frames, ("space",)),
    "imsitu": Format(FRAMES, _frames, ("space",)),
    "visdial": Format(TURNS, _turns),
    "foil-it": Format(FOIL_PAIRS, _foil_pairs),
    "vqa": Format(
        QUESTIONS,
        lambda files, source: vqa.read_questions(files["questions"], files["annotations"], source),
        ("questions", "annotations"),
        splits=False,
    ),
    "gqa": Format(QUESTIONS, _gqa),
    "e-snli": Format(TEXTS, _single(lambda path, split, source: esnli.read_pairs(path, source, split))),
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
    "bbh": Format(TEXTS, _single(lambda path, task, source: bbh.read_data(path, task, source, "val"))),
    "bbh-examples": Format(TEXTS, _single(lambda path, task, source: bbh.read_examples(path, task, source, "test"))),
}
"""Raw formats by the name that a study gives them."""
