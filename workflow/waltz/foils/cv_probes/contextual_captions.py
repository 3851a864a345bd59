"""CV-Probes: captions that name a context-dependent action, from the three annotations of imSitu images.

The abstract of the verb is filled with each annotation and repaired, by rule or by a language model with a prompt; the
most grammatical of the three is kept. (CV-Probes, arXiv 2409.01389. The paper's prompt is not in its text: the one
here is our own.)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lemminflect import getAllInflections, getLemma

from waltz.core.errors import UserError
from waltz.core.sampling import rank
from waltz.foils.candidates import Refusal
from waltz.foils.english.wordnet import Verb
from waltz.foils.swig.captions import inflect_present
from waltz.foils.swig.fillers import Filler
from waltz.foils.swig.frames import RolePosition, order_frame, render_complement

VERBS = (
    "admiring", "apprehending", "autographing", "baptizing", "begging", "browsing", "buying", "celebrating", "chasing",
    "cheerleading", "coaching", "competing", "congregating", "counting", "educating", "exercising", "frisking",
    "guarding", "hitchhiking", "hunting", "interrogating", "interviewing", "praying", "protesting", "racing",
    "studying", "voting",
)  # fmt: skip
"""The 27 context-dependent verbs; `brows` in the paper is browsing."""

IMAGES_PER_VERB = 5

REPAIR_PROMPT = """\
The words below were put together by a program. Write them as one correct English sentence in the present tense.
Correct articles, number and prepositions, and change nothing else; keep the verb "{verb}".

Words: the woman baptizes baby with water at outdoors
Sentence: A woman baptizes a baby with water outdoors.

Words: {words}
Sentence:"""


MAY_CHANGE = frozenset({
    "a", "an", "the", "some", "his", "her", "its", "their", "another", "is", "are", "and", "about", "against", "along",
    "among", "around", "as", "at", "behind", "beside", "by", "down", "during", "for", "from", "in", "inside", "into",
    "near", "of", "off", "on", "onto", "out", "over", "through", "to", "toward", "towards", "under", "up", "with",
})  # fmt: skip
"""Words that a repair may add, remove or change."""


@dataclass(frozen=True)
class FilledAbstract:
    """An abstract filled with one annotation.

    Attributes:
        source_id: The annotation.
        words: The abstract with its roles replaced and nothing else changed, for a language model to repair.
        caption: The same repaired by rule.
        simplified: Subject, verb and the role that follows the verb.
    """

    source_id: str
    words: str
    caption: str
    simplified: str


def select_verbs(frames: Iterable[Mapping[str, Any]], names: Sequence[str] | str = VERBS) -> list[str]:
    """Return the verbs of a study: those it names, or every verb of its source.

    Args:
        frames: Rows of the layout `FRAMES`.
        names: -ing forms, or `all`.
    Raises:
        UserError: A verb is none of the source's.
    """
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
        seed: Of the study.
        verbs: -ing forms.
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


def build_contextual_captions(
    frames: Iterable[Mapping[str, Any]],
    images: Mapping[str, Sequence[str]],
    verbs: Mapping[str, Verb],
    generate: Callable[[str], str] | None = None,
    model: str = "",
) -> list[dict[str, Any]]:
    """Return a caption for each annotation of the selected images, in the order of the frames.

    Args:
        frames: Rows of the layout `FRAMES`.
        images: The selected images of each verb.
        verbs: SWiG's verbs by name.
        generate: Returns the text that a model generates after a prompt; where it is None, captions are repaired by
            rule only.
        model: Its name.
    Returns:
        Rows of the layout `PROBE_CAPTIONS` without a score; an annotation that gives no caption says why.
    """
    selected = {image for names in images.values() for image in names}
    rows = []
    for frame in frames:
        if frame["image"] not in selected:
            continue
        filled = Refusal(f"the source's row: {frame['rejected']}") if frame["rejected"] else fill_abstract(frame, verbs)
        caption, writer = None, "rule"
        if isinstance(filled, FilledAbstract):
            caption = filled.caption
            if generate is not None:
                caption, repaired_by = repair_caption(filled, verbs[frame["verb"]], generate)
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


def fill_abstract(frame: Mapping[str, Any], verbs: Mapping[str, Verb]) -> FilledAbstract | Refusal:
    """Return the abstract of a frame's verb filled with its annotation, without open roles and the words before them.

    Args:
        frame: A row of the layout `FRAMES`.
        verbs: SWiG's verbs by name.
    """
    ordered = order_frame(frame, verbs)
    if isinstance(ordered, Refusal):
        return ordered
    start = [ordered.agent.subject, inflect_present(ordered.verb.base, ordered.agent.plural)]
    parts = [_render_part(ordered.agent, position, filler) for position, filler in ordered.complements]
    core = [part for (position, _), part in zip(ordered.complements, parts, strict=True) if position.role != "place"]
    words = [word for position, filler in ordered.complements for word in (position.words, filler.noun)]
    return FilledAbstract(
        frame["source_id"],
        " ".join(word for word in (ordered.agent.noun, ordered.verb_form, *words) if word),
        _join_sentence(start + parts),
        _join_sentence(start + core[:1]),
    )


def _render_part(agent: Filler, position: RolePosition, filler: Filler) -> str:
    if position.role == "place" and position.words == "at":
        return filler.place
    return f"{position.words} {render_complement(agent, position, filler)}".strip()


def _join_sentence(parts: Iterable[str]) -> str:
    text = " ".join(part for part in parts if part)
    return f"{text[:1].upper()}{text[1:]}."


def repair_caption(filled: FilledAbstract, verb: Verb, generate: Callable[[str], str]) -> tuple[str, str]:
    """Return a filled abstract repaired by a language model, or by rule where its answer changes more than it may.

    The answer must have a form of the verb and otherwise the same words, up to their number and `MAY_CHANGE`: small
    models copy the prompt's example.

    Args:
        filled: The abstract.
        verb: Its verb.
        generate: Returns the text that a model generates after a prompt.
    Returns:
        The caption, and `model` or `rule`, whichever repaired it.
    """
    answer = generate(REPAIR_PROMPT.format(verb=inflect_present(verb.base, False), words=filled.words)).strip()
    line = answer.splitlines()[0].strip().strip('"').strip() if answer else ""
    words = set(_split_words(line))
    if not words & list_forms(verb) or _list_content_words(line, verb) != _list_content_words(filled.words, verb):
        return filled.caption, "rule"
    return (line if line.endswith(".") else f"{line}."), "model"


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


def select_best(captions: Sequence[str], score: Callable[[Sequence[str]], Sequence[float]]) -> int:
    """Return the index of the caption with the highest score, the first of equals.

    Args:
        captions: One or more.
        score: Grammaticality of texts, higher is better.
    """
    scores = list(score(captions))
    return max(range(len(captions)), key=lambda index: (scores[index], -index))
