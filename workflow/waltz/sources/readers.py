"""Raw formats: for each format the layout of its rows, its reader, and the files that it needs.

`source_id` names a row within its source. `split` is null where neither the format nor the caller
names a split. `rejected` is null, or the reason why the row cannot be used; a rejected row may lack
its content.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from waltz.core.errors import UserError
from waltz.core.layout import Layout
from waltz.core.schema import build_nullable, build_required
from waltz.sources.formats import (
    cc_shap_results,
    coco,
    harness_samples,
    questions,
    recorded_runs,
    swig,
    text_tasks,
)
from waltz.sources.raw_files import find_half_pair


def _build_layout(name: str, columns: list[pa.Field], image: bool = True) -> Layout:
    """Return a layout of the columns that all formats share, with further columns.

    Args:
        image: True where every row must have an image.
    """
    common = [
        *build_required(pa.string(), "source", "source_id"),
        *build_nullable(pa.string(), "split"),
        pa.field("image", pa.string(), nullable=not image),
    ]
    return Layout(
        name,
        pa.schema([*common, *columns, pa.field("rejected", pa.string())]),
        key=("source_id",),
    )


CAPTIONS = _build_layout("captions", build_required(pa.string(), "caption"))
"""One row for each caption, on one line."""

QUESTIONS = _build_layout(
    "questions",
    [
        *build_required(pa.string(), "question"),
        *build_nullable(pa.string(), "answer"),
        *build_required(pa.list_(pa.string()), "answers", "choices"),
        *build_nullable(pa.string(), "type", "answer_type", "full_answer"),
        *build_nullable(pa.bool_(), "balanced"),
    ],
)
"""One row for each question about an image.

`answer` is the right answer, `answers` are the answers of all annotators (VQA), `choices` the wrong
answers that Visual7W offers, and `full_answer` is a sentence. `balanced` is true where a question
is in the balanced set (GQA).
"""

FILLER = pa.struct(
    [
        *build_required(pa.string(), "role"),
        *build_nullable(pa.string(), "noun", "gloss"),
        *build_nullable(pa.list_(pa.float64()), "box"),
    ]
)
"""Filler of a role: WordNet synset, first gloss of the synset, and box (left, top, right, bottom)
in pixels.
"""

FRAMES = _build_layout(
    "frames",
    [
        *build_required(pa.string(), "verb"),
        *build_required(pa.int32(), "annotator"),
        *build_nullable(pa.string(), "abstract"),
        *build_required(pa.list_(FILLER), "roles"),
        *build_nullable(pa.int32(), "width", "height"),
    ],
)
"""One row for each annotator of an image. `roles` are in the verb's order; an empty role has a null
`noun`. `abstract` is the verb's sentence with its roles in capitals; width and height are pixels.
"""

TURN = pa.struct(build_required(pa.string(), "question", "answer"))
"""A question and its answer."""

TURNS = _build_layout(
    "dialogue turns",
    [
        *build_required(pa.string(), "caption"),
        *build_required(pa.int32(), "round"),
        *build_nullable(pa.string(), "question", "answer"),
        *build_required(pa.list_(TURN), "history"),
    ],
)
"""One row for each round of a dialogue, from 1; `history` holds the earlier rounds."""

FOIL_PAIRS = _build_layout(
    "foil pairs",
    [
        *build_required(pa.string(), "caption_id"),
        *build_nullable(pa.string(), "caption"),
        *build_required(pa.string(), "foil", "target_word", "foil_word"),
    ],
)
"""One row for each annotation of FOIL-it; `caption` is the COCO caption from which the foil was
derived.
"""

TEXTS = _build_layout(
    "text tasks",
    [
        *build_required(pa.string(), "task"),
        *build_nullable(pa.string(), "text", "premise", "hypothesis"),
        *build_required(pa.list_(pa.string()), "choices"),
        *build_nullable(pa.int32(), "gold"),
        *build_required(pa.list_(pa.string()), "explanations"),
        *build_required(pa.bool_(), "reconstructed"),
    ],
    image=False,
)
"""One row for each item without image. `gold` is the index of the answer in `choices`, so its
letter is A + gold; for ComVE it is the index of the sentence against common sense. `text` is the
wording of the item in its file, choices included, null for items of two sentences; `reconstructed`
is true where the file is not the original release.
"""


RECORDED = _build_layout(
    "recorded runs",
    [
        *build_required(
            pa.string(), "record", "dataset", "item_id", "profile", "setting"
        ),
        *build_required(pa.int64(), "seed"),
        *build_nullable(
            pa.string(), "model", "commit", "input", "prompt", "generation", "kind"
        ),
        *build_nullable(pa.string(), "label", "role", "reasoning"),
        *build_nullable(pa.list_(pa.string()), "gold", "labels"),
        *build_nullable(pa.list_(pa.float64()), "label_log_probabilities"),
        *build_nullable(
            pa.string(), "test", "reason", "answer", "edited_answer", "explanation"
        ),
        *build_nullable(pa.string(), "edited_input", "edited_explanation", "inserted"),
        *build_nullable(pa.int32(), "verdict"),
        *build_nullable(pa.bool_(), "flipped"),
        *build_nullable(pa.string(), "output", "unit"),
        *build_nullable(pa.list_(pa.string()), "tokens"),
        *build_nullable(pa.list_(pa.list_(pa.float64())), "values", "patches"),
        *build_nullable(pa.int32(), "suffix", "grid"),
        *build_nullable(pa.float64(), "t_shap", "cc_shap"),
    ],
    image=False,
)
"""One row for each answer, verdict of a test or attribution (`record`) of a model that was run
elsewhere.

The columns are the fields of docs/reference/recorded-runs.md. `model` is null where the format
names none. `labels` and `label_log_probabilities` are in one order; `values` and `patches` are
lists of players, each with a number for each output.
"""

Rows = Iterator[dict[str, Any]]
Files = Mapping[str, str]
"""Path of each file of a source, by its name in the study."""

COCO_PREFIX = "coco-"
"""Beginning of the names of COCO files, which give a source of another format its captions or image
names.
"""


@dataclass(frozen=True)
class Format:
    """A raw format.

    Attributes:
        layout: Layout of the rows.
        read: Takes the files and the name of the source; returns an iterator over the rows.
        needs: Names that the files must have; every other file is a split with its name.
        splits: True where the format needs at least one split, False where it has no splits.
    """

    layout: Layout
    read: Callable[[Files, str], Rows]
    needs: tuple[str, ...] = ()
    splits: bool = True


def read_source(form: str, files: Files, source: str) -> tuple[Rows, Layout]:
    """Return an iterator over the rows of a source, and their layout.

    Args:
        form: Name of the raw format.
    """
    raw_format = FORMATS[form]
    location = f"study file: sources.{source}.files"
    # The files of the study must be exactly the files of the format.
    missing = [name for name in raw_format.needs if name not in files]
    if missing:
        raise UserError(f"{location}: the format {form} needs {', '.join(missing)}")
    splits = _select_splits(files, raw_format.needs)
    if raw_format.splits and not splits:
        raise UserError(
            f"{location}: the format {form} needs a file for each split; name it by the split"
        )
    if not raw_format.splits and splits:
        raise UserError(
            f"{location}: the format {form} has no file {', '.join(splits)}; name only {', '.join(raw_format.needs)}"
        )
    return map(_reject_half_pairs, raw_format.read(files, source)), raw_format.layout


def _reject_half_pairs(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row; where a text holds half a surrogate pair, the row is rejected and the text is
    escaped.
    """
    fault = find_half_pair(row)
    return {**_escape_half_pairs(row), "rejected": fault} if fault else row


def _escape_half_pairs(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, Mapping):
        return {key: _escape_half_pairs(part) for key, part in value.items()}
    return (
        [_escape_half_pairs(part) for part in value]
        if isinstance(value, list | tuple)
        else value
    )


def _select_splits(files: Files, needs: tuple[str, ...] = ()) -> dict[str, str]:
    return {
        name: path
        for name, path in files.items()
        if name not in needs and not name.startswith(COCO_PREFIX)
    }


def _select_coco_files(files: Files) -> list[str]:
    return [path for name, path in files.items() if name.startswith(COCO_PREFIX)]


def _read_each_split(
    read: Callable[[str, str, str], Rows],
) -> Callable[[Files, str], Rows]:
    """Turn a reader of path, source and split into a reader of all splits, one after another."""
    return lambda files, source: chain.from_iterable(
        read(path, source, split) for split, path in _select_splits(files).items()
    )


def _read_frames(files: Files, source: str) -> Rows:
    space = swig.read_situation_space(files["space"])
    splits = _select_splits(files, ("space",)).items()
    return chain.from_iterable(
        swig.read_frames(path, space, source, split) for split, path in splits
    )


def _read_turns(files: Files, source: str) -> Rows:
    # Images of the train split are images of COCO, whose names only the COCO files know.
    names: dict[str, str] = {}
    for path in _select_coco_files(files):
        names |= coco.read_image_names(path)
    return chain.from_iterable(
        questions.read_visdial(
            path,
            source,
            names if names and split == "train" else questions.VISDIAL_IMAGE_NAMES,
        )
        for split, path in _select_splits(files).items()
    )


def _read_foil_pairs(files: Files, source: str) -> Rows:
    # The COCO files hold the correct captions of the foils.
    captions = _select_coco_files(files)
    splits = _select_splits(files).items()
    return chain.from_iterable(
        coco.read_foil_it(path, captions, source, split) for split, path in splits
    )


def _read_recorded(read: Callable[[str, str], Rows]) -> Callable[[Files, str], Rows]:
    """Turn a reader of path and data set into a reader of all files of a source, each named by its
    data set.
    """
    return lambda files, source: (
        {"source": source, "split": None, **row}
        for name, path in files.items()
        for row in read(path, name)
    )


def _read_gqa(path: str, source: str, split: str) -> Rows:
    return (
        questions.read_gqa_lines if path.endswith(".jsonl") else questions.read_gqa
    )(path, source, split)


def _read_single_file(
    read: Callable[[str, str, str], Rows],
) -> Callable[[Files, str], Rows]:
    """Turn a reader into a reader of exactly one file; its ids are positions, so two files would
    share ids.
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
    "coco-captions": Format(CAPTIONS, _read_each_split(coco.read_captions)),
    "visual7w": Format(
        QUESTIONS,
        lambda files, source: questions.read_visual7w(files["telling"], source),
        ("telling",),
        splits=False,
    ),
    "swig": Format(FRAMES, _read_frames, ("space",)),
    "imsitu": Format(FRAMES, _read_frames, ("space",)),
    "visdial": Format(TURNS, _read_turns),
    "foil-it": Format(FOIL_PAIRS, _read_foil_pairs),
    "vqa": Format(
        QUESTIONS,
        lambda files, source: questions.read_vqa(
            files["questions"], files["annotations"], source
        ),
        ("questions", "annotations"),
        splits=False,
    ),
    "gqa": Format(QUESTIONS, _read_each_split(_read_gqa)),
    "e-snli": Format(
        TEXTS,
        _read_single_file(
            lambda path, split, source: text_tasks.read_esnli(path, source, split)
        ),
    ),
    "e-snli-lines": Format(
        TEXTS,
        lambda files, source: text_tasks.read_esnli_lines(
            files["premises"], files["hypotheses"], files["labels"], source, "test"
        ),
        ("premises", "hypotheses", "labels"),
        splits=False,
    ),
    "comve": Format(
        TEXTS,
        lambda files, source: text_tasks.read_comve(
            files["sentences"], files["answers"], source, "test"
        ),
        ("sentences", "answers"),
        splits=False,
    ),
    "bbh": Format(
        TEXTS,
        _read_single_file(
            lambda path, task, source: text_tasks.read_bbh_data(
                path, task, source, "val"
            )
        ),
    ),
    "bbh-examples": Format(
        TEXTS,
        _read_single_file(
            lambda path, task, source: text_tasks.read_bbh_examples(
                path, task, source, "test"
            )
        ),
    ),
    "cc-shap-results": Format(RECORDED, _read_recorded(cc_shap_results.read_results)),
    "harness-samples": Format(RECORDED, _read_recorded(harness_samples.read_samples)),
    "recorded-runs": Format(
        RECORDED,
        lambda files, source: _read_recorded(
            partial(recorded_runs.read_run, datasets=list(files))
        )(files, source),
    ),
}
"""Raw formats by the name that a study gives them."""
