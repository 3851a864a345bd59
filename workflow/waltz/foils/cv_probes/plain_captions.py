"""CV-Probes: plain captions, which people write without the action, and captions reduced to subject, verb, object."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spacy.tokens import Doc, Token

from waltz.foils.candidates import Refusal
from waltz.foils.cv_probes.contextual_captions import list_forms
from waltz.foils.english.parsing import parse
from waltz.foils.english.wordnet import Verb
from waltz.sources.fields import join_lines, read_field, read_strings
from waltz.sources.raw_files import read_object_entries

SUBJECTS = frozenset({"nsubj", "nsubjpass", "expl", "csubj"})
COMPLEMENTS = frozenset({"dobj", "attr", "acomp", "oprd"})
WITHIN_VERB = frozenset({"aux", "auxpass", "neg", "prt"})
WITHIN_NOUN = frozenset({"det", "nummod", "compound", "poss", "case", "predet", "quantmod"})


@dataclass(frozen=True)
class ImageDescriptions:
    """Descriptions of an image with an action, where the scenes' own texts replace those of people.

    Attributes:
        image: Its name.
        verb: The action, an -ing form.
        still: Name of the same picture without the action, used instead of one from retrieval.
        contextual: Sentences that name the action.
        plain: Sentences that avoid it.
    """

    image: str
    verb: str
    still: str
    contextual: tuple[str, ...]
    plain: tuple[str, ...]


def read_descriptions(path: str | Path) -> Iterator[ImageDescriptions]:
    """Yield the images of a `descriptions.json`, in file order.

    Raises:
        UserError: Malformed JSON, a missing or mistyped field.
    """
    for image, entry in read_object_entries(path, ""):
        place = f"{path}: image {image!r}"
        yield ImageDescriptions(
            image,
            read_field(entry, "verb", str, place),
            read_field(entry, "still", str, place),
            tuple(read_strings(entry, "contextual", place)),
            tuple(read_strings(entry, "plain", place)),
        )


def list_scene_captions(descriptions: Iterable[ImageDescriptions]) -> list[dict[str, Any]]:
    """Return the plain descriptions as captions of the writer `scenes`."""
    return [
        {"image": entry.image, "verb": entry.verb, "writer": "scenes", "caption": caption, "plain_image": entry.still}
        for entry in descriptions
        for caption in entry.plain
    ]


def review_captions(
    captions: Iterable[Mapping[str, Any]], verbs: Mapping[str, Verb], contextual: Sequence[str]
) -> list[dict[str, Any]]:
    """Review written captions: return them with `rejected`, the reason why a caption cannot be used.

    A caption is rejected for any form of the image's own verb, whatever its part of speech, for a synonym of it used as
    a verb, and for another contextual verb used as a verb; also where it is empty or repeats one of the image.

    Args:
        captions: Rows of image, verb, writer and caption; further columns stay.
        verbs: SWiG's verbs by name.
        contextual: The verbs of the study.
    """
    rows = [{**row, "caption": join_lines(row["caption"])} for row in captions]
    earlier: set[tuple[str, str]] = set()
    for row, doc in zip(rows, parse(row["caption"] for row in rows), strict=True):
        key = (row["image"], " ".join(row["caption"].lower().rstrip(". ").split()))
        row["rejected"] = (
            "written before for this image"
            if key in earlier
            else _explain_rejection(doc, verbs, row["verb"], contextual)
        )
        earlier.add(key)
    return rows


def _explain_rejection(doc: Doc, verbs: Mapping[str, Verb], name: str, contextual: Sequence[str]) -> str | None:
    words = {token.lower_ for token in doc if token.is_alpha}
    if not words:
        return "empty"
    if words & list_forms(verbs[name]):
        return "uses the contextual verb"
    verb_words = {token.lower_ for token in doc if token.pos_ == "VERB"}
    if any(verb_words & list_forms(verbs[synonym]) for synonym in verbs[name].synonyms):
        return "uses a synonym of the contextual verb"
    if any(verb_words & list_forms(verbs[verb]) for verb in contextual):
        return "uses another contextual verb"
    return None


def simplify_caption(doc: Doc) -> str | Refusal:
    """Return subject, verb and object of a caption's main clause, with their articles, numerals and possessives.

    Where there is no object, the first phrase with a preposition is used ("A boy is in the snow.").

    Args:
        doc: The parse of one caption.
    """
    root = next((token for token in doc if token.dep_ == "ROOT"), None)
    if root is None or root.pos_ not in ("VERB", "AUX"):
        return Refusal("no main verb is found")
    subjects = [child for child in root.children if child.dep_ in SUBJECTS]
    if not subjects:
        return Refusal("no subject is found")
    tokens = {token for subject in subjects for token in _collect_noun(subject)} | {root}
    tokens |= {child for child in root.children if child.dep_ in WITHIN_VERB}
    after = [child for child in root.children if child.i > root.i]
    objects = [child for child in after if child.dep_ in COMPLEMENTS]
    phrases = [child for child in after if child.dep_ in ("prep", "agent")]
    # "is next to a dog": the adjective or adverb after `be` carries the phrase that completes it.
    predicatives = [child for child in after if child.dep_ in ("acomp", "advmod") and root.lemma_ == "be"]
    tokens |= {token for child in (*objects, *predicatives) for token in _collect_noun(child)}
    phrases = [part for child in predicatives for part in child.children if part.dep_ == "prep"] + phrases
    if phrases and (predicatives or not objects):
        tokens |= _collect_phrase(phrases[0])
    words = " ".join(token.text for token in sorted(tokens, key=lambda token: token.i))
    return f"{words[:1].upper()}{words[1:]}."


def _collect_noun(head: Token) -> set[Token]:
    """Return a noun with its determiners, its conjuncts, and a phrase with "of" ("a group of people")."""
    tokens = {head} | {child for child in head.children if child.dep_ in WITHIN_NOUN}
    for child in head.children:
        if child.dep_ in ("cc", "conj"):
            tokens |= _collect_noun(child)
        elif child.dep_ == "prep" and child.lower_ == "of":
            tokens |= _collect_phrase(child)
    return tokens


def _collect_phrase(preposition: Token) -> set[Token]:
    tokens = {preposition}
    for child in preposition.children:
        tokens |= _collect_phrase(child) if child.dep_ in ("prep", "pcomp") else _collect_noun(child)
    return tokens
