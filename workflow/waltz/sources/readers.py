"""Raw formats: for each format the record class of its rows, its reader, and the files that it
needs.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from waltz.core.errors import UserError
from waltz.core.records import AnyRecord, from_row, get_layout, to_row
from waltz.sources.formats import (
    captions,
    cc_shap_results,
    coco,
    harness_samples,
    questions,
    recorded_runs,
    swig,
    text_tasks,
)
from waltz.sources.raw_files import ImageNames, escape_half_pairs, find_half_pair
from waltz.sources.records import (
    CaptionRecord,
    FoilPairRecord,
    FrameRecord,
    QuestionRecord,
    RecordedRecord,
    SourceRecord,
    TextRecord,
    TurnRecord,
)

QUESTIONS = get_layout(QuestionRecord)
TEXTS = get_layout(TextRecord)

Rows = Iterator[SourceRecord]
Files = Mapping[str, str]
"""Path of each file of a source, by its name in the study."""
ReadFiles = Callable[[Files, str], Rows]
"""A reader of the files of a source, which has the given name."""

COCO_PREFIX = "coco-"
"""Beginning of the names of COCO files, which give a source of another format its captions or image
names.
"""


@dataclass(frozen=True)
class Format:
    """A raw format.

    Attributes:
        record_type: Class of the rows.
        read: Takes the files and the name of the source; returns an iterator over the rows.
        needs: Names that the files must have; every other file is a split with its name.
        splits: True where the format needs at least one split, False where it has no splits.
    """

    record_type: type[SourceRecord]
    read: ReadFiles
    needs: tuple[str, ...] = ()
    splits: bool = True


def read_source(
    form: str, files: Files, source: str
) -> tuple[Rows, type[SourceRecord]]:
    """Return an iterator over the rows of a source, and their class.

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
    if splits and not raw_format.splits:
        raise UserError(
            f"{location}: the format {form} has no file {', '.join(splits)}; name only {', '.join(raw_format.needs)}"
        )
    rows = map(_reject_half_pairs, raw_format.read(files, source))
    return rows, raw_format.record_type


def _reject_half_pairs(row: AnyRecord) -> AnyRecord:
    """Return a row; where a text holds half a surrogate pair, the row is rejected and the text is
    escaped.
    """
    values = to_row(row)
    fault = find_half_pair(values)
    if fault is None:
        return row
    return from_row({**escape_half_pairs(values), "rejected": fault}, type(row))


def _select_splits(files: Files, needs: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the files that are splits: neither required ones nor COCO files."""
    other_files = {*needs, *_select_coco_files(files)}
    return {name: files[name] for name in files if name not in other_files}


def _select_coco_files(files: Files) -> dict[str, str]:
    return {name: files[name] for name in files if name.startswith(COCO_PREFIX)}


def _read_each_split(read: Callable[[str, str, str], Rows]) -> ReadFiles:
    """Turn a reader of path, source and split into a reader of all splits, one after another."""

    def read_splits(files: Files, source: str) -> Rows:
        for split, path in _select_splits(files).items():
            yield from read(path, source, split)

    return read_splits


def _read_each_dataset(read: Callable[[str, str, str], Rows]) -> ReadFiles:
    """Turn a reader of path, data set and source into a reader of all files of a source, each named
    by its data set.
    """

    def read_datasets(files: Files, source: str) -> Rows:
        for dataset, path in files.items():
            yield from read(path, dataset, source)

    return read_datasets


def _require_single_file(read: ReadFiles) -> ReadFiles:
    """Turn a reader of files into a reader of exactly one file; its ids are positions, so two files
    would share ids.
    """

    def read_file(files: Files, source: str) -> Rows:
        if len(files) != 1:
            raise UserError(
                f"study file: sources.{source}.files: too many files (got {len(files)}, expected 1);"
                " make another source of each further file"
            )
        return read(files, source)

    return read_file


def _build_named_format(
    record_type: type[SourceRecord], read: Callable[..., Rows], *names: str
) -> Format:
    """Return a format of files with fixed names, without splits.

    Args:
        read: Takes the paths of the files in the order of their names, and the name of the source.
    """

    def read_named(files: Files, source: str) -> Rows:
        return read(*[files[name] for name in names], source)

    return Format(record_type, read_named, names, splits=False)


def _read_frames(files: Files, source: str) -> Rows:
    space = swig.read_situation_space(files["space"])
    for split, path in _select_splits(files, ("space",)).items():
        yield from swig.read_frames(path, space, source, split)


def _read_turns(files: Files, source: str) -> Rows:
    # Images of the train split are images of COCO, whose names only the COCO files know.
    coco_names: dict[str, str] = {}
    for path in _select_coco_files(files).values():
        coco_names |= coco.read_image_names(path)
    for split, path in _select_splits(files).items():
        names: ImageNames = questions.VISDIAL_IMAGE_NAMES
        if coco_names and split == "train":
            names = coco_names
        yield from questions.read_visdial(path, source, names)


def _read_foil_pairs(files: Files, source: str) -> Rows:
    # The COCO files hold the correct captions of the foils.
    captions = list(_select_coco_files(files).values())
    for split, path in _select_splits(files).items():
        yield from coco.read_foil_it(path, captions, source, split)


def _read_runs(files: Files, source: str) -> Rows:
    datasets = list(files)
    for dataset, path in files.items():
        yield from recorded_runs.read_recorded_lines(path, dataset, source, datasets)


FORMATS = {
    "coco-captions": Format(CaptionRecord, _read_each_split(coco.read_captions)),
    "captions": Format(
        CaptionRecord, _require_single_file(_read_each_split(captions.read_captions))
    ),
    "visual7w": _build_named_format(QuestionRecord, questions.read_visual7w, "telling"),
    "swig": Format(FrameRecord, _read_frames, ("space",)),
    "imsitu": Format(FrameRecord, _read_frames, ("space",)),
    "visdial": Format(TurnRecord, _read_turns),
    "foil-it": Format(FoilPairRecord, _read_foil_pairs),
    "vqa": _build_named_format(
        QuestionRecord, questions.read_vqa, "questions", "annotations"
    ),
    "gqa": Format(QuestionRecord, _read_each_split(questions.read_gqa)),
    "e-snli": Format(
        TextRecord, _require_single_file(_read_each_split(text_tasks.read_esnli))
    ),
    "e-snli-lines": _build_named_format(
        TextRecord, text_tasks.read_esnli_lines, "premises", "hypotheses", "labels"
    ),
    "comve": _build_named_format(
        TextRecord, text_tasks.read_comve, "sentences", "answers"
    ),
    "bbh": Format(
        TextRecord, _require_single_file(_read_each_dataset(text_tasks.read_bbh_data))
    ),
    "bbh-examples": Format(
        TextRecord,
        _require_single_file(_read_each_dataset(text_tasks.read_bbh_examples)),
    ),
    "cc-shap-results": Format(
        RecordedRecord, _read_each_dataset(cc_shap_results.read_recorded_results)
    ),
    "harness-samples": Format(
        RecordedRecord, _read_each_dataset(harness_samples.read_samples)
    ),
    "recorded-runs": Format(RecordedRecord, _read_runs),
}
"""Raw formats by the name that a study gives them."""
