"""Relations of WordNet 3.0 among the verbs and nouns of SWiG, and its adjectives, adverbs and nouns by kind.

`python -m tools.extract_wordnet` writes the tables that are read here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from waltz.core.errors import UserError
from waltz.core.files.resources import RESOURCES

WORDNET_FOLDER = RESOURCES / "wordnet"
"""Folder of the extracted tables."""

COLUMNS = ("verb", "base", "synonyms", "antonyms", "hypernyms", "hyponyms")

Relation = Literal["antonym", "synonym", "hypernym", "hyponym"]
RELATIONS: tuple[Relation, ...] = ("synonym", "antonym", "hypernym", "hyponym")
"""The relations, in the order of their columns in `verbs.tsv`."""
PRECEDENCE: tuple[Relation, ...] = ("antonym", "synonym", "hypernym", "hyponym")
"""The relations; of several relations between two verbs the first one counts."""


@dataclass(frozen=True)
class SwigVerb:
    """A verb of SWiG, and the verbs of SWiG to which any of its senses is related.

    Attributes:
        name: The verb as an -ing form.
        base: Base form.
        related: Names of verbs by relation: synonyms share a synset with the verb, antonyms have a
            contrary sense, hypernyms are directly above one of its synsets, hyponyms directly below.
    """

    name: str
    base: str
    related: Mapping[Relation, frozenset[str]]

    def find_relation(self, verb: str) -> Relation | None:
        """Return the first of four relations that a verb has to this verb in any sense; None
        without a relation.
        """
        for relation in PRECEDENCE:
            if verb in self.related[relation]:
                return relation
        return None


@cache
def read_swig_verbs(folder: str | Path = WORDNET_FOLDER) -> Mapping[str, SwigVerb]:
    """Return the 504 verbs of SWiG by name, with their relations."""
    path = Path(folder) / "verbs.tsv"
    verbs = {}
    # The first line names the columns.
    for number, line in enumerate(read_lines(path)[1:], 2):
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            raise UserError(
                f"{path}: line {number} has {len(cells)} columns, not {len(COLUMNS)}; extract it again"
            )
        name, base, *related = cells
        names = (frozenset(cell.split()) for cell in related)
        verbs[name] = SwigVerb(name, base, dict(zip(RELATIONS, names, strict=True)))
    return verbs


@cache
def read_words(
    kind: Literal["adjectives", "adverbs", "people", "animals", "things", "abstract"],
    folder: str | Path = WORDNET_FOLDER,
) -> frozenset[str]:
    """Return all adjectives, all adverbs, or all nouns that name people, animals, things or
    something abstract in their most frequent sense; they are single words in lower case.
    """
    return frozenset(read_lines(Path(folder) / f"{kind}.txt"))


@cache
def read_hypernyms(
    folder: str | Path = WORDNET_FOLDER,
) -> Mapping[str, tuple[str, ...]]:
    """Return for each noun synset of SWiG, and each synset above it, the synsets directly above.

    Synsets are in the spelling of imSitu (n00007846).
    """
    cells = (line.split("\t") for line in read_lines(Path(folder) / "nouns.tsv"))
    return {synset: tuple(above.split()) for synset, above in cells}


def is_kind_of(
    lower: str | None, higher: str | None, hypernyms: Mapping[str, Sequence[str]]
) -> bool:
    """Return True where a noun synset equals or lies below a higher synset; False for unknown
    synsets.

    Args:
        lower: Synset in the spelling of imSitu, as all synsets here; None where it is not known.
        hypernyms: Synsets directly above each synset.
    """
    if lower is None:
        return False
    if lower == higher:
        return True
    parents = hypernyms.get(lower, ())
    return any(is_kind_of(parent, higher, hypernyms) for parent in parents)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file."""
    if not path.is_file():
        raise UserError(
            f"{path}: no such file; see docs/explanation/foils-actions.md on where WordNet's files come from"
        )
    return path.read_text(encoding="utf-8").splitlines()
