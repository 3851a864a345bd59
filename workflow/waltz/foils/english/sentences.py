"""Sentences that are written from their parts."""


def capitalize(text: str) -> str:
    """Return a text with a capital at its start; all other letters stay as they are."""
    return text[:1].upper() + text[1:]


def write_sentence(*parts: str) -> str:
    """Return the sentence of some words or phrases, with a capital at its start and a full stop.

    Empty parts leave no double spaces.
    """
    words = " ".join(parts).split()
    return f"{capitalize(' '.join(words))}."
