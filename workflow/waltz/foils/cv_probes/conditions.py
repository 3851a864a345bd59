"""CV-Probes: images for plain captions, and the four conditions, contextual or plain image with either caption.

Of the four only a plain image with a contextual caption is no match: it does not show the action.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from waltz.core.text_diff import Span
from waltz.foils.cv_probes.contextual_captions import forms
from waltz.foils.english.wordnet import Verb

CONDITIONS = {
    "+img+cap": ("contextual", "contextual"),
    "+img-cap": ("contextual", "plain"),
    "-img+cap": ("plain", "contextual"),
    "-img-cap": ("plain", "plain"),
}
"""Kind of image and kind of caption, by the names that the paper's tables have."""


def ranked_images(images: Sequence[str], scores: Sequence[float], count: int) -> list[tuple[str, float]]:
    """The images that fit a caption best, with their scores, best first, equals by name.

    Args:
        images: Names of the images to choose from, without those of contextual verbs.
        scores: How well the caption fits each of them (CLIP), higher is better.
        count: How many are wanted.
    """
    pairs = [(image, float(score)) for image, score in zip(images, scores, strict=True)]
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:count]


def conditions(
    contextual: Iterable[Mapping[str, Any]],
    plain: Iterable[Mapping[str, Any]],
    verbs: Mapping[str, Verb],
    form: str,
) -> list[dict[str, Any]]:
    """The rows of all four conditions, in the order of the contextual captions.

    Each contextual caption stands once with its own image. Each plain caption gives the other three: with the
    contextual image that it was written for, its own plain image with the contextual caption, and its own with itself.
    What is the same image, caption and condition again, as where plain captions share an image, stands once.

    Args:
        contextual: Rows of image, verb and caption, one an image.
        plain: Rows of image (the contextual one), verb, caption and plain_image; a rejected row, or one without
            plain_image, is left out.
        verbs: SWiG's verbs by name.
        form: `original` or `simplified`: whether the captions are whole.
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
                "image": shown,
                "image_kind": CONDITIONS[condition][0],
                "caption": text,
                "caption_kind": CONDITIONS[condition][1],
                "verb_span": verb_span(text, verbs[context["verb"]]),
                "match": condition != "-img+cap",
                "group": image,
            }
            for (condition, shown, text), number in numbers.items()
        ]
    return rows


def verb_span(caption: str, verb: Verb) -> Span | None:
    """Where a caption has a form of the contextual verb; None where it has none, as every plain caption."""
    start = 0
    for word in caption.split(" "):
        bare = word.strip(".,;:!?")
        if bare.lower() in forms(verb):
            at = start + word.index(bare)
            return Span(start=at, end=at + len(bare))
        start += len(word) + 1
    return None
