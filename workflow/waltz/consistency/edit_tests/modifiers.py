"""The adjectives and adverbs of WordNet 3.0 that counterfactual edits insert.

    python -m waltz.consistency.edit_tests.modifiers DICT OUT

writes to the folder OUT, from WordNet's folder DICT, how often each word is among those that the released code draws
from.
"""

import re
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from waltz.consistency.edit_tests.settings import Profile
from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.foils.english.wordnet import WORDNET_FOLDER, read_entries, read_lines, read_words

Modifier = Literal["adjectives", "adverbs"]
FILES: dict[Modifier, str] = {"adjectives": "data.adj", "adverbs": "data.adv"}
LETTERS: dict[str, Modifier] = {"a": "adjectives", "r": "adverbs"}
"""The parts of speech as WordNet names them."""

COUNTS = "modifiers.tsv"
MARKER = re.compile(r"\((?:a|p|ip)\)$")
"""Where an adjective may stand, as WordNet writes it behind the word."""


@cache
def list_modifiers(kind: Modifier, profile: Profile, folder: str | Path = WORDNET_FOLDER) -> tuple[str, ...]:
    """Return the words from which one is drawn, sorted.

    `published` has a word as often as it has senses, with the capitals of WordNet, and phrases with underscores for
    spaces, as the released code inserts them. `equations` has each single word once.

    Args:
        kind: Adjectives, for nouns, or adverbs, for verbs.
        profile: Fidelity profile.
        folder: Folder of the lists.
    Raises:
        UserError: A file is missing or malformed.
    """
    single = read_words(kind, folder)
    if profile == "equations":
        return tuple(sorted(single))
    counts = dict.fromkeys(single, 1) | _read_counts(Path(folder) / COUNTS)[kind]
    return tuple(word for word in sorted(counts) for _ in range(counts[word]))


def extract_counts(dictionary: str | Path, folder: str | Path) -> str:
    """Return the text of `modifiers.tsv`: words whose number of senses differs from the lists of single words.

    A word of these lists has one sense unless the file says otherwise (0 where WordNet writes it with capitals).

    Args:
        dictionary: WordNet's folder with data.adj and data.adv.
        folder: Where `adjectives.txt` and `adverbs.txt` lie.
    Raises:
        UserError: A file is missing or of another version.
    """
    lines = []
    for letter, kind in LETTERS.items():
        senses = _count_senses(Path(dictionary) / FILES[kind])
        implied = read_words(kind, folder)
        words = sorted(set(senses) | implied)
        lines += [f"{letter}\t{word}\t{senses[word]}" for word in words if senses[word] != (word in implied)]
    return "\n".join(lines) + "\n"


def _count_senses(path: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    for fields in map(str.split, read_entries(path)):
        counts.update(MARKER.sub("", word) for word in fields[4 : 4 + 2 * int(fields[3], 16) : 2])
    return counts


def _read_counts(path: Path) -> dict[Modifier, dict[str, int]]:
    counts: dict[Modifier, dict[str, int]] = {kind: {} for kind in FILES}
    for number, line in enumerate(read_lines(path), 1):
        cells = line.split("\t")
        if len(cells) != 3 or cells[0] not in LETTERS or not cells[2].isdecimal():
            raise UserError(
                f"malformed line: {path}:{number} (expected a or r, a word and a count); extract the file again"
            )
        counts[LETTERS[cells[0]]][cells[1]] = int(cells[2])
    return counts


def main(arguments: Sequence[str]) -> None:
    """Extract the counts: WordNet's folder, and the folder of the lists, which they are written to.

    Raises:
        UserError: Other than two arguments, or a file is missing.
    """
    if len(arguments) != 2:
        raise UserError("usage: python -m waltz.consistency.edit_tests.modifiers DICT OUT")
    write_text(Path(arguments[1]) / COUNTS, extract_counts(arguments[0], arguments[1]))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(str(error))
