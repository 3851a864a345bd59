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
from waltz.foils.actions import finite
from waltz.foils.candidates import Refused
from waltz.foils.english.wordnet import Verb
from waltz.foils.swig_fillers import Filler
from waltz.foils.verb_abstracts import Place, complement, read_annotation

VERBS = (
    "admiring", "apprehending", "autographing", "baptizing", "begging", "browsing", "buying", "celebrating", "chasing",
    "cheerleading", "coaching", "competing", "congregating", "counting", "educating", "exercising", "frisking",
    "guarding", "hitchhiking", "hunting", "interrogating", "interviewing", "praying", "protesting", "racing",
    "studying", "voting",
)  # fmt: skip
"""The 27 context-dependent verbs; `brows` in print is browsing."""

PER_VERB = 5

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
"""Words that a repair may add, leave out or change."""


@dataclass(frozen=True)
class Filled:
    """An abstract filled with one annotation.

    Attributes:
        source_id: The annotation.
        words: The abstract with its roles replaced, as it is, for a language model to repair.
        caption: The same repaired by rule.
        simplified: Subject, verb and the role that follows the verb.
    """

    source_id: str
    words: str
    caption: str
    simplified: str


def contextual_verbs(frames: Iterable[Mapping[str, Any]], named: Sequence[str] | str = VERBS) -> list[str]:
    """The verbs of a study: those it names, or every verb of its source.

    Args:
        frames: Rows of the layout `FRAMES`.
        named: -ing forms, or `all`.
    Raises:
        UserError: A verb is none of the source's.
    """
    known = sorted({str(frame["verb"]) for frame in frames})
    if named == "all":
        return known
    unknown = [verb for verb in named if verb not in known]
    if unknown and named is not VERBS:
        raise UserError(f"study file: cv_probes.verbs: the source has no image of {unknown[0]!r}")
    return list(named)


def chosen_images(
    frames: Iterable[Mapping[str, Any]], seed: int, verbs: Sequence[str] = VERBS, count: int = PER_VERB
) -> dict[str, list[str]]:
    """Images of each verb: those first in the seeded order, all where there are fewer.

    Args:
        frames: Rows of the layout `FRAMES`; rejected ones give no image.
        seed: Of the study.
        verbs: -ing forms.
        count: Images of each verb.
    """
    found: dict[str, set[str]] = {verb: set() for verb in verbs}
    for frame in frames:
        if frame["verb"] in found and not frame["rejected"]:
            found[frame["verb"]].add(frame["image"])
    return {
        verb: sorted(sorted(images, key=lambda image: (rank(image, seed), image))[:count])
        for verb, images in found.items()
    }


def contextual_captions(
    frames: Iterable[Mapping[str, Any]],
    images: Mapping[str, Sequence[str]],
    verbs: Mapping[str, Verb],
    generate: Callable[[str], str] | None = None,
    model: str = "",
) -> list[dict[str, Any]]:
    """A caption for each annotation of the chosen images, in the order of the frames.

    Args:
        frames: Rows of the layout `FRAMES`.
        images: The chosen images of each verb.
        verbs: SWiG's verbs by name.
        generate: What a model writes after a prompt; captions are repaired by rule alone where it is None.
        model: Its name.
    Returns:
        Rows of the layout `PROBE_CAPTIONS` without a score; an annotation that gives no caption says why.
    """
    chosen = {image for names in images.values() for image in names}
    rows = []
    for frame in frames:
        if frame["image"] not in chosen:
            continue
        found = Refused(f"the source's row: {frame['rejected']}") if frame["rejected"] else fill(frame, verbs)
        caption, writer = None, "rule"
        if isinstance(found, Filled):
            caption = found.caption
            if generate is not None:
                caption, by = repaired(found, verbs[frame["verb"]], generate)
                writer = model if by == "model" else by
        rows.append(
            {
                "caption_id": f"contextual:{frame['source_id']}",
                "kind": "contextual",
                "verb": frame["verb"],
                "image": frame["image"],
                "writer": writer,
                "caption": caption,
                "simplified": found.simplified if isinstance(found, Filled) else None,
                "rejected": found.reason if isinstance(found, Refused) else None,
            }
        )
    return rows


def fill(frame: Mapping[str, Any], verbs: Mapping[str, Verb]) -> Filled | Refused:
    """The abstract of a frame's verb filled with its annotation; roles left open go, and what is before them.

    Args:
        frame: A row of the layout `FRAMES`.
        verbs: SWiG's verbs by name.
    """
    found = read_annotation(frame, verbs)
    if isinstance(found, Refused):
        return found
    start = [found.agent.subject, finite(found.verb.base, found.agent.plural)]
    parts = [_part(found.agent, place, other) for place, other in found.others]
    core = [part for (place, _), part in zip(found.others, parts, strict=True) if place.role != "place"]
    raw = [word for place, other in found.others for word in (place.words, other.noun)]
    return Filled(
        frame["source_id"],
        " ".join(word for word in (found.agent.noun, found.written, *raw) if word),
        _sentence(start + parts),
        _sentence(start + core[:1]),
    )


def _part(agent: Filler, place: Place, other: Filler) -> str:
    if place.role == "place" and place.words == "at":
        return other.place
    return f"{place.words} {complement(agent, place, other)}".strip()


def _sentence(parts: Iterable[str]) -> str:
    text = " ".join(part for part in parts if part)
    return f"{text[:1].upper()}{text[1:]}."


def repaired(filled: Filled, verb: Verb, generate: Callable[[str], str]) -> tuple[str, str]:
    """A filled abstract repaired by a language model, or by rule where its answer changes more than it may.

    The answer must have a form of the verb and otherwise the given words, up to their number and `MAY_CHANGE`: small
    models copy the prompt's example.

    Args:
        filled: The abstract.
        verb: Its verb.
        generate: What a model writes after a prompt.
    Returns:
        The caption, and `model` or `rule`, whichever made it.
    """
    answer = generate(REPAIR_PROMPT.format(verb=finite(verb.base, False), words=filled.words)).strip()
    line = answer.splitlines()[0].strip().strip('"').strip() if answer else ""
    words = set(_words(line))
    if not words & forms(verb) or _content(line, verb) != _content(filled.words, verb):
        return filled.caption, "rule"
    return (line if line.endswith(".") else f"{line}."), "model"


def _words(text: str) -> list[str]:
    return [word.strip(".,;:!?").lower() for word in text.split()]


def _content(text: str, verb: Verb) -> set[str]:
    """The words of a text that a repair must keep, nouns in the singular."""
    kept = (word for word in _words(text) if word and word not in forms(verb) and word not in MAY_CHANGE)
    return {getLemma(word, upos="NOUN")[0] for word in kept}


def forms(verb: Verb) -> frozenset[str]:
    """Every form of a verb: admire, admires, admired, admiring."""
    inflected = (form for found in getAllInflections(verb.base, upos="VERB").values() for form in found)
    return frozenset({verb.base, verb.name, *inflected})


def best(captions: Sequence[str], score: Callable[[Sequence[str]], Sequence[float]]) -> int:
    """Place of the caption with the highest score, the first of equals.

    Args:
        captions: One or more.
        score: Grammaticality of texts, higher is better.
    """
    scores = list(score(captions))
    return max(range(len(captions)), key=lambda at: (scores[at], -at))
