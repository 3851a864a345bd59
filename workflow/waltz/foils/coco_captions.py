"""COCO captions as they are parsed for plurality and relations."""

from collections.abc import Iterable, Iterator

from spacy.tokens import Doc

from waltz.foils.english.parsing import parse


def readable(caption: str) -> str:
    """A caption on one line with a capital at its start; one that is mostly capitals has no others."""
    text = " ".join(caption.split())
    letters = [letter for letter in text if letter.isalpha()]
    if len(letters) > 1 and sum(map(str.isupper, letters)) > len(letters) / 2:
        text = text.lower()
    return text[:1].upper() + text[1:]


def parsed(captions: Iterable[str]) -> Iterator[Doc]:
    """Parses of captions made readable, in order; the text of a parse is the caption that its candidates change."""
    return parse(map(readable, captions))
