"""CV-Probes: contextual captions, which name a context-dependent action, plain captions, and the
four conditions.

Contextual captions: each of the three annotations of an imSitu image fills the abstract of the
verb, and rules or a language model with the prompt of the paper repair the sentence. People write
the plain captions. In three of the four conditions caption and image match; a contextual caption
does not match a plain image. Source: CV-Probes, arXiv 2409.01389.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from lemminflect import getAllInflections, getLemma
from spacy.tokens import Doc

from waltz.core.errors import CONTROL_TOKEN, ItemError, UserError
from waltz.core.sampling import rank
from waltz.core.schema import ProbeCaptionRecord, ProbeRecord, StoredSpan
from waltz.core.text_diff import are_same_text
from waltz.foils.candidates import Refusal
from waltz.foils.english.parsing import parse
from waltz.foils.english.patterns import TokenPattern
from waltz.foils.english.sentences import capitalize, write_sentence
from waltz.foils.english.verbs import find_main_verb
from waltz.foils.english.wordnet import SwigVerb, read_swig_verbs
from waltz.foils.swig import (
    ARTICLES,
    AUXILIARIES,
    DETERMINERS,
    ROLE,
    Complement,
    FillerNoun,
    order_frame,
)
from waltz.sources.raw_entry import RawEntry
from waltz.sources.raw_files import (
    join_lines,
    read_object_entries,
)
from waltz.sources.records import FrameRecord

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
ROLE_WORD = re.compile(rf"(?<![\w-]){ROLE.pattern}(?![\w-])")
"""Role in an abstract, as a whole word."""
LIST_SIGN = re.compile(r"^(?:\d+[.)]|[-*•])\s+")
"""Number or sign before a sentence of a list."""

MAY_CHANGE = frozenset({
    "a", "an", "the", "some", "his", "her", "its", "their", "another", "and", "about", "against", "along",
    "among", "around", "as", "at", "behind", "beside", "by", "down", "during", "for", "from", "in", "inside", "into",
    "near", "of", "off", "on", "onto", "out", "over", "through", "to", "toward", "towards", "under", "up", "with",
    *AUXILIARIES,
})  # fmt: skip
"""Words that the language model may add, remove or change when it repairs a sentence."""

FINITE_AUXILIARIES = AUXILIARIES - {"to"}
"""Auxiliaries; "to" is a preposition as well."""

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


@dataclass(frozen=True)
class WrittenCaption:
    """A plain caption of an image with an action, as a person or the scenes wrote it.

    Attributes:
        image: Path of the image that shows the action.
        verb: The contextual verb of the image; empty for an image that is not in the study.
        writer: The annotator, or `scenes`.
        caption: The caption.
        plain_image: Path of the image that fits the caption and does not show the action; None
            where none is named.
        rejected: Reason why the caption cannot be used; None where it can.
        simplified: The simplified caption, where a person wrote it; else None.
    """

    image: str
    verb: str
    writer: str
    caption: str
    plain_image: str | None
    rejected: str | None = None
    simplified: str | None = None


@dataclass(frozen=True)
class ImageCaption:
    """A usable caption of an image with an action, in one form.

    Attributes:
        image: Path of the image that shows the action.
        verb: The contextual verb of the image.
        caption: The caption, in its original or simplified form.
        plain_image: As in `WrittenCaption`; empty for a contextual caption.
    """

    image: str
    verb: str
    caption: str
    plain_image: str = ""


@dataclass(frozen=True)
class CaptionFacts:
    """Facts about the contextual captions of a study, for its run record.

    Attributes:
        verbs: The contextual verbs.
        images: Number of images.
        fewer_images: Number of images of the verbs that have fewer than the study asks for.
        unusable_images: Number of images without a usable annotation, by verb.
        writers: Number of captions by writer.
        refused: Number of annotations without a caption, by reason.
    """

    verbs: Sequence[str]
    images: int
    fewer_images: Mapping[str, int]
    unusable_images: Mapping[str, int]
    writers: Mapping[str, int]
    refused: Mapping[str, int]


def select_verbs(
    frames: Iterable[FrameRecord], names: Sequence[str] | str = VERBS
) -> list[str]:
    """Return the verbs of a study as -ing forms; `all` means every verb of its source."""
    source_verbs = {frame.verb for frame in frames}
    if names == "all":
        return sorted(source_verbs)
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
    frames: Iterable[FrameRecord],
    seed: int,
    verbs: Sequence[str] = VERBS,
    count: int = IMAGES_PER_VERB,
) -> dict[str, list[str]]:
    """Return for each verb its first `count` images in the seeded order, or all images where there
    are fewer.

    Args:
        frames: Annotations; rejected ones give no image.
        count: Number of images of each verb.
    """
    images_by_verb: dict[str, set[str]] = {verb: set() for verb in verbs}
    for frame in frames:
        if frame.verb in images_by_verb and not frame.rejected:
            images_by_verb[frame.verb].add(frame.image)

    selected: dict[str, list[str]] = {}
    for verb, images in images_by_verb.items():
        # The order depends on the names of the images, not on the order of the frames.
        seeded_order = sorted(images, key=lambda image: (rank(image, seed), image))
        selected[verb] = sorted(seeded_order[:count])
    return selected


def build_study_captions(
    frames: Sequence[FrameRecord],
    seed: int,
    generate: Callable[[str], str] | None = None,
    model: str = "",
    *,
    verbs: Sequence[str] | str = VERBS,
    images: int = IMAGES_PER_VERB,
) -> tuple[list[ProbeCaptionRecord], CaptionFacts]:
    """Return the contextual captions of a study, as `build_contextual_captions` does, and facts for
    its run record.

    Images are selected among the images with an annotation that fills its abstract, so that an
    unusable image takes no position from an image that gives a caption.

    Args:
        verbs: Contextual verbs, as in `select_verbs`.
        images: Number of images of each verb.
    """
    selected_verbs = select_verbs(frames, verbs)
    frames = [frame for frame in frames if frame.verb in selected_verbs]
    usable_frames = list(filter(_gives_caption, frames))
    selected_images = select_images(usable_frames, seed, selected_verbs, images)
    captions = build_contextual_captions(frames, selected_images, generate, model)

    unusable_images = {frame.image: frame.verb for frame in frames}
    for frame in usable_frames:
        unusable_images.pop(frame.image, None)
    n_images = Counter({verb: len(names) for verb, names in selected_images.items()})
    reasons = (caption.rejected for caption in captions)
    facts = CaptionFacts(
        verbs=selected_verbs,
        images=n_images.total(),
        fewer_images={verb: n for verb, n in n_images.items() if n < images},
        unusable_images=Counter(sorted(unusable_images.values())),
        writers=Counter(caption.writer for caption in captions if caption.caption),
        refused=Counter(filter(None, reasons)),
    )
    return captions, facts


def _gives_caption(frame: FrameRecord) -> bool:
    return isinstance(fill_abstract(frame), FilledAbstract)


def build_contextual_captions(
    frames: Iterable[FrameRecord],
    images: Mapping[str, Sequence[str]],
    generate: Callable[[str], str] | None = None,
    model: str = "",
) -> list[ProbeCaptionRecord]:
    """Return one caption for each annotation of the selected images, in the order of the frames.

    Args:
        images: The selected images of each verb.
        generate: Returns the text that a language model generates after a prompt; None to repair by
            rule only.
        model: Name of the language model, as the writer of the captions that it repairs.
    Returns:
        Captions without scores; where an annotation gives no caption, `rejected` says why.
    """
    selected = set(chain.from_iterable(images.values()))
    return [
        _build_contextual_caption(frame, generate, model)
        for frame in frames
        if frame.image in selected
    ]


def _build_contextual_caption(
    frame: FrameRecord, generate: Callable[[str], str] | None, model: str
) -> ProbeCaptionRecord:
    """Return the caption of one annotation, or the reason why there is none."""
    empty = ProbeCaptionRecord(
        caption_id=f"contextual:{frame.source_id}",
        kind="contextual",
        verb=frame.verb,
        image=frame.image,
        writer="rule",
    )
    filled = fill_abstract(frame)
    if isinstance(filled, Refusal):
        return replace(empty, rejected=filled.reason)
    # The simplified caption is always the one by rule; only the full sentence is repaired by the
    # model.
    by_rule = replace(empty, caption=filled.caption, simplified=filled.simplified)
    if generate is None:
        return by_rule
    try:
        caption = repair_caption(filled, read_swig_verbs()[frame.verb], generate)
    except ItemError:  # the model cannot read the annotation
        return replace(empty, rejected=CONTROL_TOKEN)
    if caption is None:
        return by_rule
    return replace(by_rule, caption=caption, writer=model)


def fill_abstract(frame: FrameRecord) -> FilledAbstract | Refusal:
    """Fill the abstract of a verb with the annotation of a frame, or refuse the frame.

    In the captions, a role without filler is removed together with its preposition.
    """
    if frame.rejected:
        return Refusal(f"the source's row: {frame.rejected}")
    ordered = order_frame(frame)
    if isinstance(ordered, Refusal):
        return ordered
    # The repair by rule: agent, verb, and the filled roles in the order of the abstract; a
    # simplified caption has only the first of them that is not the scene.
    start = (ordered.agent.subject, ordered.verb_phrase)
    parts = [_render_part(ordered.agent, part) for part in ordered.complements]
    core_parts = [_render_part(ordered.agent, part) for part in ordered.core]
    return FilledAbstract(
        source_id=frame.source_id,
        words=fill_roles(frame),
        caption=write_sentence(*start, *parts),
        simplified=write_sentence(*start, *core_parts[:1]),
    )


def fill_roles(frame: FrameRecord) -> str:
    """Return the abstract of a frame with each role replaced by its noun; an empty role is replaced
    by nothing.
    """
    nouns = {entry.role: entry.gloss or "" for entry in frame.roles}
    text = ROLE_WORD.sub(
        lambda role: nouns.get(role[0].lower(), ""), frame.abstract or ""
    )
    return " ".join(text.split())


def _render_part(agent: FillerNoun, complement: Complement) -> str:
    """Return the noun phrase of a role after the verb, with its preposition."""
    filler = complement.filler
    preposition = complement.position.words
    # "at" is the abstract's only preposition for all scenes; "outdoors" takes none.
    is_adverbial = preposition == "at" or filler.is_adverbial_alone
    if is_adverbial and complement.position.role == "place":
        return filler.adverbial
    return f"{preposition} {complement.render(agent)}"


def repair_caption(
    filled: FilledAbstract, verb: SwigVerb, generate: Callable[[str], str]
) -> str | None:
    """Let a language model repair a filled abstract; None where its answer changes too much.

    The first line of the answer is used that keeps to the prompt: it begins with subject and verb of
    the sentence by rule (indefinite article, present tense, active), and otherwise has the same
    words in the same roles, apart from their number and `MAY_CHANGE`. Models also add words,
    explain, or copy the request.
    """
    answer = generate(f"{REPAIR_PROMPT}{filled.words}")
    for line in answer.splitlines():
        # Models answer with lists and quotation marks, since the prompt speaks of several
        # sentences.
        sentence = LIST_SIGN.sub("", line.strip()).strip('"').strip()
        sentence = f"{sentence.removesuffix('.')}."
        if _is_repair(sentence, filled, verb):
            return capitalize(sentence)
    return None


def _is_repair(sentence: str, filled: FilledAbstract, verb: SwigVerb) -> bool:
    """Return True where a sentence keeps the words of a filled abstract in the roles that they have
    in the sentence by rule.
    """
    words = _split_words(sentence)
    opening = _list_opening(words, verb)
    if opening != _list_opening(_split_words(filled.caption), verb):
        return False
    # After the verb come no other verb, and no article or preposition without a noun.
    rest = words[len(opening) :]
    is_cut_off = bool(rest) and rest[-1] in MAY_CHANGE
    if is_cut_off or not FINITE_AUXILIARIES.isdisjoint(rest):
        return False
    nouns = _list_content_words(sentence, verb)
    rule_nouns = _list_content_words(filled.caption, verb)
    if sorted(nouns) != sorted(_list_content_words(filled.words, verb)):
        return False
    # Where nouns change their order, each must keep its preposition.
    if nouns == rule_nouns:
        return True
    prepositions = _list_prepositions(sentence, verb)
    return prepositions == _list_prepositions(filled.caption, verb)


def _list_opening(words: Sequence[str], verb: SwigVerb) -> list[str]:
    """Return the words of a sentence up to its verb, with `a` for both indefinite articles."""
    forms = list_forms(verb)
    opening: list[str] = []
    for index, word in enumerate(words):
        opening.append("a" if word == "an" else word)
        # The first words are the subject, whose noun may look like the verb ("A guard guards").
        if word in forms and index > 0 and words[index - 1] not in ARTICLES:
            break
    return opening


def _list_prepositions(text: str, verb: SwigVerb) -> list[tuple[str, str]]:
    """Return each content word of a sentence with the preposition before it, sorted by the words;
    the preposition is empty where a word has none.
    """
    pairs: list[tuple[str, str]] = []
    preposition = ""
    for word in _split_words(text):
        content_words = _list_content_words(word, verb)
        if content_words:
            pairs.append((content_words[0], preposition))
            preposition = ""
        elif word in MAY_CHANGE and word not in DETERMINERS:
            preposition = word
    return sorted(pairs)


def _split_words(text: str) -> list[str]:
    return [word.strip(".,;:!?").lower() for word in text.split()]


def _list_content_words(text: str, verb: SwigVerb) -> list[str]:
    """Return the words of a text that a repair must keep, in their order; nouns are in the singular."""
    dropped = list_forms(verb) | MAY_CHANGE | {""}
    # The number of a noun may change, as articles may.
    return [
        getLemma(word, upos="NOUN")[0]
        for word in _split_words(text)
        if word not in dropped
    ]


def list_forms(verb: SwigVerb) -> frozenset[str]:
    """Return all forms of a verb, such as admire, admires, admired and admiring."""
    inflections = getAllInflections(verb.base, upos="VERB").values()
    return frozenset({verb.base, verb.name}.union(*inflections))


def read_scene_captions(path: str | Path) -> list[WrittenCaption]:
    """Read the plain descriptions of the scenes (`descriptions.json`) as captions of the writer
    `scenes`.

    Their plain image is the same scene without the action, instead of an image from retrieval.
    """
    captions: list[WrittenCaption] = []
    for image, entry in read_object_entries(path, ""):
        scene = RawEntry(entry, f"{path}: image {image!r}")
        verb = scene.read("verb", str)
        plain_image = scene.read("still", str)
        captions += [
            WrittenCaption(image, verb, "scenes", caption, plain_image)
            for caption in scene.read_strings("plain")
        ]
    return captions


def review_captions(
    captions: Iterable[WrittenCaption], contextual: Sequence[str]
) -> list[WrittenCaption]:
    """Return written captions on one line with `rejected`, the reason why a caption cannot be used.

    A caption is rejected where it is empty, repeats a caption of its image, has any form of the
    verb of its image, or uses another contextual verb of the study as a verb (section 3.2:
    "annotations that used context-dependent verbs were removed").
    """
    lines = [replace(row, caption=join_lines(row.caption)) for row in captions]
    texts = [(row.caption, row.verb) for row in lines]
    reasons = find_contextual_verbs(texts, contextual)
    reviewed: list[WrittenCaption] = []
    earlier: set[tuple[str, str]] = set()
    for row, verb_reason in zip(lines, reasons, strict=True):
        # Case, spaces and the full stop do not make another caption.
        text = " ".join(row.caption.lower().rstrip(". ").split())
        reason = verb_reason
        if (row.image, text) in earlier:
            reason = "written before for this image"
        earlier.add((row.image, text))
        reviewed.append(replace(row, rejected=reason))
    return reviewed


def find_contextual_verbs(
    texts: Sequence[tuple[str, str]], contextual: Sequence[str]
) -> list[str | None]:
    """Return for each text the reason why it is not plain; None where it is plain.

    Args:
        texts: Texts, each with the contextual verb of its image.
        contextual: All contextual verbs of the study.
    """
    verbs = read_swig_verbs()
    contextual_forms = frozenset().union(
        *(list_forms(verbs[verb]) for verb in contextual)
    )
    # Nouns that look like a verb ("a race") do not name an action.
    contextual_verb = TokenPattern(words=contextual_forms, parts_of_speech={"VERB"})
    docs = parse(text for text, _ in texts)
    return [
        _explain_rejection(doc, verbs[verb], contextual_verb)
        for (_, verb), doc in zip(texts, docs, strict=True)
    ]


def _explain_rejection(
    doc: Doc, verb: SwigVerb, contextual_verb: TokenPattern
) -> str | None:
    """Return the reason why a caption is not plain for an image with a verb; None where it is
    plain.

    Args:
        contextual_verb: Pattern of all contextual verbs of the study.
    """
    if not any(token.is_alpha for token in doc):
        return "empty"
    # The verb of the image is excluded in any part of speech ("a race" for racing).
    if TokenPattern(words=list_forms(verb)).matches_any(doc):
        return "uses the contextual verb"
    if contextual_verb.matches_any(doc):
        return "uses another contextual verb"
    return None


def build_condition_items(
    contextual: Iterable[ImageCaption],
    plain: Iterable[ImageCaption],
    form: str,
) -> list[ProbeRecord]:
    """Return the items of all four conditions, in the order of the contextual captions.

    Each contextual caption occurs once with its image. Each plain caption gives the other three
    conditions: with the contextual image for which it was written, its plain image with the
    contextual caption, and its plain image with the plain caption. A combination of image, caption
    and condition occurs once, even if plain captions share an image.

    Args:
        contextual: Captions, one for each image.
        plain: Captions of the contextual images; captions without plain image are skipped.
        form: `original` or `simplified`.
    """
    plain_by_image: dict[str, list[ImageCaption]] = {}
    for caption in plain:
        if caption.plain_image:
            plain_by_image.setdefault(caption.image, []).append(caption)
    items: list[ProbeRecord] = []
    for context in contextual:
        plain_captions = plain_by_image.get(context.image, [])
        items += _build_items_of_image(context, plain_captions, form)
    return items


def _build_items_of_image(
    context: ImageCaption, plain: Sequence[ImageCaption], form: str
) -> list[ProbeRecord]:
    """Return the items of the four conditions of one contextual image."""
    # Number of the plain caption, by condition, shown image and text.
    numbers = {("+img+cap", context.image, context.caption): 0}
    for number, caption in enumerate(plain):
        for combination in _list_combinations(context, caption):
            numbers.setdefault(combination, number)  # the first of equal ones counts

    # Conditions share texts, so each text is parsed once.
    texts = dict.fromkeys(text for _, _, text in numbers)
    docs = dict(zip(texts, parse(texts), strict=True))
    verb = read_swig_verbs()[context.verb]
    items: list[ProbeRecord] = []
    for (condition, shown_image, text), number in numbers.items():
        image_kind, caption_kind = CONDITIONS[condition]
        item = ProbeRecord(
            item_id=f"cv-probes:{form}:{condition}:{context.image}:{number}",
            form=form,
            condition=condition,
            verb=context.verb,
            image=shown_image,
            image_kind=image_kind,
            caption=text,
            caption_kind=caption_kind,
            verb_span=find_verb_span(docs[text], verb),
            # Only the contextual caption with the plain image is false.
            match=condition != "-img+cap",
            group=context.image,
        )
        items.append(item)
    return items


def _list_combinations(
    context: ImageCaption, plain: ImageCaption
) -> list[tuple[str, str, str]]:
    """Return condition, shown image and text of the three conditions that a plain caption gives."""
    if are_same_text(plain.caption, context.caption):
        return []  # the same text cannot match the plain image and not match it
    return [
        ("+img-cap", context.image, plain.caption),
        ("-img+cap", plain.plain_image, context.caption),
        ("-img-cap", plain.plain_image, plain.caption),
    ]


def find_verb_span(caption: Doc, verb: SwigVerb) -> StoredSpan | None:
    """Return the span of the contextual verb in a caption; without that verb, the span of the main
    verb.

    If several words are forms of the contextual verb ("A coach coaches a team."), the main verb is
    preferred. Return None if the caption has no verb.
    """
    token = find_main_verb(caption)
    contextual = TokenPattern(words=list_forms(verb)).select(caption)
    if contextual and token not in contextual:
        token = contextual[0]
    if token is None:
        return None
    return StoredSpan(start=token.idx, end=token.idx + len(token))
