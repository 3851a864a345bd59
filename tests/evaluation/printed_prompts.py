"""The prompts of `equations` next to those that the thesis prints, in docs/reference/prompts.md.

Run `PYTHONPATH=workflow python tests/evaluation/printed_prompts.py` after a prompt or
`printed_prompts.yaml` was changed on purpose.
"""

from collections.abc import Sequence
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict

from waltz.evaluation.prompting.prompt_files import read_prompt_file
from waltz.evaluation.prompting.prompts import build_equations_template, render_prompt
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import EQUATIONS
from waltz.models.decoders.decoder import ChatTurn

FILE = Path(__file__).with_suffix(".yaml")
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "prompts.md"
START, END = "<!-- printed prompts -->", "<!-- end of printed prompts -->"
MARKERS = {
    "none": ("", "", ""),
    "inst": ("[INST] ", " [/INST]", ""),
    "user": ("User: ", "", "Assistant:"),
    "upper": ("USER: ", "", "ASSISTANT:"),
}
"""Markers of the print: before and after a turn of the user, before one of the assistant."""


class Printed(BaseModel):
    """One prompt that the thesis prints, up to where the model's text begins."""

    model_config = ConfigDict(extra="forbid")

    source: str
    models: str
    markers: str
    question: str
    kind: str
    printed: str
    texts: dict[str, str] = {}
    difference: str = ""


class PrintedFile(BaseModel):
    """All prompts of the print, with the fields of their questions."""

    questions: dict[str, dict[str, str]]
    prompts: list[Printed]
    not_printed: dict[str, str]


def read_printed() -> PrintedFile:
    """Return the contents of the file."""
    return PrintedFile.model_validate(yaml.safe_load(FILE.read_text(encoding="utf-8")))


def render_ours(entry: Printed, fields: dict[str, str]) -> str:
    """Return our prompt with the markers of the print."""
    begin, end, assistant = MARKERS[entry.markers]

    def join(turns: Sequence[ChatTurn]) -> str:
        parts = []
        for turn in turns:
            text = turn.text.strip()
            if turn.speaker != "user":
                parts.append(f"{assistant} {text}".strip())
                continue
            # The print has a colon after the first marker of LLaVA-NeXT-Mistral.
            first = begin.replace("] ", "]: ") if turn.image else begin
            image = "<image> " if turn.image else ""
            parts.append(f"{first}{image}{text}{end}")
        if turns[-1].speaker == "user":
            parts.append(assistant)
        return " ".join(parts).strip()

    reads_images = entry.models == "images"
    shows_image = reads_images and entry.markers != "none"
    form = fields["form"]
    question = Question(
        "x:1",
        "x",
        form,
        "i.jpg" if shows_image else None,
        {name: text for name, text in fields.items() if name != "form"},
        () if form == "open" else ("A", "B"),
        ("A",),
        "B",
    )
    template = build_equations_template(
        join, read_prompt_file(EQUATIONS, reads_images=reads_images)
    )
    return render_prompt(entry.kind, question, template, entry.texts).text


def render_table() -> str:
    """Return the table of the page."""
    file = read_printed()
    lines = ["| thesis | prompt | printed | ours |", "|---|---|---|---|"]
    for entry in file.prompts:
        ours = "equal"
        if entry.difference:
            fields = file.questions[entry.question]
            ours = f"`{render_ours(entry, fields)}`: {entry.difference}"
        kind = f"`{entry.kind}`"
        if "biased" in entry.texts:
            kind += " with the remark"
        lines.append(f"| {entry.source} | {kind} | `{entry.printed}` | {ours} |")
    for kind, reason in file.not_printed.items():
        lines.append(f"| | `{kind}` | not printed | {reason} |")
    return "\n".join(lines)


def replace_table(page: str) -> str:
    """Return the page with a new table between its two markers."""
    head, _, rest = page.partition(START)
    _, _, tail = rest.partition(END)
    return f"{head}{START}\n\n{render_table()}\n\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(replace_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
