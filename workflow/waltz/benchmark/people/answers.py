"""What comes back from a platform, before it is known which item it is about."""

import html
from dataclasses import dataclass

from waltz.benchmark.people.tasks import MarkedText

NOT_ANSWERED = "not answered"


@dataclass(frozen=True)
class GivenAnswer:
    """One annotator's answer to one task, as the platform tells it.

    Attributes:
        where: File and line or entry, for error messages.
        task: Name of the task.
        annotator: Who answered.
        answer: The answer as presented; empty where there is none that counts.
        reason: Why there is none, else empty.
    """

    where: str
    task: str
    annotator: str
    answer: str
    reason: str = ""


def bold_html(text: MarkedText) -> str:
    """A text as HTML, what differs in `<b>`."""
    before, marked, after = map(html.escape, (text.before, text.marked, text.after))
    return f"{before}<b>{marked}</b>{after}" if marked else before + after
