"""doccano: tasks as JSON lines, and exports with one file of JSON lines for each annotator.

Exports come from projects in which annotations are *not* shared: an archive of `<user name>.jsonl`, whose lines hold
`text`, the columns of the import that doccano calls metadata, and `label`, a list. A shared project exports one
`all.jsonl` that does not name the annotator of a label, and is refused.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from waltz.benchmark.people.tasks import NOT_ANSWERED, QUESTION, MarkedText, PlatformAnswer, Task
from waltz.benchmark.votes import ANSWERS
from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.sources.raw_files import read_json_lines

IMAGE_HINT = "(A click on the image opens the whole of it.)"
SHARED_EXPORT = "all"
COLOURS = ("#1f6f8b", "#8b4a1f", "#4a6b2a", "#6b2a5c", "#555555")


def write_tasks(tasks: Sequence[Task], stem: Path) -> list[Path]:
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
    return [*write_lines(lines, stem), write_labels(ANSWERS, stem)]


def read_answers(path: Path) -> Iterator[PlatformAnswer]:
    """Yield the answers of one annotator's file, or of a folder of them; a line without a label is not answered.

    Raises:
        UserError: As `labelled_lines`, or a line with two labels.
    """
    for where, annotator, task, labels in read_labelled_lines(path):
        if len(labels) > 1:
            raise UserError(f"{where}: more than one answer: {', '.join(labels)}; let the project allow a single label")
        answer = labels[0] if labels else ""
        yield PlatformAnswer(where, task, annotator, answer, "" if answer else NOT_ANSWERED)


def write_lines(lines: Sequence[Mapping[str, str]], stem: Path) -> list[Path]:
    """Write `<stem>.jsonl`; all columns except `text` are metadata, and doccano shows `im_url` as an image.

    The image appears in a narrow column that crops it and links to the full image, as the text says. doccano warns
    about lines without a `label`, though it imports them.
    """
    entries = [{**line, "text": f"{line['text']}\n\n{IMAGE_HINT}", "label": []} for line in lines]
    path = stem.with_name(f"{stem.name}.jsonl")
    write_text(path, "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries))
    return [path]


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
    """Yield position, annotator, task and labels of each line of one annotator's file, or of a folder of such files.

    Raises:
        UserError: No such file, an archive that was not unpacked, a shared project's file, or a line without
            `task` or a list `label`.
    """
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
