"""Export of items to the annotation platforms Mechanical Turk, Label Studio and doccano, and import
of the answers.

Answers of Mechanical Turk come from "Download CSV" on a batch's review page of the requester site;
of doccano from a project in which annotations are *not* shared, whose export is an archive of
`<user name>.jsonl`.
"""

import csv
import html
import io
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, TypeGuard

from waltz.benchmark.people.label_studio import (
    read_label_studio_answers,
    write_label_studio_tasks,
)
from waltz.benchmark.people.repeated_answers import (
    select_latest_answers,
    unify_annotators,
)
from waltz.benchmark.people.tasks import (
    INSTRUCTION,
    NOT_ANSWERED,
    QUESTION,
    MarkedText,
    PlatformAnswer,
    Task,
    build_tasks,
    index_presentations,
    is_set,
    read_time,
    render_bold_html,
    write_key,
)
from waltz.benchmark.votes import ANSWERS, SkippedAnswer, fold_answer
from waltz.core.errors import UserError, build_name_error
from waltz.core.files.atomic import write_text
from waltz.core.files.json_objects import parse_json
from waltz.core.files.safe_names import is_companion
from waltz.core.schema import AnnotationRecord, PairRecord
from waltz.sources.pair_layouts import fold_names
from waltz.sources.raw_entry import RawEntry
from waltz.sources.raw_files import read_csv_records
from waltz.sources.tables import read_rows

IMAGE_HINT = "(A click on the image opens the whole of it.)"
SHARED_EXPORT = "all"
"""Name of doccano's file of a project that shares annotations, which does not say who annotated."""
LINES_SUFFIX, OBJECTS_SUFFIX, CELLS_SUFFIX = ".jsonl", ".json", ".csv"
"""Ends of the names of doccano's files, by the format of the export."""
COPY = re.compile(r" \(\d+\)$| - Copy$| copy(?: \d+)?$")
"""What systems add to the name of a file that is copied; doccano's names of users have no spaces."""
COLORS = ("#1f6f8b", "#8b4a1f", "#4a6b2a", "#6b2a5c", "#555555")
LAYOUT = Path(__file__).with_name("templates") / "turk.html"
COLUMNS = ("task", "image_url", "first", "second")
REJECTED = "rejected by the requester"


class Platform(NamedTuple):
    """The functions that write the tasks of an annotation platform, and read its answers."""

    write_tasks: Callable[[Sequence[Task], Path], list[Path]]
    read_answers: Callable[[Path], Iterator[PlatformAnswer]]


@dataclass(frozen=True)
class ImportedAnnotations:
    """The imported answers of people.

    Attributes:
        annotations: The answers.
        skipped: The assignments without an answer.
    """

    annotations: list[AnnotationRecord]
    skipped: list[SkippedAnswer]


def export_tasks(
    items: Sequence[PairRecord],
    platform: str,
    folder: str | Path,
    image_prefix: str,
    seed: int,
    annotators: int = 3,
) -> list[Path]:
    """Write for each instrument the task files of a platform, and a key that says which task shows
    which item.

    Args:
        items: Items of one or more instruments.
        platform: One of `PLATFORMS`.
        image_prefix: Start of the URL before the name of an image, final slash included.
        seed: Seed of the captions' positions and the tasks' names; the import needs it again.
        annotators: Number of answers for each task; stored in the key, and to be set on the
            platform.
    Returns:
        The paths of the written files.
    """
    platform = choose_platform(platform)
    exchange = PLATFORMS[platform]
    if not items:
        raise UserError("no items to export; build the benchmark first")
    items_by_instrument: dict[str, list[PairRecord]] = defaultdict(list)
    for item in items:
        items_by_instrument[item.instrument].append(item)
    files: list[Path] = []
    # One project or batch for each instrument.
    for instrument, selected in sorted(items_by_instrument.items()):
        tasks = build_tasks(selected, image_prefix, seed)
        files += exchange.write_tasks(tasks, Path(folder) / instrument)
        key = [
            {
                "task": task.task,
                "item_id": task.item_id,
                "caption_position": task.caption_position,
            }
            for task in tasks
        ]
        files.append(write_key(folder, instrument, platform, seed, annotators, key))
    return files


def import_annotations(
    paths: Sequence[str | Path],
    platform: str,
    items: Sequence[PairRecord],
    seed: int,
) -> ImportedAnnotations:
    """Read the annotations from the results of a platform; the key file is not needed.

    Args:
        paths: Files of results; for doccano also folders with one file for each annotator.
        items: Items of the benchmark; they may include items that were not exported.
        seed: The seed of the export.
    Returns:
        Annotations and skipped assignments, ordered by item and annotator.
    """
    exchange = PLATFORMS[choose_platform(platform)]
    presentations = index_presentations(items, seed)
    read: list[PlatformAnswer] = []
    for path in paths:
        for answer in exchange.read_answers(Path(path)):
            answer = replace(answer, answer=fold_answer(answer.answer))
            _check_answer(answer, presentations)
            read.append(answer)
    # A skipped assignment is recorded but may be answered again.
    answers, replaced = select_latest_answers(unify_annotators(read))
    annotations: list[AnnotationRecord] = []
    skipped: list[SkippedAnswer] = []
    for answer in (*answers, *replaced):
        item_id, caption_position = presentations[answer.task]
        if answer.reason:
            skipped.append(SkippedAnswer(item_id, answer.annotator, answer.reason))
            continue
        annotations.append(
            AnnotationRecord(
                item_id=item_id,
                annotator=answer.annotator,
                answer=answer.answer,
                caption_position=caption_position,
            )
        )
    # A fixed order, whatever the order of the files.
    annotations.sort(key=attrgetter("item_id", "annotator"))
    skipped.sort(key=attrgetter("item_id", "annotator", "reason"))
    return ImportedAnnotations(annotations, skipped)


def _check_answer(
    answer: PlatformAnswer, presentations: Mapping[str, tuple[str, str]]
) -> None:
    """Raise an error for an answer to an unknown task, without annotator, or with an unknown
    option.
    """
    if answer.task not in presentations:
        raise UserError(
            f"{answer.location}: unknown task {answer.task!r}; give the seed and items of the export"
        )
    if not answer.annotator:
        raise UserError(
            f"{answer.location}: task {answer.task!r} has no annotator; export the results with names"
        )
    if not answer.reason and answer.answer not in ANSWERS:
        raise UserError(
            f"{answer.location}: answer {answer.answer!r} is none of {', '.join(ANSWERS)}; export unchanged results"
        )


def choose_platform(name: str, label: str = "--platform") -> str:
    """Return the platform of a name, in any case of letters and with or without hyphen.

    Args:
        name: The name.
        label: Option in the message.
    Raises:
        UserError: There is no such platform.
    """
    by_spelling = {platform.replace("-", ""): platform for platform in PLATFORMS}
    platform = by_spelling.get(re.sub("[-_ ]", "", name.lower()))
    if platform is None:
        raise build_name_error(label, "platform", name, PLATFORMS)
    return platform


def write_doccano_tasks(tasks: Sequence[Task], stem: Path) -> list[Path]:
    """Write `<stem>.jsonl`, one line for each task, and `<stem>.labels.json`, the five answers as
    label types.

    doccano shows plain text, so the words that differ between the texts are put between `**`.
    """
    lines = []
    for task in tasks:
        texts = f"Text 1: {_star_span(task.first)}\n\nText 2: {_star_span(task.second)}"
        text = f"{INSTRUCTION}\n\n{texts}\n\n{QUESTION}"
        lines.append({"text": text, "task": task.task, "im_url": task.image})
    return [write_lines(lines, stem), write_labels(ANSWERS, stem)]


def read_doccano_answers(path: Path) -> Iterator[PlatformAnswer]:
    """Yield the answers of one annotator's file, or of a folder of such files.

    A line without a label has the reason `NOT_ANSWERED`.
    """
    suffixes = (LINES_SUFFIX, OBJECTS_SUFFIX, CELLS_SUFFIX)
    for location, annotator, task, labels, record in read_labeled_lines(path, suffixes):
        different = list(dict.fromkeys(labels))
        if len(different) > 1:
            raise UserError(
                f"{location}: more than one answer: {', '.join(labels)}; let the project allow a single label"
            )
        answer = "".join(different)
        reason = "" if answer else NOT_ANSWERED
        yield PlatformAnswer(location, task, annotator, answer, reason, record=record)


def write_lines(lines: Sequence[Mapping[str, str]], stem: Path) -> Path:
    """Write `<stem>.jsonl`; doccano shows `text` and the image at `im_url`, and keeps all other
    columns as metadata.

    The image appears cropped in a narrow column and links to the full image, as `IMAGE_HINT` says.
    doccano imports lines without a `label` too, but warns about them.
    """
    content = ""
    for line in lines:
        entry = {**line, "text": f"{line['text']}\n\n{IMAGE_HINT}", "label": []}
        content += json.dumps(entry, ensure_ascii=False) + "\n"
    path = stem.with_name(f"{stem.name}.jsonl")
    write_text(path, content)
    return path


def write_labels(labels: Sequence[str], stem: Path) -> Path:
    """Write `<stem>.labels.json`, the label types of a doccano project, with the keys 1, 2, … as
    shortcuts.
    """
    path = stem.with_name(f"{stem.name}.labels.json")
    types = []
    for number, (label, color) in enumerate(zip(labels, COLORS, strict=False), 1):
        types.append(
            {
                "text": label,
                "prefix_key": None,
                "suffix_key": str(number),
                "background_color": color,
                "text_color": "#ffffff",
            }
        )
    write_text(path, json.dumps(types, indent=1, ensure_ascii=False) + "\n")
    return path


class LabeledLine(NamedTuple):
    """A line of doccano's export.

    Attributes:
        location: File and line, for error messages.
        annotator: Name of the annotator.
        task: Name of the task.
        labels: The labels that the annotator gave.
        record: Name of the annotator and number of the line's example; empty where the line has no
            number.
    """

    location: str
    annotator: str
    task: str
    labels: list[str]
    record: str


def read_labeled_lines(
    path: Path, suffixes: Sequence[str] = (LINES_SUFFIX, OBJECTS_SUFFIX)
) -> Iterator[LabeledLine]:
    """Yield the lines of one annotator's file, or of a folder of such files.

    Args:
        suffixes: Ends of the names of files that are read. Of a folder, files of the first one count.
    """
    # doccano names each file after its annotator, so the name of the file is the annotator.
    files = _list_annotator_files(path, suffixes) if path.is_dir() else [path]
    if not files:
        raise UserError(
            f"{path}: no .jsonl file in the folder; unpack doccano's export there"
        )
    for file in files:
        suffix = file.suffix.lower()
        if suffix == ".zip":
            raise UserError(
                f"{file}: not a folder but an archive; unpack it and name its folder"
            )
        if suffix not in suffixes:
            raise UserError(
                f"{file}: its name ends in {suffix or 'nothing'} (expected {LINES_SUFFIX}); export the project as JSONL"
            )
        annotator = COPY.sub("", file.stem)
        # Without names, double answers cannot be recognized.
        if annotator.lower() == SHARED_EXPORT:
            raise UserError(
                f"{file}: no names of annotators; annotate in a project that shares no annotations"
            )
        for row in read_rows(file):
            task = row.fields.get("task")
            if not isinstance(task, str):
                raise UserError(
                    f"{row.location}: 'task' is missing; import the whole lines of the task file into doccano"
                )
            record = ""
            if row.fields.get("id") is not None:
                record = f"{annotator}:{row.fields['id']}"
            yield LabeledLine(row.location, annotator, task, _read_labels(row), record)


def _list_annotator_files(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """Return the files of annotators below a folder; files that systems put next to them are none."""
    files = []
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if not is_companion(name) and file.is_file():
            files.append(file)
    for suffix in suffixes:
        if alike := [file for file in files if file.suffix.lower() == suffix]:
            return alike
    return []


def _read_labels(row: RawEntry) -> list[str]:
    """Return the labels of a line: a list, or in CSV a text with `#` between them."""
    labels = row.fields.get("label")
    if isinstance(labels, str):
        labels = [label for label in labels.split("#") if label]
    if labels is None and "label" in row.fields:
        labels = []
    # The labels of a text classification are a list of strings.
    if not _is_list_of_texts(labels):
        raise UserError(
            f"{row.location}: 'label' is {labels!r}, not a list of texts; export the project as JSONL"
        )
    return labels


def _is_list_of_texts(value: object) -> TypeGuard[list[str]]:
    if not isinstance(value, list):
        return False
    return all(isinstance(element, str) for element in value)


def _star_span(text: MarkedText) -> str:
    if not text.marked:
        return text.before + text.after
    return f"{text.before}**{text.marked}**{text.after}"


def write_turk_tasks(tasks: Sequence[Task], stem: Path) -> list[Path]:
    """Write `<stem>.csv` with one line for each task, and the page layout `<stem>.html`, which
    shows one task.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for task in tasks:
        # The cells are inserted into the HTML of the layout, so they must be HTML themselves.
        cells = (
            html.escape(task.image),
            render_bold_html(task.first),
            render_bold_html(task.second),
        )
        writer.writerow([task.task, *map(_escape_for_site, cells)])
    batch = stem.with_name(f"{stem.name}.csv")
    layout = stem.with_name(f"{stem.name}.html")
    write_text(batch, text.getvalue())
    write_text(layout, LAYOUT.read_text(encoding="utf-8"))
    return [batch, layout]


def read_turk_answers(path: Path) -> Iterator[PlatformAnswer]:
    """Yield the answers of a batch of Mechanical Turk; a rejected assignment has the reason
    `REJECTED`, and of two assignments of one worker the one counts that was submitted later.
    """
    required = ("WorkerId", "AssignmentStatus", "Input.task")
    for line, cells in read_csv_records(path, required=required):
        location = f"{path}: line {line}"
        record = fold_names({name: cell.strip() for name, cell in cells.items()})
        answer = _read_turk_answer(record, location)
        reason = "" if answer else NOT_ANSWERED
        is_rejected = record["assignmentstatus"].lower() == "rejected"
        # A requester who reviews the file writes the reason into its column "Reject".
        if is_rejected or record.get("reject"):
            answer = ""
            reason = REJECTED
        yield PlatformAnswer(
            location,
            record["input.task"],
            record["workerid"],
            answer,
            reason,
            record=record.get("assignmentid", ""),
            time=read_time(record.get("submittime")),
        )


def _escape_for_site(markup: str) -> str:
    """Return HTML in ASCII on one line without `$`: the site refuses four-byte characters and
    replaces `${…}`.
    """
    escaped = markup.replace("$", "&#36;").replace("\r", "&#13;").replace("\n", "&#10;")
    return escaped.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _read_turk_answer(record: Mapping[str, str], location: str) -> str:
    """Return the option that a worker selected; empty where there is none. Names of columns are in
    small letters.

    The results have one of three forms, depending on how the layout asked the question.
    """
    if "answer.taskanswers" in record:
        options = _parse_task_answers(record["answer.taskanswers"], location)
        return _select_option(options, location)
    if "answer.answer" in record:
        return record["answer.answer"]

    # A column for each option of a group of radio buttons.
    selected: dict[str, bool] = {}
    for option in ANSWERS:
        cell = record.get(f"answer.answer.{option}")
        if cell is not None:
            selected[option] = is_set(cell)
    if not selected:
        raise UserError(
            f"{location}: no column Answer.taskAnswers or Answer.answer; download the batch of this layout"
        )
    return _select_option(selected, location)


def _parse_task_answers(cell: str, location: str) -> object:
    try:
        forms = parse_json(cell)
        return forms[0].get("answer", "")
    except (
        ValueError,
        RecursionError,
        AttributeError,
        IndexError,
        KeyError,
        TypeError,
    ):
        raise UserError(
            f"{location}: Answer.taskAnswers {cell!r} is not a list of one object; download it again"
        ) from None


def _select_option(value: object, location: str) -> str:
    """Return the option of a native group of radio buttons, `{option: selected}`, or of an element
    that stores text.
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        raise UserError(
            f"{location}: answer {value!r} is neither a text nor an object of options"
        )
    options = [option for option, flag in value.items() if is_set(flag)]
    if len(options) > 1:
        raise UserError(
            f"{location}: more than one answer (got {', '.join(options)}, expected 1); download it again"
        )
    return str(options[0]) if options else ""


PLATFORMS = {
    "mturk": Platform(write_turk_tasks, read_turk_answers),
    "label-studio": Platform(write_label_studio_tasks, read_label_studio_answers),
    "doccano": Platform(write_doccano_tasks, read_doccano_answers),
}
