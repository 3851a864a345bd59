"""Export of items to the annotation platforms Mechanical Turk, Label Studio and doccano, and import of answers.

Answers of Mechanical Turk come from "Download CSV" on a batch's review page of the requester site; of Label Studio
from the export "JSON" (not "JSON-MIN"); of doccano from a project in which annotations are *not* shared, whose export
is an archive of `<user name>.jsonl`.
"""

import csv
import html
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from waltz.benchmark.people.tasks import (
    NOT_ANSWERED,
    QUESTION,
    MarkedText,
    PlatformAnswer,
    Task,
    build_tasks,
    index_presentations,
    render_bold_html,
    write_key,
)
from waltz.benchmark.votes import ANSWERS
from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.core.files.json_objects import parse_json
from waltz.sources.raw_files import read_csv_records, read_json_lines, read_list_entries

IMAGE_HINT = "(A click on the image opens the whole of it.)"
SHARED_EXPORT = "all"
COLOURS = ("#1f6f8b", "#8b4a1f", "#4a6b2a", "#6b2a5c", "#555555")
CONFIGURATION = Path(__file__).with_name("templates") / "label-studio.xml"
CONTROL = "answer"
SKIPPED = "skipped by the annotator"
LAYOUT = Path(__file__).with_name("templates") / "turk.html"
COLUMNS = ("task", "image_url", "first", "second")
REJECTED = "rejected by the requester"


class Platform(NamedTuple):
    """How tasks are written for an annotation platform, and its answers read."""

    write_tasks: Callable[[Sequence[Task], Path], list[Path]]
    read_answers: Callable[[Path], Iterator[PlatformAnswer]]


@dataclass(frozen=True)
class ImportedAnnotations:
    """Rows of the annotations layout, and item_id, annotator and reason of each assignment without an answer."""

    annotations: list[dict[str, str]]
    skipped: list[dict[str, str]]


def export_tasks(
    items: Sequence[Mapping[str, Any]],
    platform: str,
    folder: str | Path,
    image_prefix: str,
    seed: int,
    annotators: int = 3,
) -> list[Path]:
    """Write for each instrument a task file, the platform's further files, and a key.

    Args:
        items: Rows of the benchmark layout, of any number of instruments.
        platform: One of `PLATFORMS`.
        image_prefix: Start of the URL before the name of an image, final slash included.
        seed: Seed of the captions' positions and the tasks' names; the import needs it again.
        annotators: Number of answers for each task; stored in the key, and to be set on the platform.
    Returns:
        The files written.
    """
    exchange = _get_platform(platform)
    if not items:
        raise UserError("no items to export; build the benchmark first")
    files: list[Path] = []
    for instrument in sorted({item["instrument"] for item in items}):
        tasks = build_tasks([item for item in items if item["instrument"] == instrument], image_prefix, seed)
        files += exchange.write_tasks(tasks, Path(folder) / instrument)
        columns = ("task", "item_id", "caption_position")
        key = [{name: getattr(task, name) for name in columns} for task in tasks]
        files.append(write_key(folder, instrument, platform, seed, annotators, key))
    return files


def import_annotations(
    paths: Sequence[str | Path], platform: str, items: Sequence[Mapping[str, Any]], seed: int
) -> ImportedAnnotations:
    """Read the annotations in the results of a platform; the key is not needed.

    Args:
        paths: Files of results; for doccano also folders of one file an annotator.
        items: Rows of the benchmark layout; they may include items that were not exported.
        seed: The seed of the export.
    Returns:
        Annotations and skipped assignments, ordered by item and annotator.
    """
    exchange = _get_platform(platform)
    presentations = index_presentations(items, seed)
    first_answers: dict[tuple[str, str], str] = {}
    annotations, skipped = [], []
    for path in map(Path, paths):
        for answer in exchange.read_answers(path):
            if answer.task not in presentations:
                raise UserError(f"{answer.where}: unknown task {answer.task!r}; give the seed and items of the export")
            item_id, position = presentations[answer.task]
            if not answer.annotator:
                raise UserError(f"{answer.where}: task {answer.task!r} has no annotator")
            if answer.reason:
                skipped.append({"item_id": item_id, "annotator": answer.annotator, "reason": answer.reason})
                continue
            if answer.answer not in ANSWERS:
                raise UserError(f"{answer.where}: answer {answer.answer!r} is none of {', '.join(ANSWERS)}")
            if (item_id, answer.annotator) in first_answers:
                first = first_answers[item_id, answer.annotator]
                raise UserError(
                    f"{answer.where}: annotator {answer.annotator!r} answered item {item_id!r} twice, before at {first}"
                )
            first_answers[item_id, answer.annotator] = answer.where
            row = {"item_id": item_id, "annotator": answer.annotator, "answer": answer.answer}
            annotations.append({**row, "caption_position": position})
    return ImportedAnnotations(
        sorted(annotations, key=lambda row: (row["item_id"], row["annotator"])),
        sorted(skipped, key=lambda row: (row["item_id"], row["annotator"], row["reason"])),
    )


def _get_platform(platform: str) -> Platform:
    if platform not in PLATFORMS:
        raise UserError(f"platform {platform!r} is none of {', '.join(PLATFORMS)}")
    return PLATFORMS[platform]


def write_doccano_tasks(tasks: Sequence[Task], stem: Path) -> list[Path]:
    """Write `<stem>.jsonl`, one line for each task, and `<stem>.labels.json`, the five answers as label types.

    doccano shows plain text, so the differing words are put between `**`.
    """
    lines = [
        {
            "text": f"Text 1: {_star_span(task.first)}\n\nText 2: {_star_span(task.second)}\n\n{QUESTION}",
            "task": task.task,
            "im_url": task.image,
        }
        for task in tasks
    ]
    return [write_lines(lines, stem), write_labels(ANSWERS, stem)]


def read_doccano_answers(path: Path) -> Iterator[PlatformAnswer]:
    """Yield the answers of one annotator's file, or of a folder of them; a line without a label is not answered."""
    for where, annotator, task, labels in read_labelled_lines(path):
        if len(labels) > 1:
            raise UserError(f"{where}: more than one answer: {', '.join(labels)}; let the project allow a single label")
        answer = labels[0] if labels else ""
        yield PlatformAnswer(where, task, annotator, answer, "" if answer else NOT_ANSWERED)


def write_lines(lines: Sequence[Mapping[str, str]], stem: Path) -> Path:
    """Write `<stem>.jsonl`; all columns except `text` are metadata, and doccano shows `im_url` as an image.

    The image appears in a narrow column that crops it and links to the full image, as the text says. doccano warns
    about lines without a `label`, though it imports them.
    """
    entries = [{**line, "text": f"{line['text']}\n\n{IMAGE_HINT}", "label": []} for line in lines]
    path = stem.with_name(f"{stem.name}.jsonl")
    write_text(path, "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries))
    return path


def write_labels(labels: Sequence[str], stem: Path) -> Path:
    """Write `<stem>.labels.json`, label types with the keys 1, 2, … as shortcuts."""
    path = stem.with_name(f"{stem.name}.labels.json")
    types = [
        {
            "text": label,
            "prefix_key": None,
            "suffix_key": str(number),
            "background_color": colour,
            "text_color": "#ffffff",
        }
        for number, (label, colour) in enumerate(zip(labels, COLOURS, strict=False), 1)
    ]
    write_text(path, json.dumps(types, indent=1, ensure_ascii=False) + "\n")
    return path


def read_labelled_lines(path: Path) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield position, annotator, task and labels of each line of one annotator's file, or of a folder of such files."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise UserError(f"{path}: no .jsonl file in the folder; unpack doccano's export there")
    for file in files:
        if file.suffix == ".zip":
            raise UserError(f"{file}: not a folder but an archive; unpack it and name its folder")
        if file.stem == SHARED_EXPORT:
            raise UserError(f"{file}: no names of annotators; annotate in a project that shares no annotations")
        for number, line in read_json_lines(file):
            where, task, labels = f"{file}: line {number}", line.get("task"), line.get("label")
            if not isinstance(task, str):
                raise UserError(f"{where}: 'task' is missing; import the whole lines of the task file into doccano")
            if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
                raise UserError(f"{where}: 'label' is {labels!r}, not a list of texts; export the project as JSONL")
            yield where, file.stem, task, labels


def _star_span(text: MarkedText) -> str:
    return f"{text.before}**{text.marked}**{text.after}" if text.marked else text.before + text.after


def write_label_studio_tasks(tasks: Sequence[Task], stem: Path) -> list[Path]:
    """Write `<stem>.json`, a list of tasks, and the labelling configuration `<stem>.xml`."""
    entries = []
    for task in tasks:
        first, second = (render_bold_html(text).replace("\n", "<br>") for text in (task.first, task.second))
        entries.append({"data": {"task": task.task, "image": task.image, "first": first, "second": second}})
    task_file, configuration = stem.with_name(f"{stem.name}.json"), stem.with_name(f"{stem.name}.xml")
    write_text(task_file, json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
    write_text(configuration, CONFIGURATION.read_text(encoding="utf-8"))
    return [task_file, configuration]


def read_label_studio_answers(path: Path) -> Iterator[PlatformAnswer]:
    """Yield the answers of an export; a skipped task is not answered."""
    for index, entry in enumerate(read_list_entries(path, "", dict)):
        where = f"{path}: entry {index}"
        data, annotations = entry.get("data"), entry.get("annotations")
        if not isinstance(annotations, list) or not isinstance(data, dict) or not isinstance(data.get("task"), str):
            raise UserError(f"{where}: no data.task or no list of annotations; export the project as JSON")
        for annotation in annotations:
            if not isinstance(annotation, dict):
                raise UserError(f"{where}: an annotation is {annotation!r}, not an object; export the project as JSON")
            answer = _read_label_studio_answer(annotation, where)
            reason = NOT_ANSWERED if not answer else ""
            if annotation.get("was_cancelled"):
                answer, reason = "", SKIPPED
            yield PlatformAnswer(where, data["task"], _read_label_studio_annotator(annotation, where), answer, reason)


def _read_label_studio_answer(annotation: Mapping[str, Any], where: str) -> str:
    try:
        regions = [region for region in annotation["result"] if region["from_name"] == CONTROL]
        choices = [choice for region in regions for choice in region["value"]["choices"]]
    except (KeyError, TypeError):
        raise UserError(f"{where}: an annotation has no result of choices; export the project as JSON") from None
    if len(choices) > 1:
        raise UserError(
            f"{where}: more than one answer (got {', '.join(map(str, choices))}, expected 1); allow a single choice"
        )
    return str(choices[0]) if choices else ""


def _read_label_studio_annotator(annotation: Mapping[str, Any], where: str) -> str:
    """Return the number of the user, or the address where the export expands users."""
    user = annotation.get("completed_by")
    name = user.get("email", user.get("id")) if isinstance(user, dict) else user
    if name is None:
        raise UserError(f"{where}: an annotation has no completed_by; export the project as JSON")
    return str(name)


def write_turk_tasks(tasks: Sequence[Task], stem: Path) -> list[Path]:
    """Write `<stem>.csv`, one line for each task, and the layout `<stem>.html`, which shows one task."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for task in tasks:
        cells = (html.escape(task.image), render_bold_html(task.first), render_bold_html(task.second))
        writer.writerow([task.task, *map(_escape_for_site, cells)])
    batch, layout = stem.with_name(f"{stem.name}.csv"), stem.with_name(f"{stem.name}.html")
    write_text(batch, text.getvalue())
    write_text(layout, LAYOUT.read_text(encoding="utf-8"))
    return [batch, layout]


def read_turk_answers(path: Path) -> Iterator[PlatformAnswer]:
    """Yield the answers of a batch's results; rejected assignments are not answered."""
    for line, record in read_csv_records(path, required=("WorkerId", "AssignmentStatus", "Input.task")):
        where = f"{path}: line {line}"
        answer = _read_turk_answer(record, where)
        reason = NOT_ANSWERED if not answer else ""
        if record["AssignmentStatus"].strip().lower() == "rejected":
            answer, reason = "", REJECTED
        yield PlatformAnswer(where, record["Input.task"].strip(), record["WorkerId"].strip(), answer, reason)


def _escape_for_site(markup: str) -> str:
    """Return HTML in ASCII on one line without `$`: the site refuses four-byte characters and replaces `${…}`."""
    escaped = markup.replace("$", "&#36;").replace("\r", "&#13;").replace("\n", "&#10;")
    return escaped.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _read_turk_answer(record: Mapping[str, str], where: str) -> str:
    """Return the selected option, empty where there is none."""
    if "Answer.taskAnswers" in record:
        return _select_option(_parse_task_answers(record["Answer.taskAnswers"], where), where)
    if "Answer.answer" in record:
        return record["Answer.answer"].strip()
    options = {option: record[name] for option in ANSWERS if (name := f"Answer.answer.{option}") in record}
    if not options:
        raise UserError(f"{where}: no column Answer.taskAnswers or Answer.answer; download the batch of this layout")
    return _select_option({option: cell.strip().lower() == "true" for option, cell in options.items()}, where)


def _parse_task_answers(cell: str, where: str) -> Any:
    try:
        forms = parse_json(cell)
        return forms[0].get("answer", "")
    except (ValueError, RecursionError, AttributeError, IndexError, KeyError, TypeError):
        raise UserError(
            f"{where}: Answer.taskAnswers {cell!r} is not a list of one object; download it again"
        ) from None


def _select_option(value: Any, where: str) -> str:
    """Return the option of a native group of radio buttons, `{option: selected}`, or of an element that stores text."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        raise UserError(f"{where}: answer {value!r} is neither a text nor an object of options")
    options = [option for option, is_selected in value.items() if is_selected]
    if len(options) > 1:
        raise UserError(f"{where}: more than one answer (got {', '.join(options)}, expected 1); download it again")
    return str(options[0]) if options else ""


PLATFORMS = {
    "mturk": Platform(write_turk_tasks, read_turk_answers),
    "label-studio": Platform(write_label_studio_tasks, read_label_studio_answers),
    "doccano": Platform(write_doccano_tasks, read_doccano_answers),
}
