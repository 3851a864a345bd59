"""Action captions that come as text: a released caption, or one that a user types."""

import re
from collections.abc import Mapping

from waltz.core.text_diff import Span
from waltz.foils.actants import PREPOSITIONS
from waltz.foils.actions import ActionCaption, finite
from waltz.foils.candidates import Refused
from waltz.foils.english.wordnet import Verb
from waltz.foils.swig_fillers import Filler, filler

DETERMINERS = frozenset({"a", "an", "the", "such", "his", "her", "its", "their", "my", "another", "some", "all"})
BEFORE_NOUNS = (
    DETERMINERS
    | frozenset(PREPOSITIONS)
    | {"in", "up", "down", "out", "off", "onto", "across", "against", "through", "using"}
)


def read_caption(text: str, verbs: Mapping[str, Verb]) -> ActionCaption | Refused:
    """A short active caption taken apart at its verb.

    Args:
        text: A sentence of agent, verb and one more noun phrase.
        verbs: SWiG's verbs by name.
    Returns:
        The caption; refused where no finite form of SWiG's verbs stands between two phrases. The third person singular
        is looked for first, because "train" and "coach" are nouns too.
    """
    words = text.rstrip(" .").split()[1:-1]
    for plural in (False, True):
        forms = {finite(verb.base, plural): verb for verb in verbs.values()}
        for word in words:
            found = caption_at(text, word, forms[word]) if word in forms else None
            if found is not None:
                return found
    return Refused("no verb of SWiG's stands between two nouns")


def caption_at(text: str, form: str, verb: Verb, other: str | None = None) -> ActionCaption | None:
    """A caption taken apart at a form of its verb.

    Args:
        text: The caption.
        form: The verb as the caption has it.
        verb: The verb.
        other: The filler that the caption ends with, where it is known.
    Returns:
        None where the form does not stand between two phrases, or the caption does not end with `other`.
    """
    found = re.fullmatch(rf"(.+?) ({re.escape(form)}) (.+?)[ .]*", text)
    if found is None or (other is not None and not f" {found[3]}".endswith(f" {other}")):
        return None
    rest = found[3].removesuffix(other or "").split()
    if other is None:
        starts = (at for at in range(len(rest), 0, -1) if rest[at - 1] in BEFORE_NOUNS and "of" not in rest[:at][-2:-1])
        start = next(starts, 0)
        rest, other = rest[:start], " ".join(rest[start:])
    if not other:
        return None
    first = found[1].split()
    agent = " ".join(first[1:] if first[0].lower() in DETERMINERS else first)
    if len(agent.split()) == len(first):  # the capital of a sentence's first word, unless it is a name's
        low = filler(agent.lower())
        agent = low.noun if low.bare or low.plural else agent
    known = filler(agent)
    return ActionCaption(
        text=text,
        verb=verb.name,
        verb_span=Span(start=found.start(2), end=found.end(2)),
        agent=Filler(agent, form == finite(verb.base, True), known.bare),
        other=filler(other),
        preposition=" ".join(word for word in rest if word not in DETERMINERS),
    )
