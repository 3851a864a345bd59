"""WordNet 3.0: relations among SWiG's verbs and nouns, and the adjectives and adverbs.

    python -m waltz.foils.english.wordnet DICT VERBS NOUNS OUT

writes them to the folder OUT from the files of WordNet's folder DICT, SWiG's list of verbs (-ing forms) and its list of
noun classes (synsets, `train_classes.csv`). The files of WordNet are parsed here because the distributions of
WordNet 3.0 lack files that nltk's reader needs.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from lemminflect import getAllLemmas

from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.core.files.resources import RESOURCES

VERSION = "WordNet 3.0"

WORDNET_FOLDER = RESOURCES / "wordnet"
"""The extracted files."""

COLUMNS = ("verb", "base", "synonyms", "antonyms", "hypernyms", "hyponyms")

Relation = Literal["antonym", "synonym", "hypernym", "hyponym"]

POINTERS: dict[str, Relation] = {"!": "antonym", "@": "hypernym", "~": "hyponym"}

SINGLE_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")


@dataclass(frozen=True)
class Verb:
    """A verb of SWiG by its -ing form, and the verbs of SWiG that it is related to in any of its senses.

    Synonyms share a synset with it; hypernyms and hyponyms are directly above and below one of its own.
    """

    name: str
    base: str
    synonyms: frozenset[str]
    antonyms: frozenset[str]
    hypernyms: frozenset[str]
    hyponyms: frozenset[str]

    def find_relation(self, verb: str) -> Relation | None:
        """Return the first of these four relations that a verb has to this one in any sense; None where it has none."""
        relations: tuple[tuple[Relation, frozenset[str]], ...] = (
            ("antonym", self.antonyms),
            ("synonym", self.synonyms),
            ("hypernym", self.hypernyms),
            ("hyponym", self.hyponyms),
        )
        return next((relation for relation, verbs in relations if verb in verbs), None)


@cache
def read_verbs(folder: str | Path = WORDNET_FOLDER) -> Mapping[str, Verb]:
    """Return SWiG's 504 verbs by name, with their relations."""
    path = Path(folder) / "verbs.tsv"
    lines = read_lines(path)
    if not lines or tuple(lines[0].split("\t")) != COLUMNS:
        raise UserError(f"{path}: the first line does not name the columns {', '.join(COLUMNS)}; extract it anew")
    verbs = {}
    for number, line in enumerate(lines[1:], 2):
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            raise UserError(f"{path}: line {number} has {len(cells)} columns, not {len(COLUMNS)}; extract it anew")
        name, base, *related = cells
        verbs[name] = Verb(name, base, *(frozenset(cell.split()) for cell in related))
    return verbs


@cache
def read_words(kind: Literal["adjectives", "adverbs"], folder: str | Path = WORDNET_FOLDER) -> frozenset[str]:
    """Return every single word that is an adjective, or an adverb, in lower case."""
    return frozenset(read_lines(Path(folder) / f"{kind}.txt"))


@cache
def read_nouns(folder: str | Path = WORDNET_FOLDER) -> Mapping[str, tuple[str, ...]]:
    """Return the synsets directly above each noun synset of SWiG, and above those, in imSitu's spelling (n00007846)."""
    cells = (line.split("\t") for line in read_lines(Path(folder) / "nouns.tsv"))
    return {synset: tuple(above.split()) for synset, above in cells}


def is_kind_of(lower: str, higher: str, nouns: Mapping[str, Sequence[str]]) -> bool:
    """Return True where a noun synset equals another one or lies below it; False for unknown ones.

    Synsets are in imSitu's spelling; `nouns` has those directly above each.
    """
    return lower == higher or any(is_kind_of(parent, higher, nouns) for parent in nouns.get(lower, ()))


def extract_resource(dictionary: str | Path, verbs: Sequence[str], nouns: Sequence[str]) -> dict[str, str]:
    """Return the texts of `verbs.tsv`, `nouns.tsv`, `adjectives.txt` and `adverbs.txt`.

    Args:
        dictionary: WordNet's folder with data.verb, data.noun (or its parts, data.noun1 and on), index.adj, index.adv.
        nouns: Synsets in imSitu's spelling; those that WordNet does not know are skipped.
    """
    root = Path(dictionary)
    synsets = dict(_read_synsets(root / "data.verb"))
    senses: dict[str, set[str]] = {}
    for synset, (words, _) in synsets.items():
        for word in words:
            senses.setdefault(word, set()).add(synset)
    bases = {verb: find_base_form(verb, senses) for verb in verbs}
    lines = ["\t".join(COLUMNS)]
    for verb in verbs:
        related = _find_related(bases[verb], synsets, senses)
        cells = (
            " ".join(sorted(name for name in verbs if name != verb and bases[name] in related[relation]))
            for relation in ("synonym", "antonym", "hypernym", "hyponym")
        )
        lines.append("\t".join((verb, bases[verb], *cells)))
    tables = {
        "verbs.tsv": lines,
        "nouns.tsv": _list_hypernyms(root, nouns),
        "adjectives.txt": _read_lemmas(root / "index.adj"),
        "adverbs.txt": _read_lemmas(root / "index.adv"),
    }
    return {name: "\n".join(lines) + "\n" for name, lines in tables.items()}


def find_base_form(name: str, senses: Mapping[str, object]) -> str:
    """Return the base form of an -ing form: the first lemma that WordNet knows, else the form without `ing`."""
    lemmas = getAllLemmas(name, upos="VERB").get("VERB", ())
    stem = name.removesuffix("ing")
    return next((lemma for lemma in lemmas if lemma in senses), stem)


def _find_related(base: str, synsets: "Synsets", senses: Mapping[str, set[str]]) -> dict[Relation, set[str]]:
    related: dict[Relation, set[str]] = {"synonym": set(), "antonym": set(), "hypernym": set(), "hyponym": set()}
    for synset in senses.get(base, ()):
        words, pointers = synsets[synset]
        related["synonym"].update(words)
        for symbol, target, kind, ends in pointers:
            if symbol not in POINTERS or kind != "v":
                continue
            # A pointer between words, not synsets, numbers the two words from 1 in hexadecimal; antonymy is of words.
            source, goal = int(ends[:2], 16), int(ends[2:], 16)
            if source and words[source - 1] != base:
                continue
            target_words = synsets[target][0]
            related[POINTERS[symbol]].update([target_words[goal - 1]] if goal else target_words)
    return related


def _list_hypernyms(root: Path, nouns: Sequence[str]) -> list[str]:
    hypernyms: dict[str, list[str]] = {}
    for part in sorted(root.glob("data.noun*")) or [root / "data.noun"]:
        for synset, (_, pointers) in _read_synsets(part):
            parents = [target for symbol, target, kind, _ in pointers if symbol in ("@", "@i") and kind == "n"]
            hypernyms[f"n{synset}"] = [f"n{target}" for target in parents]
    queue = [noun for noun in nouns if noun in hypernyms]
    reached = set(queue)
    for noun in queue:
        queue += [parent for parent in hypernyms[noun] if parent not in reached]
        reached.update(hypernyms[noun])
    return [f"{noun}\t{' '.join(hypernyms[noun])}" for noun in sorted(reached)]


Synsets = Mapping[str, tuple[list[str], list[tuple[str, str, str, str]]]]
"""Words of each synset, and its pointers: symbol, target, part of speech, the two words that it links."""


def _read_synsets(path: Path) -> Iterator[tuple[str, tuple[list[str], list[tuple[str, str, str, str]]]]]:
    # The second part of a file that a package split has no head.
    for line in read_lines(path) if path.suffix == ".noun2" else read_entries(path):
        fields = line.split("|")[0].split()
        end = 4 + 2 * int(fields[3], 16)
        first = end + 1
        pointers = [
            (fields[index], fields[index + 1], fields[index + 2], fields[index + 3])
            for index in range(first, first + 4 * int(fields[end]), 4)
        ]
        yield fields[0], ([word.lower() for word in fields[4:end:2]], pointers)


def _read_lemmas(path: Path) -> list[str]:
    words = (line.split(" ", 1)[0] for line in read_entries(path))
    return sorted(word for word in words if SINGLE_WORD.fullmatch(word))


def read_entries(path: Path) -> list[str]:
    """Return the lines of one of WordNet's files after its head."""
    lines = read_lines(path)
    if not any(VERSION in line for line in lines if line.startswith("  ")):
        raise UserError(f"{path}: its head does not say {VERSION}; give the folder of that version's dict files")
    return [line for line in lines if not line.startswith("  ")]


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file."""
    if not path.is_file():
        raise UserError(
            f"{path}: no such file; see docs/explanation/foils-actions.md on where WordNet's files come from"
        )
    return path.read_text(encoding="utf-8").splitlines()


def main(arguments: Sequence[str]) -> None:
    """Extract the resource: WordNet's folder, SWiG's lists of verbs and of nouns, the folder to write to."""
    if len(arguments) != 4:
        raise UserError("usage: python -m waltz.foils.english.wordnet DICT VERBS NOUNS OUT")
    dictionary, verbs, nouns, out = map(Path, arguments)
    names = [line.strip() for line in read_lines(verbs) if line.strip()]
    for name, text in extract_resource(dictionary, names, [line.split(",")[0] for line in read_lines(nouns)]).items():
        write_text(out / name, text)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(str(error))
