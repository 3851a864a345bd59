"""Short active captions of an agent, a verb and one more role: from a frame of SWiG, or from text (thesis 3.3, VALSE).

"A man displays a certificate." The role after the verb is never the place, as in the released captions.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from lemminflect import getInflection

from waltz.core.text_diff import Span
from waltz.foils.candidates import Refusal
from waltz.foils.english.wordnet import Verb
from waltz.foils.swig.fillers import Filler, get_filler
from waltz.foils.swig.frames import order_frame, render_complement

SWAP_PREPOSITIONS = (
    "like", "on", "for", "at", "to", "with", "over", "behind", "toward", "as", "from", "beside", "by", "about", "after",
    "under", "into",
)  # fmt: skip
"""Words between verb and object in the released swaps, those that more than four of them have."""
DETERMINERS = frozenset({"a", "an", "the", "such", "his", "her", "its", "their", "my", "another", "some", "all"})
BEFORE_NOUNS = (
    DETERMINERS
    | frozenset(SWAP_PREPOSITIONS)
    | {"in", "up", "down", "out", "off", "onto", "across", "against", "through", "using"}
)


@dataclass(frozen=True)
class ActionCaption:
    """A sentence of agent, verb and one more role.

    Attributes:
        text: The sentence, with capital and full stop.
        verb: The verb's name in SWiG, an -ing form.
        verb_span: Characters of the verb in the text.
        agent: Filler before the verb.
        complement: Filler after it.
        preposition: Words between verb and complement, without its article; empty where there are none.
    """

    text: str
    verb: str
    verb_span: Span
    agent: Filler
    complement: Filler
    preposition: str


def build_action_captions(frame: Mapping[str, Any], verbs: Mapping[str, Verb]) -> Iterator[ActionCaption | Refusal]:
    """Yield the captions of one annotator's frame, one for each filled role other than agent and place.

    Args:
        frame: A row of the layout `FRAMES`.
        verbs: SWiG's verbs by name.
    """
    ordered = order_frame(frame, verbs)
    if isinstance(ordered, Refusal):
        yield ordered
        return
    complements = [(position, filler) for position, filler in ordered.complements if position.role != "place"]
    if not complements:
        yield Refusal("no role but agent and place is filled")
    for position, filler in complements:
        verb_form = inflect_present(ordered.verb.base, ordered.agent.plural)
        noun_phrase = render_complement(ordered.agent, position, filler)
        text, span = build_sentence(ordered.agent.subject, verb_form, position.words, noun_phrase)
        yield ActionCaption(text, ordered.verb.name, span, ordered.agent, filler, position.words)


def build_sentence(subject: str, verb: str, preposition: str, complement: str) -> tuple[str, Span]:
    """Return a sentence and the span of its verb."""
    text = f"{subject[:1].upper()}{subject[1:]} {verb} {preposition} {complement}.".replace("  ", " ")
    start = len(subject) + 1
    return text, Span(start=start, end=start + len(verb))


@cache
def inflect_present(base: str, plural: bool) -> str:
    """Return the present tense that agrees with a subject of the third person."""
    forms = () if plural else getInflection(base, "VBZ")
    return str(forms[0]) if forms else base


def read_action_caption(text: str, verbs: Mapping[str, Verb]) -> ActionCaption | Refusal:
    """Return a short active caption split at its verb.

    Args:
        text: A sentence of agent, verb and one more noun phrase.
        verbs: SWiG's verbs by name.
    Returns:
        The caption; refused where no finite form of SWiG's verbs stands between two phrases. The third person singular
        is tried first, because "train" and "coach" are nouns too.
    """
    words = text.rstrip(" .").split()[1:-1]
    for plural in (False, True):
        forms = {inflect_present(verb.base, plural): verb for verb in verbs.values()}
        for word in words:
            caption = split_caption(text, word, forms[word]) if word in forms else None
            if caption is not None:
                return caption
    return Refusal("no verb of SWiG's stands between two nouns")


def split_caption(text: str, verb_form: str, verb: Verb, complement: str | None = None) -> ActionCaption | None:
    """Return a caption split at a form of its verb.

    Args:
        text: The caption.
        verb_form: The verb as the caption has it.
        verb: The verb.
        complement: The filler that the caption ends with, where it is known.
    Returns:
        None where the form does not stand between two phrases, or the caption does not end with `complement`.
    """
    match = re.fullmatch(rf"(.+?) ({re.escape(verb_form)}) (.+?)[ .]*", text)
    if match is None or (complement is not None and not f" {match[3]}".endswith(f" {complement}")):
        return None
    rest = match[3].removesuffix(complement or "").split()
    if complement is None:
        ends = (
            index
            for index in range(len(rest), 0, -1)
            if rest[index - 1] in BEFORE_NOUNS and "of" not in rest[:index][-2:-1]
        )
        end = next(ends, 0)
        rest, complement = rest[:end], " ".join(rest[end:])
    if not complement:
        return None
    subject = match[1].split()
    agent = " ".join(subject[1:] if subject[0].lower() in DETERMINERS else subject)
    if len(agent.split()) == len(subject):  # the capital of a sentence's first word, unless it is a name's
        lowered = get_filler(agent.lower())
        agent = lowered.noun if lowered.bare or lowered.plural else agent
    is_plural = verb_form == inflect_present(verb.base, True)
    return ActionCaption(
        text=text,
        verb=verb.name,
        verb_span=Span(start=match.start(2), end=match.end(2)),
        agent=Filler(agent, is_plural, get_filler(agent).bare),
        complement=get_filler(complement),
        preposition=" ".join(word for word in rest if word not in DETERMINERS),
    )
