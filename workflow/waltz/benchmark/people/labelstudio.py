"""Label Studio: JSON tasks with a labelling configuration, and the export "JSON" (not "JSON-MIN").

An entry of the export is a task with its `data` and `annotations`; an annotation has `completed_by`,
`was_cancelled` (the task was skipped) and a `result`, one region for each control that was used
(labelstud.io/guide/task_format).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from waltz.benchmark.people.tasks import NOT_ANSWERED, MarkedText, PlatformAnswer, Task, render_bold_html
from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.sources.raw_files import read_list_entries

CONFIGURATION = Path(__file__).with_name("templates") / "label-studio.xml"
CONTROL = "answer"
SKIPPED = "skipped by the annotator"


def write_tasks(tasks: Sequence[Task], stem: Path) -> list[Path]:
    """Write `<stem>.json`, a list of tasks, and the labelling configuration `<stem>.xml`."""
    entries = [
        {
            "data": {
                "task": task.task,
                "image": task.image,
                "first": _render_html(task.first),
                "second": _render_html(task.second),
            }
        }
        for task in tasks
    ]
    task_file, configuration = stem.with_name(f"{stem.name}.json"), stem.with_name(f"{stem.name}.xml")
    write_text(task_file, json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
    write_text(configuration, CONFIGURATION.read_text(encoding="utf-8"))
    return [task_file, configuration]


def read_answers(path: Path) -> Iterator[PlatformAnswer]:
    """Yield the answers of an export; a skipped task is not answered.

    Raises:
        UserError: The file is no export of this project's tasks, or an annotation cannot be read.
    """
    for index, entry in enumerate(read_list_entries(path, "", dict)):
        where = f"{path}: entry {index}"
        data, annotations = entry.get("data"), entry.get("annotations")
        if not isinstance(annotations, list) or not isinstance(data, dict) or not isinstance(data.get("task"), str):
            raise UserError(f"{where}: no data.task or no list of annotations; export the project as JSON")
        for annotation in annotations:
            if not isinstance(annotation, dict):
                raise UserError(f"{where}: an annotation is {annotation!r}, not an object; export the project as JSON")
            answer = _read_answer(annotation, where)
            reason = NOT_ANSWERED if not answer else ""
            if annotation.get("was_cancelled"):
                answer, reason = "", SKIPPED
            yield PlatformAnswer(where, data["task"], _read_annotator(annotation, where), answer, reason)


def _render_html(text: MarkedText) -> str:
    return render_bold_html(text).replace("\n", "<br>")


def _read_answer(annotation: Mapping[str, Any], where: str) -> str:
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


def _read_annotator(annotation: Mapping[str, Any], where: str) -> str:
    """Return the number of the user, or the address where the export expands users."""
    user = annotation.get("completed_by")
    name = user.get("email", user.get("id")) if isinstance(user, dict) else user
    if name is None:
        raise UserError(f"{where}: an annotation has no completed_by; export the project as JSON")
    return str(name)
