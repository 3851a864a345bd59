"""The command `waltz foil`: captions and foils that an instrument proposes for a text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from waltz.cli.output import show_error
from waltz.core.errors import UserError
from waltz.core.memory import check_address_space
from waltz.core.text_diff import Span, fold_text, slice_span

if TYPE_CHECKING:
    from waltz.foils.candidates import Candidate, Refusal

app = typer.Typer(add_completion=False, rich_markup_mode=None)
FIELDS = ("caption", "foil", "caption_span", "foil_span", "direction")
"""Fields of a candidate that its JSON object holds."""


@app.command()
def foil_command(
    text: Annotated[
        str,
        typer.Argument(
            help="A text, or - to read one text per line from standard input."
        ),
    ],
    instrument: Annotated[
        str, typer.Option(help="plurality, existence, counting-small, ...")
    ] = "plurality",
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object per candidate and line."),
    ] = False,
) -> None:
    """Print the candidates of a text: its caption and its foil, with the exchanged words in square
    brackets.
    """
    # Bytes are read and decoded line by line, so that an error can name its line.
    texts = _read_lines(sys.stdin.buffer) if text == "-" else [text]
    if not fold_text(text):
        raise UserError(f"text: empty (got {text!r}, expected words); write a text")
    check_address_space()
    # spaCy takes seconds to import.
    from waltz.foils.single_text import build_from_texts

    for source_text, candidates in build_from_texts(instrument, texts):
        for candidate in candidates:
            _print_candidate(source_text, candidate, as_json)


def _print_candidate(
    source_text: str, candidate: Candidate | Refusal, as_json: bool
) -> None:
    """Print a candidate; if the text has no candidate, or the candidate is not a foil, print the
    reason to stderr.
    """
    from waltz.foils.candidates import Refusal

    if isinstance(candidate, Refusal):
        show_error(f"{source_text!r}: {candidate.reason}")
        return
    if candidate.rejected:
        show_error(
            f"{source_text!r}: {candidate.foil!r} is not a foil: {candidate.rejected}"
        )
        return
    if as_json:
        fields = {name: getattr(candidate, name) for name in FIELDS}
        content = {"source_text": source_text, **fields}
        typer.echo(json.dumps(content, ensure_ascii=False))
        return
    caption = _mark(candidate.caption, candidate.caption_span)
    typer.echo(f"{caption}\n{_mark(candidate.foil, candidate.foil_span)}\n")


def _read_lines(file: BinaryIO) -> Iterator[str]:
    """Yield the lines of a file that are not empty, as texts.

    Raises:
        UserError: A line is not UTF-8.
    """
    for number, line in enumerate(file, 1):
        try:
            text = line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise UserError(
                f"standard input: line {number}: no UTF-8 (got 0x{line[error.start]:02x} at byte"
                f" {error.start}); write it in UTF-8"
            ) from None
        if text:
            yield text


def _mark(text: str, span: Span) -> str:
    return f"{text[: span['start']]}[{slice_span(text, span)}]{text[span['end'] :]}"
