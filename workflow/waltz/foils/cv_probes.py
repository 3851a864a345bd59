"""CV-Probes: contextual captions, which name a context-dependent action, plain captions, and the
four conditions.

Contextual captions: each of the three annotations of an imSitu image fills the abstract of the
verb, and rules or a language model with the prompt of the paper repair the sentence. People write
the plain captions. In three of the four conditions caption and image match; a contextual caption
does not match a plain image. Source: CV-Probes, arXiv 2409.01389.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lemminflect import getAllInflections, getLemma
from spacy.tokens import Doc, Token

from waltz.core.errors import CONTROL_TOKEN, ItemError, UserError
from waltz.core.sampling import rank
from waltz.core.text_diff import Span, are_same_text
from waltz.foils.candidates import Refusal
from waltz.foils.english.main_verbs import find_main_verb, find_subjects
from waltz.foils.english.parsing import parse
from waltz.foils.english.wordnet import Verb, read_verbs
from waltz.foils.swig import (
    AUXILIARIES,
    ROLE,
    Filler,
    RolePosition,
    order_frame,
    render_complement,
)
from waltz.sources.raw_entry import RawEntry
from waltz.sources.raw_files import (
    join_lines,
    read_object_entries,
)

VERBS = (
    "admiring", "apprehending", "autographing", "baptizing", "begging", "browsing", "buying", "celebrating", "chasing",
    "cheerleading", "coaching", "competing", "congregating", "counting", "educating", "exercising", "frisking",
    "guarding", "hitchhiking", "hunting", "interrogating", "interviewing", "praying", "protesting", "racing",
    "studying", "voting",
)  # fmt: skip
"""The 27 context-dependent verbs; `brows` in the paper is browsing."""

IMAGES_PER_VERB = 5
"""Number of images of each verb that a study uses by default."""

REPAIR_PROMPT = """\
Fix grammatical mistakes in the following sentences according to the following rules:
Do not change the meaning of the sentence.
Do not change the words in the sentence.
Add or remove only articles or prepositions if necessary. Change all sentences to present simple tense. \
Begin all sentences with indefinite article. Here are the sentences:
"""
"""The prompt of appendix A.2, table 9; the sentence follows it."""
LIST_SIGN = re.compile(r"^(?:\d+[.)]|[-*•])\s+")
"""Number or sign before a sentence of a list."""

MAY_CHANGE = frozenset({
    "a", "an", "the", "some", "his", "her", "its", "their", "another", "and", "about", "against", "along",
    "among", "around", "as", "at", "behind", "beside", "by", "down", "during", "for", "from", "in", "inside", "into",
    "near", "of", "off", "on", "onto", "out", "over", "through", "to", "toward", "towards", "under", "up", "with",
    *AUXILIARIES,
})  # fmt: skip
"""Words that the language model may add, remove or change when it repairs a sentence."""

COMPLEMENTS = frozenset({"dobj", "attr", "acomp", "oprd"})
"""Dependency relations (spaCy) of the words that complete a verb, such as its object."""
PREDICATIVES = frozenset({"acomp", "advmod"})
WITHIN_VERB = frozenset({"aux", "auxpass", "neg", "prt"})
"""Dependency relations of the words that belong to a verb: auxiliaries, negations, particles."""
WITHIN_NOUN = frozenset(
    {"det", "nummod", "compound", "poss", "case", "predet", "quantmod"}
)

CONDITIONS = {
    "+img+cap": ("contextual", "contextual"),
    "+img-cap": ("contextual", "plain"),
    "-img+cap": ("plain", "contextual"),
    "-img-cap": ("plain", "plain"),
}
"""Kind of the image and kind of the caption, by the name of the condition in the tables of the
paper.
"""


@dataclass(frozen=True)
class FilledAbstract:
    """An abstract whose roles are filled with one annotation.

    Attributes:
        source_id: Id of the annotation.
        words: The abstract with each role replaced by its noun, or by nothing where the role is
            empty. A language model repairs these words: "the woman is begging the for money in
            street" (appendix A.1, table 8).
        caption: The sentence, repaired by rule.
        simplified: The sentence of subject, verb and the role that follows the verb.
    """

    source_id: str
    words: str
    caption: str
    simplified: str


def select_verbs(
    frames: Iterable[Mapping[str, Any]], names: Sequence[str] | str = VERBS
) -> list[str]:
    """Return the verbs of a study as -ing forms; `all` means every verb of its source."""
    source_verbs = sorted({str(frame["verb"]) for frame in frames})
    if names == "all":
        return source_verbs
    if names is VERBS:
        # The paper's verbs; a small source need not have images of each.
        return list(names)
    for verb in names:
        if verb not in source_verbs:
            raise UserError(
                f"study file: cv_probes.verbs: the source has no image of {verb!r}; remove the verb, or name others"
            )
    return list(names)


def select_images(
    frames: Iterable[Mapping[str, Any]],
    seed: int,
    verbs: Sequence[str] = VERBS,
    count: int = IMAGES_PER_VERB,
) -> dict[str, list[str]]:
    """Return for each verb its first `count` images in the seeded order, or all images where there
    are fewer.

    Args:
        frames: Rows of the layout `FRAMES`; rejected rows give no image.
        count: Number of images of each verb.
    """
    images_by_verb: dict[str, set[str]] = {verb: set() for verb in verbs}
    for frame in frames:
        if frame["verb"] in images_by_verb and not frame["rejected"]:
            images_by_verb[frame["verb"]].add(frame["image"])

    selected: dict[str, list[str]] = {}
    for verb, images in images_by_verb.items():
        # The order depends on the names of the images, not on the order of the frames.
        seeded_order = sorted(images, key=lambda image: (rank(image, seed), image))
        selected[verb] = sorted(seeded_order[:count])
    return selected


def build_study_captions(
    frames: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
    seed: int,
    generate: Callable[[str], str] | None = None,
    model: str = "",
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the contextual captions of a study, as `build_contextual_captions` does, and facts for
    its run record.

    Images are selected among the images with an annotation that fills its abstract, so that an
    unusable image takes no position from an image that gives a caption. The facts count the
    unusable images (`unusable_images`).

    Args:
        settings: The section `cv_probes` of the study, with `verbs` and the number of `images` for
            each verb.
    """
    verbs = select_verbs(frames, settings.get("verbs", VERBS))
    images_per_verb = settings.get("images", IMAGES_PER_VERB)
    frames = [frame for frame in frames if frame["verb"] in set(verbs)]
    usable_frames = [
        frame for frame in frames if isinstance(fill_abstract(frame), FilledAbstract)
    ]
    images = select_images(usable_frames, seed, verbs, images_per_verb)
    rows = build_contextual_captions(frames, images, generate, model)

    # Counts for the run record, by verb or reason.
    usable_images = {frame["image"] for frame in usable_frames}
    unusable = {
        (frame["verb"], frame["image"])
        for frame in frames
        if frame["image"] not in usable_images
    }
    facts = {
        "verbs": verbs,
        "images": sum(len(names) for names in images.values()),
        "fewer_images": {
            verb: len(names)
            for verb, names in images.items()
            if len(names) < images_per_verb
        },
        "unusable_images": Counter(verb for verb, _ in sorted(unusable)),
        "writers": Counter(row["writer"] for row in rows if row["caption"]),
        "refused": Counter(row["rejected"] for row in rows if row["rejected"]),
    }
    return rows, facts


def build_contextual_captions(
    frames: Iterable[Mapping[str, Any]],
    images: Mapping[str, Sequence[str]],
    generate: Callable[[str], str] | None = None,
    model: str = "",
) -> list[dict[str, Any]]:
    """Return one caption for each annotation of the selected images, in the order of the frames.

    Args:
        images: The selected images of each verb.
        generate: Returns the text that a language model generates after a prompt; None to repair by
            rule only.
        model: Name of the language model, as the writer of the captions that it repairs.
    Returns:
        Rows of the layout `PROBE_CAPTIONS` without scores; where an annotation gives no caption,
        `rejected` says why.
    """
    selected: set[str] = set()
    for names in images.values():
        selected.update(names)
    rows = []
    for frame in frames:
        if frame["image"] in selected:
            rows.append(_build_contextual_row(frame, generate, model))
    return rows


def _build_contextual_row(
    frame: Mapping[str, Any], generate: Callable[[str], str] | None, model: str
) -> dict[str, Any]:
    """Return the row of one annotation: with a caption, or with the reason why there is none."""
    row = {
        "caption_id": f"contextual:{frame['source_id']}",
        "kind": "contextual",
        "verb": frame["verb"],
        "image": frame["image"],
        "writer": "rule",
        "caption": None,
        "simplified": None,
        "rejected": None,
    }
    filled = fill_abstract(frame)
    if isinstance(filled, Refusal):
        return {**row, "rejected": filled.reason}
    if generate is None:
        return {**row, "caption": filled.caption, "simplified": filled.simplified}
    try:
        # The simplified caption is always the one by rule; only the full sentence is repaired by
        # the model.
        caption, repaired_by = repair_caption(
            filled, read_verbs()[frame["verb"]], generate
        )
    except ItemError:  # the model cannot read the annotation
        return {**row, "rejected": CONTROL_TOKEN}
    writer = model if repaired_by == "model" else repaired_by
    return {
        **row,
        "writer": writer,
        "caption": caption,
        "simplified": filled.simplified,
    }


def fill_abstract(frame: Mapping[str, Any]) -> FilledAbstract | Refusal:
    """Fill the abstract of a verb with the annotation of a frame, or refuse the frame.

    In the captions, a role without filler is removed together with its preposition.
    """
    if frame["rejected"]:
        return Refusal(f"the source's row: {frame['rejected']}")
    ordered = order_frame(frame)
    if isinstance(ordered, Refusal):
        return ordered
    # The repair by rule: agent, verb, and the filled roles in the order of the abstract.
    start = [ordered.agent.subject, ordered.verb_phrase]
    parts: list[str] = []
    core: list[str] = []  # without the scene, which a simplified caption leaves out
    for position, filler in ordered.complements:
        part = _render_part(ordered.agent, position, filler)
        parts.append(part)
        if position.role != "place":
            core.append(part)
    return FilledAbstract(
        source_id=frame["source_id"],
        words=fill_roles(frame),
        caption=_join_sentence(start + parts),
        simplified=_join_sentence(start + core[:1]),
    )


def fill_roles(frame: Mapping[str, Any]) -> str:
    """Return the abstract of a frame with each role replaced by its noun; an empty role is replaced
    by nothing.
    """
    nouns = {entry["role"]: entry["gloss"] or "" for entry in frame["roles"]}

    def fill_word(match: re.Match[str]) -> str:
        word = match[0]
        if not ROLE.fullmatch(word):
            return word
        return nouns.get(word.lower(), "")

    text = re.sub(r"[\w-]+", fill_word, frame["abstract"])
    return " ".join(text.split())


def _render_part(agent: Filler, position: RolePosition, filler: Filler) -> str:
    """Return the noun phrase of a role after the verb, with its preposition."""
    if position.role == "place":
        # "at" is the abstract's only preposition for all scenes; "outdoors" takes none.
        is_adverbial = position.words == "at" or filler.is_adverbial_alone
        if is_adverbial:
            return filler.adverbial
    return f"{position.words} {render_complement(agent, position, filler)}".strip()


def _join_sentence(parts: Iterable[str]) -> str:
    text = " ".join(part for part in parts if part)
    return f"{text[:1].upper()}{text[1:]}."


def repair_caption(
    filled: FilledAbstract, verb: Verb, generate: Callable[[str], str]
) -> tuple[str, str]:
    """Let a language model repair a filled abstract; where its answer changes too much, return the
    repair by rule.

    The first line of the answer is used that has a form of the verb and otherwise the same words,
    apart from their number and `MAY_CHANGE`. Models also add words, explain, or copy the request.

    Returns:
        The caption, and `model` or `rule` for the repair that it comes from.
    """
    answer = generate(f"{REPAIR_PROMPT}{filled.words}")
    for line in answer.splitlines():
        # Models answer with lists and quotation marks, since the prompt speaks of several
        # sentences.
        sentence = LIST_SIGN.sub("", line.strip()).strip('"').strip()
        if not sentence.endswith("."):
            sentence = f"{sentence}."
        if _is_repair(sentence, filled.words, verb):
            return f"{sentence[:1].upper()}{sentence[1:]}", "model"
    return filled.caption, "rule"


def _is_repair(sentence: str, words: str, verb: Verb) -> bool:
    """Return True where a sentence has a form of the verb and the same content words as the filled
    abstract.
    """
    if not list_forms(verb) & set(_split_words(sentence)):
        return False
    return _list_content_words(sentence, verb) == _list_content_words(words, verb)


def _split_words(text: str) -> list[str]:
    return [word.strip(".,;:!?").lower() for word in text.split()]


def _list_content_words(text: str, verb: Verb) -> set[str]:
    """Return the words of a text that a repair must keep; nouns are in the singular."""
    forms = list_forms(verb)
    content_words = set()
    for word in _split_words(text):
        if not word or word in forms or word in MAY_CHANGE:
            continue
        # The number of a noun may change, as articles may.
        content_words.add(getLemma(word, upos="NOUN")[0])
    return content_words


def list_forms(verb: Verb) -> frozenset[str]:
    """Return all forms of a verb, such as admire, admires, admired and admiring."""
    forms = {verb.base, verb.name}
    for inflections in getAllInflections(verb.base, upos="VERB").values():
        forms.update(inflections)
    return frozenset(forms)


def read_scene_captions(path: str | Path) -> list[dict[str, Any]]:
    """Read the plain descriptions of the scenes (`descriptions.json`) as captions of the writer
    `scenes`.

    Their plain image is the same scene without the action, instead of an image from retrieval.
    """
    rows = []
    for image, entry in read_object_entries(path, ""):
        scene = RawEntry(entry, f"{path}: image {image!r}")
        verb = scene.read("verb", str)
        plain_image = scene.read("still", str)
        for caption in scene.read_strings("plain"):
            rows.append(
                {
                    "image": image,
                    "verb": verb,
                    "writer": "scenes",
                    "plain_image": plain_image,
                    "caption": caption,
                }
            )
    return rows


def review_captions(
    captions: Iterable[Mapping[str, Any]], contextual: Sequence[str]
) -> list[dict[str, Any]]:
    """Return written captions with a column `rejected`, the reason why a caption cannot be used.

    A caption is rejected where it is empty, repeats a caption of its image, has any form of the
    verb of its image, or uses another contextual verb of the study as a verb (section 3.2:
    "annotations that used context-dependent verbs were removed").
    """
    rows = [{**row, "caption": join_lines(row["caption"])} for row in captions]
    docs = parse(row["caption"] for row in rows)
    earlier: set[tuple[str, str]] = set()
    for row, doc in zip(rows, docs, strict=True):
        # Case, spaces and the full stop do not make another caption.
        text = " ".join(row["caption"].lower().rstrip(". ").split())
        key = (row["image"], text)
        if key in earlier:
            row["rejected"] = "written before for this image"
        else:
            row["rejected"] = _explain_rejection(doc, row["verb"], contextual)
        earlier.add(key)
    return rows


def _explain_rejection(doc: Doc, name: str, contextual: Sequence[str]) -> str | None:
    """Return the reason why a caption is not plain for an image with the verb `name`; None where it
    is plain.
    """
    verbs = read_verbs()
    words = {token.lower_ for token in doc if token.is_alpha}
    if not words:
        return "empty"
    # The verb of the image is excluded in any part of speech ("a race" for racing).
    if words & list_forms(verbs[name]):
        return "uses the contextual verb"
    # Nouns that look like a verb ("a race") are no action.
    verb_words = {token.lower_ for token in doc if token.pos_ == "VERB"}
    for verb in contextual:
        if verb_words & list_forms(verbs[verb]):
            return "uses another contextual verb"
    return None


def simplify_caption(doc: Doc) -> str | Refusal:
    """Return the sentence of subject, verb and object of a caption's main clause, or a refusal.

    Nouns keep their articles, numerals and possessives. Without an object, the first phrase with a
    preposition is kept ("A boy is in the snow.").
    """
    verb = find_main_verb(doc)
    if verb is None:
        return Refusal("no main verb is found")
    subjects = find_subjects(verb)
    if not subjects:
        return Refusal("no subject is found")

    # Collect the words that stay; they are written in the order of the caption.
    tokens = {verb, *_select_children(verb, WITHIN_VERB)}
    for subject in subjects:
        tokens |= _collect_noun(subject)
    for complement in _find_complements(verb):
        tokens |= _collect_noun(complement)
    preposition = _find_needed_preposition(verb)
    if preposition is not None:
        tokens |= _collect_phrase(preposition)

    words = " ".join(token.text for token in sorted(tokens, key=lambda token: token.i))
    return f"{words[:1].upper()}{words[1:]}."


def _select_children(
    verb: Token, relations: Collection[str], after: int = -1
) -> list[Token]:
    """Return the dependents of a word that have one of some relations and stand after a position,
    in text order.
    """
    return [
        child for child in verb.children if child.dep_ in relations and child.i > after
    ]


def _find_predicatives(verb: Token) -> list[Token]:
    """Return the adjectives and adverbs that follow a form of `be`, such as "next" in "is next to a
    dog".
    """
    if verb.lemma_ != "be":
        return []
    return _select_children(verb, PREDICATIVES, verb.i)


def _find_complements(verb: Token) -> list[Token]:
    """Return the objects and predicatives of a verb."""
    return _select_children(verb, COMPLEMENTS, verb.i) + _find_predicatives(verb)


def _find_needed_preposition(verb: Token) -> Token | None:
    """Return the preposition of the phrase that completes a verb; None where an object completes
    the verb.
    """
    # "is next to a dog": the word after `be` carries the phrase that completes it.
    predicatives = _find_predicatives(verb)
    for predicative in predicatives:
        prepositions = _select_children(predicative, {"prep"})
        if prepositions:
            return prepositions[0]
    has_object = bool(_select_children(verb, COMPLEMENTS, verb.i))
    if has_object and not predicatives:
        return None
    prepositions = _select_children(verb, {"prep", "agent"}, verb.i)
    return prepositions[0] if prepositions else None


def _collect_noun(head: Token) -> set[Token]:
    """Return the tokens of a noun, its determiners, its conjuncts, and its phrase with "of" ("a
    group of people").
    """
    # Other modifiers, such as adjectives and relative clauses, are dropped.
    tokens = {head, *_select_children(head, WITHIN_NOUN)}
    for child in head.children:
        if child.dep_ in ("cc", "conj"):
            tokens |= _collect_noun(child)
        elif child.dep_ == "prep" and child.lower_ == "of":
            tokens |= _collect_phrase(child)
    return tokens


def _collect_phrase(preposition: Token) -> set[Token]:
    """Return the tokens of a preposition and of the noun or phrase that follows it ("in front of a
    house").
    """
    tokens = {preposition}
    for child in preposition.children:
        if child.dep_ in ("prep", "pcomp"):
            tokens |= _collect_phrase(child)
        else:
            tokens |= _collect_noun(child)
    return tokens


def build_condition_rows(
    contextual: Iterable[Mapping[str, Any]],
    plain: Iterable[Mapping[str, Any]],
    form: str,
) -> list[dict[str, Any]]:
    """Return the rows of all four conditions, in the order of the contextual captions.

    Each contextual caption occurs once with its image. Each plain caption gives the other three
    conditions: with the contextual image for which it was written, its plain image with the
    contextual caption, and its plain image with the plain caption. A combination of image, caption
    and condition occurs once, even if plain captions share an image.

    Args:
        contextual: Rows of image, verb and caption, one for each image.
        plain: Rows of image (the contextual image), verb, caption and plain_image; rows without
            plain_image are skipped.
        form: `original` or `simplified`.
    """
    plain_by_image: dict[str, list[Mapping[str, Any]]] = {}
    for row in plain:
        if row["plain_image"]:
            plain_by_image.setdefault(row["image"], []).append(row)
    rows = []
    for context in contextual:
        rows += _build_rows_of_image(
            context, plain_by_image.get(context["image"], []), form
        )
    return rows


def _build_rows_of_image(
    context: Mapping[str, Any], plain: Sequence[Mapping[str, Any]], form: str
) -> list[dict[str, Any]]:
    """Return the rows of the four conditions of one contextual image."""
    image = context["image"]
    caption = context["caption"]
    # Number of the plain caption, by condition, shown image and text; the first of equal
    # combinations counts.
    numbers = {("+img+cap", image, caption): 0}
    for number, row in enumerate(plain):
        plain_image = row["plain_image"]
        plain_caption = row["caption"]
        if are_same_text(plain_caption, caption):
            continue  # the same text cannot match the plain image and not match it
        numbers.setdefault(("+img-cap", image, plain_caption), number)
        numbers.setdefault(("-img+cap", plain_image, caption), number)
        numbers.setdefault(("-img-cap", plain_image, plain_caption), number)

    verb = read_verbs()[context["verb"]]
    # Conditions share texts, so each text is parsed once.
    texts = dict.fromkeys(text for _, _, text in numbers)
    verb_spans = {
        text: find_verb_span(doc, verb)
        for text, doc in zip(texts, parse(texts), strict=True)
    }
    rows = []
    for (condition, shown_image, text), number in numbers.items():
        image_kind, caption_kind = CONDITIONS[condition]
        rows.append(
            {
                "item_id": f"cv-probes:{form}:{condition}:{image}:{number}",
                "form": form,
                "condition": condition,
                "verb": context["verb"],
                "image": shown_image,
                "image_kind": image_kind,
                "caption": text,
                "caption_kind": caption_kind,
                "verb_span": verb_spans[text],
                # Only the contextual caption with the plain image is false.
                "match": condition != "-img+cap",
                "group": image,
            }
        )
    return rows


def find_verb_span(caption: Doc, verb: Verb) -> Span | None:
    """Return the span of the contextual verb in a caption; without that verb, the span of the main
    verb.

    If several words are forms of the contextual verb ("A coach coaches a team."), the main verb is
    preferred. Return None if the caption has no verb.
    """
    main_verb = find_main_verb(caption)
    forms = list_forms(verb)
    contextual = [token for token in caption if token.lower_ in forms]
    token = main_verb
    if contextual and main_verb not in contextual:
        token = contextual[0]
    if token is None:
        return None
    return Span(start=token.idx, end=token.idx + len(token))
