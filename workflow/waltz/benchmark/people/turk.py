"""Amazon Mechanical Turk: a batch CSV with its HTML layout, and the CSV of a batch's results.

Results come from "Download CSV" on a batch's review page of the requester site: `WorkerId`,
`AssignmentStatus`, the batch's columns as `Input.<name>` and the answer, which Crowd HTML elements write as JSON into
`Answer.taskAnswers`, with `answer-format="flatten-objects"` as `Answer.answer.<option>`, and a plain form as
`Answer.answer`.
"""

import csv
import html
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from waltz.benchmark.people.tasks import NOT_ANSWERED, PlatformAnswer, Task, render_bold_html
from waltz.benchmark.votes import ANSWERS
from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.sources.raw_files import read_csv_records

LAYOUT = Path(__file__).with_name("templates") / "turk.html"
COLUMNS = ("task", "image_url", "first", "second")
REJECTED = "rejected by the requester"


def write_tasks(tasks: Sequence[Task], stem: Path) -> list[Path]:
    """Write `<stem>.csv`, one line for each task, and the layout `<stem>.html`, which shows one task."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for task in tasks:
        image = html.escape(task.image)
        writer.writerow(
            [task.task, *map(_escape_for_site, (image, render_bold_html(task.first), render_bold_html(task.second)))]
        )
    batch, layout = stem.with_name(f"{stem.name}.csv"), stem.with_name(f"{stem.name}.html")
    write_text(batch, text.getvalue())
    write_text(layout, LAYOUT.read_text(encoding="utf-8"))
    return [batch, layout]


def read_answers(path: Path) -> Iterator[PlatformAnswer]:
    """Yield the answers of a batch's results; rejected assignments are not answered.

    Raises:
        UserError: A column is missing, or a cell cannot be read.
    """
    for line, record in read_csv_records(path, required=("WorkerId", "AssignmentStatus", "Input.task")):
        where = f"{path}: line {line}"
        answer = _read_answer(record, where)
        reason = NOT_ANSWERED if not answer else ""
        if record["AssignmentStatus"].strip().lower() == "rejected":
            answer, reason = "", REJECTED
        yield PlatformAnswer(where, record["Input.task"].strip(), record["WorkerId"].strip(), answer, reason)


def _escape_for_site(markup: str) -> str:
    """Return HTML in ASCII on one line without `$`: the site refuses four-byte characters and replaces `${…}`."""
    escaped = markup.replace("$", "&#36;").replace("\r", "&#13;").replace("\n", "&#10;")
    return escaped.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _read_answer(record: Mapping[str, str], where: str) -> str:
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
        forms = json.loads(cell)
        return forms[0].get("answer", "")
    except (json.JSONDecodeError, AttributeError, IndexError, KeyError, TypeError):
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
