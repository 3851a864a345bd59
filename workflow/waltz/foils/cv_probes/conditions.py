"""CV-Probes: images for plain captions, and the four conditions, contextual or plain image with either caption.

Of the four only a plain image with a contextual caption is no match: it does not show the action.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from waltz.core.text_diff import Span
from waltz.foils.cv_probes.contextual_captions import list_forms
from waltz.foils.english.wordnet import Verb

CONDITIONS = {
    "+img+cap": ("contextual", "contextual"),
    "+img-cap": ("contextual", "plain"),
    "-img+cap": ("plain", "contextual"),
    "-img-cap": ("plain", "plain"),
}
"""Kind of image and kind of caption, by the condition's name in the paper's tables."""


def rank_images(images: Sequence[str], scores: Sequence[float], count: int) -> list[tuple[str, float]]:
    """Return the images that fit a caption best, with their scores, best first, equal ones by name.

    Args:
        images: Names of the images to choose from, without those of contextual verbs.
        scores: How well the caption fits each of them (CLIP), higher is better.
        count: Number of images.
    """
    pairs = [(image, float(score)) for image, score in zip(images, scores, strict=True)]
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:count]


def build_condition_rows(
    contextual: Iterable[Mapping[str, Any]],
    plain: Iterable[Mapping[str, Any]],
    verbs: Mapping[str, Verb],
    form: str,
) -> list[dict[str, Any]]:
    """Return the rows of all four conditions, in the order of the contextual captions.

    Each contextual caption occurs once with its own image. Each plain caption gives the other three: with the
    contextual image that it was written for, its own plain image with the contextual caption, and its own with itself.
    Repeated combinations of image, caption and condition, as where plain captions share an image, occur once.

    Args:
        contextual: Rows of image, verb and caption, one an image.
        plain: Rows of image (the contextual one), verb, caption and plain_image; rejected rows, and those
            without plain_image, are skipped.
        verbs: SWiG's verbs by name.
        form: `original` or `simplified`.
    Returns:
        Rows of item_id, form, condition, verb, image, image_kind, caption, caption_kind, verb_span, match and group
        (the contextual image).
    """
    by_image: dict[str, list[Mapping[str, Any]]] = {}
    for row in plain:
        if not row.get("rejected") and row.get("plain_image"):
            by_image.setdefault(row["image"], []).append(row)
    rows = []
    for context in contextual:
        image, caption = context["image"], context["caption"]
        numbers = {("+img+cap", image, caption): 0}
        for number, row in enumerate(by_image.get(image, [])):
            numbers.setdefault(("+img-cap", image, row["caption"]), number)
            numbers.setdefault(("-img+cap", row["plain_image"], caption), number)
            numbers.setdefault(("-img-cap", row["plain_image"], row["caption"]), number)
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
                "verb_span": find_verb_span(text, verbs[context["verb"]]),
                "match": condition != "-img+cap",
                "group": image,
            }
            for (condition, shown_image, text), number in numbers.items()
        ]
    return rows


def find_verb_span(caption: str, verb: Verb) -> Span | None:
    """Return the span of a form of the contextual verb; None where a caption has none, as every plain caption."""
    start = 0
    for word in caption.split(" "):
        bare = word.strip(".,;:!?")
        if bare.lower() in list_forms(verb):
            first = start + word.index(bare)
            return Span(start=first, end=first + len(bare))
        start += len(word) + 1
    return None
