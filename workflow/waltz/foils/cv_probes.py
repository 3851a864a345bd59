"""CV-Probes: contextual captions, which name a context-dependent action, plain ones, and the four conditions.

The abstract of the verb is filled with each of the three annotations of an imSitu image and repaired, by rule or by a
language model with the paper's prompt. People write the plain captions. Of the four conditions only a plain image with
a contextual caption is no match. Source: CV-Probes, arXiv 2409.01389.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lemminflect import getAllInflections, getLemma
from spacy.tokens import Doc, Token

from waltz.core.errors import UserError
from waltz.core.sampling import rank
from waltz.core.text_diff import Span
from waltz.foils.candidates import Refusal
from waltz.foils.english.main_verbs import find_main_verb, find_subjects
from waltz.foils.english.parsing import parse
from waltz.foils.english.wordnet import Verb, read_verbs
from waltz.foils.swig import ROLE, Filler, RolePosition, inflect_present, order_frame, render_complement
from waltz.sources.raw_files import join_lines, read_field, read_object_entries, read_strings

VERBS = (
    "admiring", "apprehending", "autographing", "baptizing", "begging", "browsing", "buying", "celebrating", "chasing",
    "cheerleading", "coaching", "competing", "congregating", "counting", "educating", "exercising", "frisking",
    "guarding", "hitchhiking", "hunting", "interrogating", "interviewing", "praying", "protesting", "racing",
    "studying", "voting",
)  # fmt: skip
"""The 27 context-dependent verbs; `brows` in the paper is browsing."""

IMAGES_PER_VERB = 5

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
    "a", "an", "the", "some", "his", "her", "its", "their", "another", "is", "are", "and", "about", "against", "along",
    "among", "around", "as", "at", "behind", "beside", "by", "down", "during", "for", "from", "in", "inside", "into",
    "near", "of", "off", "on", "onto", "out", "over", "through", "to", "toward", "towards", "under", "up", "with",
})  # fmt: skip
"""Words that a repair may add, remove or change."""

COMPLEMENTS = frozenset({"dobj", "attr", "acomp", "oprd"})
WITHIN_VERB = frozenset({"aux", "auxpass", "neg", "prt"})
WITHIN_NOUN = frozenset({"det", "nummod", "compound", "poss", "case", "predet", "quantmod"})

CONDITIONS = {
    "+img+cap": ("contextual", "contextual"),
    "+img-cap": ("contextual", "plain"),
    "-img+cap": ("plain", "contextual"),
    "-img-cap": ("plain", "plain"),
}
"""Kind of image and kind of caption, by the condition's name in the paper's tables."""


@dataclass(frozen=True)
class FilledAbstract:
    """An abstract filled with one annotation.

    Attributes:
        source_id: The annotation.
        words: The abstract with its roles replaced, those that nobody fills by nothing, for a language model to repair:
            "the woman is begging the for money in street" (appendix A.1, table 8).
        caption: The same repaired by rule.
        simplified: Subject, verb and the role that follows the verb.
    """

    source_id: str
    words: str
    caption: str
    simplified: str


def select_verbs(frames: Iterable[Mapping[str, Any]], names: Sequence[str] | str = VERBS) -> list[str]:
    """Return the verbs of a study: the -ing forms that it names, or with `all` every verb of its source."""
    source_verbs = sorted({str(frame["verb"]) for frame in frames})
    if names == "all":
        return source_verbs
    unknown = [verb for verb in names if verb not in source_verbs]
    if unknown and names is not VERBS:
        raise UserError(f"study file: cv_probes.verbs: the source has no image of {unknown[0]!r}")
    return list(names)


def select_images(
    frames: Iterable[Mapping[str, Any]], seed: int, verbs: Sequence[str] = VERBS, count: int = IMAGES_PER_VERB
) -> dict[str, list[str]]:
    """Return the images of each verb that are first in the seeded order, all where there are fewer.

    Args:
        frames: Rows of the layout `FRAMES`; rejected ones give no image.
        count: Images of each verb.
    """
    images_by_verb: dict[str, set[str]] = {verb: set() for verb in verbs}
    for frame in frames:
        if frame["verb"] in images_by_verb and not frame["rejected"]:
            images_by_verb[frame["verb"]].add(frame["image"])
    return {
        verb: sorted(sorted(images, key=lambda image: (rank(image, seed), image))[:count])
        for verb, images in images_by_verb.items()
    }


def build_study_captions(
    frames: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
    seed: int,
    generate: Callable[[str], str] | None = None,
    model: str = "",
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the contextual captions of a study, as `build_contextual_captions`, and facts for its run record.

    Args:
        settings: The study's `cv_probes`, of which `verbs` and `images` (of each verb) count.
    """
    verbs, count = select_verbs(frames, settings.get("verbs", VERBS)), settings.get("images", IMAGES_PER_VERB)
    images = select_images(frames, seed, verbs, count)
    rows = build_contextual_captions(frames, images, generate, model)
    facts = {
        "verbs": verbs,
        "images": sum(map(len, images.values())),
        "fewer_images": {verb: len(names) for verb, names in images.items() if len(names) < count},
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
    """Return a caption for each annotation of the selected images, in the order of the frames.

    Args:
        images: The selected images of each verb.
        generate: Returns the text that a model generates after a prompt; None to repair by rule only.
    Returns:
        Rows of the layout `PROBE_CAPTIONS` without a score; an annotation that gives no caption says why.
    """
    selected = {image for names in images.values() for image in names}
    rows = []
    for frame in frames:
        if frame["image"] not in selected:
            continue
        filled = Refusal(f"the source's row: {frame['rejected']}") if frame["rejected"] else fill_abstract(frame)
        caption, writer = None, "rule"
        if isinstance(filled, FilledAbstract):
            caption = filled.caption
            if generate is not None:
                caption, repaired_by = repair_caption(filled, read_verbs()[frame["verb"]], generate)
                writer = model if repaired_by == "model" else repaired_by
        rows.append(
            {
                "caption_id": f"contextual:{frame['source_id']}",
                "kind": "contextual",
                "verb": frame["verb"],
                "image": frame["image"],
                "writer": writer,
                "caption": caption,
                "simplified": filled.simplified if isinstance(filled, FilledAbstract) else None,
                "rejected": filled.reason if isinstance(filled, Refusal) else None,
            }
        )
    return rows


def fill_abstract(frame: Mapping[str, Any]) -> FilledAbstract | Refusal:
    """Return the abstract of a frame's verb filled with its annotation.

    In the captions, roles without filler go with their words.
    """
    ordered = order_frame(frame)
    if isinstance(ordered, Refusal):
        return ordered
    start = [ordered.agent.subject, inflect_present(ordered.verb.base, ordered.agent.plural)]
    parts = [_render_part(ordered.agent, position, filler) for position, filler in ordered.complements]
    core = [part for (position, _), part in zip(ordered.complements, parts, strict=True) if position.role != "place"]
    return FilledAbstract(
        frame["source_id"],
        fill_roles(frame),
        _join_sentence(start + parts),
        _join_sentence(start + core[:1]),
    )


def fill_roles(frame: Mapping[str, Any]) -> str:
    """Return the abstract of a frame with each role replaced by its noun, or by nothing where nobody fills it."""
    nouns = {entry["role"]: entry["gloss"] or "" for entry in frame["roles"]}
    text = re.sub(
        r"[\w-]+",
        lambda word: nouns.get(word[0].lower(), "") if ROLE.fullmatch(word[0]) else word[0],
        frame["abstract"],
    )
    return " ".join(text.split())


def _render_part(agent: Filler, position: RolePosition, filler: Filler) -> str:
    if position.role == "place" and position.words == "at":
        return filler.adverbial
    return f"{position.words} {render_complement(agent, position, filler)}".strip()


def _join_sentence(parts: Iterable[str]) -> str:
    text = " ".join(part for part in parts if part)
    return f"{text[:1].upper()}{text[1:]}."


def repair_caption(filled: FilledAbstract, verb: Verb, generate: Callable[[str], str]) -> tuple[str, str]:
    """Return a filled abstract repaired by a language model, or by rule where its answer changes more than it may.

    A line of the answer counts that has a form of the verb and otherwise the same words, up to their number and
    `MAY_CHANGE`: models add words, explain, or copy the request.

    Returns:
        The caption, and `model` or `rule`, whichever repaired it.
    """
    for line in generate(f"{REPAIR_PROMPT}{filled.words}").splitlines():
        sentence = LIST_SIGN.sub("", line.strip()).strip('"').strip()
        sentence = sentence if sentence.endswith(".") else f"{sentence}."
        words = set(_split_words(sentence))
        if words & list_forms(verb) and _list_content_words(sentence, verb) == _list_content_words(filled.words, verb):
            return f"{sentence[:1].upper()}{sentence[1:]}", "model"
    return filled.caption, "rule"


def _split_words(text: str) -> list[str]:
    return [word.strip(".,;:!?").lower() for word in text.split()]


def _list_content_words(text: str, verb: Verb) -> set[str]:
    """Return the words of a text that a repair must keep, nouns in the singular."""
    content_words = (
        word for word in _split_words(text) if word and word not in list_forms(verb) and word not in MAY_CHANGE
    )
    return {getLemma(word, upos="NOUN")[0] for word in content_words}


def list_forms(verb: Verb) -> frozenset[str]:
    """Return every form of a verb: admire, admires, admired, admiring."""
    inflected = (form for forms in getAllInflections(verb.base, upos="VERB").values() for form in forms)
    return frozenset({verb.base, verb.name, *inflected})


def read_scene_captions(path: str | Path) -> list[dict[str, Any]]:
    """Return the plain descriptions of a `descriptions.json` of the scenes as captions of the writer `scenes`.

    Their plain image is the same picture without the action, instead of one from retrieval.
    """
    rows = []
    for image, entry in read_object_entries(path, ""):
        where = f"{path}: image {image!r}"
        row = {
            "image": image,
            "verb": read_field(entry, "verb", str, where),
            "writer": "scenes",
            "plain_image": read_field(entry, "still", str, where),
        }
        rows += [{**row, "caption": caption} for caption in read_strings(entry, "plain", where)]
    return rows


def review_captions(captions: Iterable[Mapping[str, Any]], contextual: Sequence[str]) -> list[dict[str, Any]]:
    """Return written captions with `rejected`, the reason why a caption cannot be used.

    A caption is rejected for any form of the image's own verb, whatever its part of speech, and for another of the
    study's contextual verbs used as a verb (section 3.2: "annotations that used context-dependent verbs were
    removed"); also where it is empty or repeats one of the image.
    """
    rows = [{**row, "caption": join_lines(row["caption"])} for row in captions]
    earlier: set[tuple[str, str]] = set()
    for row, doc in zip(rows, parse(row["caption"] for row in rows), strict=True):
        key = (row["image"], " ".join(row["caption"].lower().rstrip(". ").split()))
        row["rejected"] = (
            "written before for this image" if key in earlier else _explain_rejection(doc, row["verb"], contextual)
        )
        earlier.add(key)
    return rows


def _explain_rejection(doc: Doc, name: str, contextual: Sequence[str]) -> str | None:
    verbs = read_verbs()
    words = {token.lower_ for token in doc if token.is_alpha}
    if not words:
        return "empty"
    if words & list_forms(verbs[name]):
        return "uses the contextual verb"
    verb_words = {token.lower_ for token in doc if token.pos_ == "VERB"}
    if any(verb_words & list_forms(verbs[verb]) for verb in contextual):
        return "uses another contextual verb"
    return None


def simplify_caption(doc: Doc) -> str | Refusal:
    """Return subject, verb and object of a caption's main clause, with their articles, numerals and possessives.

    Where there is no object, the first phrase with a preposition is used ("A boy is in the snow.").
    """
    root = find_main_verb(doc)
    if root is None:
        return Refusal("no main verb is found")
    subjects = find_subjects(root)
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


def build_condition_rows(
    contextual: Iterable[Mapping[str, Any]],
    plain: Iterable[Mapping[str, Any]],
    form: str,
) -> list[dict[str, Any]]:
    """Return the rows of all four conditions, in the order of the contextual captions.

    Each contextual caption occurs once with its own image. Each plain caption gives the other three: with the
    contextual image that it was written for, its own plain image with the contextual caption, and its own with itself.
    Repeated combinations of image, caption and condition, as where plain captions share an image, occur once.

    Args:
        contextual: Rows of image, verb and caption, one an image.
        plain: Rows of image (the contextual one), verb, caption and plain_image; those without plain_image are skipped.
        form: `original` or `simplified`.
    """
    by_image: dict[str, list[Mapping[str, Any]]] = {}
    for row in plain:
        if row["plain_image"]:
            by_image.setdefault(row["image"], []).append(row)
    rows = []
    for context in contextual:
        image, caption = context["image"], context["caption"]
        numbers = {("+img+cap", image, caption): 0}
        for number, row in enumerate(by_image.get(image, [])):
            numbers.setdefault(("+img-cap", image, row["caption"]), number)
            numbers.setdefault(("-img+cap", row["plain_image"], caption), number)
            numbers.setdefault(("-img-cap", row["plain_image"], row["caption"]), number)
        texts = dict.fromkeys(text for _, _, text in numbers)
        verb = read_verbs()[context["verb"]]
        verb_spans = {text: find_verb_span(doc, verb) for text, doc in zip(texts, parse(texts), strict=True)}
        rows += [
            {
                "item_id": f"cv-probes:{form}:{condition}:{image}:{number}",
                "form": form,
                "condition": condition,
                "verb": context["verb"],
                "image": shown_image,
                "image_kind": CONDITIONS[condition][0],
                "caption": text,
                "caption_kind": CONDITIONS[condition][1],
                "verb_span": verb_spans[text],
                "match": condition != "-img+cap",
                "group": image,
            }
            for (condition, shown_image, text), number in numbers.items()
        ]
    return rows


def find_verb_span(caption: Doc, verb: Verb) -> Span | None:
    """Return the span of a caption's verb: of the contextual verb where it has a form of it, else of its main verb.

    Where several words have such a form ("A coach coaches a team."), the main verb is preferred. None where no verb is
    found.
    """
    main_verb = find_main_verb(caption)
    forms = list_forms(verb)
    contextual = [token for token in caption if token.lower_ in forms]
    token = contextual[0] if contextual and main_verb not in contextual else main_verb
    return None if token is None else Span(start=token.idx, end=token.idx + len(token))
