"""CV-Probes: plain captions, which people write without the action, and captions cut down to subject, verb, object."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spacy.tokens import Doc, Token

from waltz.foils.candidates import Refused
from waltz.foils.cv_probes.contextual_captions import forms
from waltz.foils.english.parsing import parse
from waltz.foils.english.wordnet import Verb
from waltz.sources.fields import join_lines, read_field, read_strings
from waltz.sources.raw_files import read_object_entries

SUBJECTS = frozenset({"nsubj", "nsubjpass", "expl", "csubj"})
COMPLEMENTS = frozenset({"dobj", "attr", "acomp", "oprd"})
WITHIN_VERB = frozenset({"aux", "auxpass", "neg", "prt"})
WITHIN_NOUN = frozenset({"det", "nummod", "compound", "poss", "case", "predet", "quantmod"})


@dataclass(frozen=True)
class Described:
    """Descriptions of an image with an action, in which the scenes' own words stand in for those of people.

    Attributes:
        image: Its name.
        verb: The action, an -ing form.
        still: Name of the same picture without the action, which stands in for one that is found by retrieval.
        contextual: Sentences that name the action.
        plain: Sentences that avoid it.
    """

    image: str
    verb: str
    still: str
    contextual: tuple[str, ...]
    plain: tuple[str, ...]


def read_descriptions(path: str | Path) -> Iterator[Described]:
    """The images of a `descriptions.json`, in file order.

    Raises:
        UserError: Malformed JSON, a missing or mistyped field.
    """
    for image, entry in read_object_entries(path, ""):
        place = f"{path}: image {image!r}"
        yield Described(
            image,
            read_field(entry, "verb", str, place),
            read_field(entry, "still", str, place),
            tuple(read_strings(entry, "contextual", place)),
            tuple(read_strings(entry, "plain", place)),
        )


def written_by_scenes(described: Iterable[Described]) -> list[dict[str, Any]]:
    """The plain descriptions as if they were written captions, the writer `scenes`."""
    return [
        {"image": entry.image, "verb": entry.verb, "writer": "scenes", "caption": caption, "plain_image": entry.still}
        for entry in described
        for caption in entry.plain
    ]


def reviewed(
    written: Iterable[Mapping[str, Any]], verbs: Mapping[str, Verb], contextual: Sequence[str]
) -> list[dict[str, Any]]:
    """Written captions with `rejected`: the review that drops those with a contextual verb.

    Dropped is any form of the image's own verb, whatever its part of speech, a synonym of it used as a verb, and
    another contextual verb used as a verb; also what is empty and what was written for the image before.

    Args:
        written: Rows of image, verb, writer and caption; further columns are kept.
        verbs: SWiG's verbs by name.
        contextual: The verbs of the study.
    """
    rows = [{**row, "caption": join_lines(row["caption"])} for row in written]
    seen: set[tuple[str, str]] = set()
    for row, doc in zip(rows, parse(row["caption"] for row in rows), strict=True):
        key = (row["image"], " ".join(row["caption"].lower().rstrip(". ").split()))
        row["rejected"] = (
            "written before for this image" if key in seen else _reason(doc, verbs, row["verb"], contextual)
        )
        seen.add(key)
    return rows


def _reason(doc: Doc, verbs: Mapping[str, Verb], name: str, contextual: Sequence[str]) -> str | None:
    words = {token.lower_ for token in doc if token.is_alpha}
    if not words:
        return "empty"
    if words & forms(verbs[name]):
        return "uses the contextual verb"
    acting = {token.lower_ for token in doc if token.pos_ == "VERB"}
    if any(acting & forms(verbs[other]) for other in verbs[name].synonyms):
        return "uses a synonym of the contextual verb"
    if any(acting & forms(verbs[other]) for other in contextual):
        return "uses another contextual verb"
    return None


def simplified(doc: Doc) -> str | Refused:
    """Subject, verb and object of a caption's main clause, with their articles, numerals and possessives.

    Where there is no object, the first phrase with a preposition takes its place ("A boy is in the snow.").

    Args:
        doc: The parse of one caption.
    """
    root = next((token for token in doc if token.dep_ == "ROOT"), None)
    if root is None or root.pos_ not in ("VERB", "AUX"):
        return Refused("no main verb is found")
    subjects = [child for child in root.children if child.dep_ in SUBJECTS]
    if not subjects:
        return Refused("no subject is found")
    kept = {token for subject in subjects for token in _noun(subject)} | {root}
    kept |= {child for child in root.children if child.dep_ in WITHIN_VERB}
    after = [child for child in root.children if child.i > root.i]
    objects = [child for child in after if child.dep_ in COMPLEMENTS]
    phrases = [child for child in after if child.dep_ in ("prep", "agent")]
    # "is next to a dog": the adjective or adverb after `be` carries the phrase that completes it.
    led = [child for child in after if child.dep_ in ("acomp", "advmod") and root.lemma_ == "be"]
    kept |= {token for child in (*objects, *led) for token in _noun(child)}
    phrases = [part for child in led for part in child.children if part.dep_ == "prep"] + phrases
    if phrases and (led or not objects):
        kept |= _phrase(phrases[0])
    words = " ".join(token.text for token in sorted(kept, key=lambda token: token.i))
    return f"{words[:1].upper()}{words[1:]}."


def _noun(head: Token) -> set[Token]:
    """A noun with its determiners and what it is joined to by `and`; "a group of" keeps what it is a group of."""
    kept = {head} | {child for child in head.children if child.dep_ in WITHIN_NOUN}
    for child in head.children:
        if child.dep_ in ("cc", "conj"):
            kept |= _noun(child)
        elif child.dep_ == "prep" and child.lower_ == "of":
            kept |= _phrase(child)
    return kept


def _phrase(preposition: Token) -> set[Token]:
    kept = {preposition}
    for child in preposition.children:
        kept |= _phrase(child) if child.dep_ in ("prep", "pcomp") else _noun(child)
    return kept
