"""Action replacement: a short active caption from a frame of SWiG, and the same with another of SWiG's verbs.

The caption names the agent and the filler of one more role (thesis 3.3, VALSE): "A man displays a certificate.". The
place is never that role, as it never is in the released captions. Which verbs fit is for a masked language model to
say; WordNet forbids those that might be true as well: synonyms, hypernyms and hyponyms. The released pairs hold none
of these at a distance of one step in WordNet and 13 of 779 at two to five, so the direct relations are what counts.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from lemminflect import getInflection

from waltz.core.text_diff import Span, slice_span
from waltz.foils.candidates import Candidate, Refused, replaced
from waltz.foils.english.wordnet import Verb
from waltz.foils.swig_fillers import Filler
from waltz.foils.verb_abstracts import complement, read_annotation

NO_VERB = "no form of another of SWiG's verbs that agrees with the subject"
FORBIDDEN = {relation: f"a {relation} of the verb" for relation in ("synonym", "hypernym", "hyponym")}


@dataclass(frozen=True)
class ActionCaption:
    """A sentence of agent, verb and one more role.

    Attributes:
        text: The sentence, with capital and full stop.
        verb: The verb's name in SWiG, an -ing form.
        verb_span: Where the text has it.
        agent: Filler before the verb.
        other: Filler after it.
        preposition: Words between verb and other filler, its article left out; empty where there are none.
    """

    text: str
    verb: str
    verb_span: Span
    agent: Filler
    other: Filler
    preposition: str


def action_captions(frame: Mapping[str, Any], verbs: Mapping[str, Verb]) -> Iterator[ActionCaption | Refused]:
    """The captions of one annotator's frame, one for each role beside agent and place that is filled.

    Args:
        frame: A row of the layout `FRAMES`.
        verbs: SWiG's verbs by name.
    """
    found = read_annotation(frame, verbs)
    if isinstance(found, Refused):
        yield found
        return
    others = [(place, other) for place, other in found.others if place.role != "place"]
    if not others:
        yield Refused("no role but agent and place is filled")
    for place, other in others:
        form = finite(found.verb.base, found.agent.plural)
        text, span = sentence(found.agent.subject, form, place.words, complement(found.agent, place, other))
        yield ActionCaption(text, found.verb.name, span, found.agent, other, place.words)


def sentence(subject: str, verb: str, preposition: str, other: str) -> tuple[str, Span]:
    """A sentence, and where its verb stands."""
    text = f"{subject[:1].upper()}{subject[1:]} {verb} {preposition} {other}.".replace("  ", " ")
    start = len(subject) + 1
    return text, Span(start=start, end=start + len(verb))


@cache
def finite(base: str, plural: bool) -> str:
    """The present tense that agrees with a subject of the third person."""
    forms = () if plural else getInflection(base, "VBZ")
    return str(forms[0]) if forms else base


def replacement_verbs(caption: ActionCaption, verbs: Mapping[str, Verb]) -> dict[str, str]:
    """The verbs that WordNet allows in the place of a caption's, by the form that agrees with its subject.

    Args:
        caption: The caption; `caption.verb_span` is what a model is to fill.
        verbs: SWiG's verbs by name.
    """
    return {
        form: name
        for form, name in _forms(caption, verbs).items()
        if name != caption.verb and verbs[caption.verb].relation(name) not in FORBIDDEN
    }


def replacements(
    caption: ActionCaption, proposals: Iterable[tuple[str, int, float]], verbs: Mapping[str, Verb]
) -> Iterator[Candidate]:
    """Every proposal as a candidate, with `rejected` where it is no verb of SWiG that agrees, or WordNet forbids it.

    Args:
        caption: The caption.
        proposals: What a model put in the place of the verb: text, its place among the proposals from 0, its score.
        verbs: SWiG's verbs by name.
    Yields:
        Candidates of the direction `antonym` or `unrelated`; their phrases are the base forms of the verbs.
        A proposal of the caption's own verb is left out, for it is no foil.
    """
    forms = _forms(caption, verbs)
    verb = verbs[caption.verb]
    for proposal, rank, score in proposals:
        form = proposal.strip().lower()
        if form == slice_span(caption.text, caption.verb_span).lower():
            continue
        name = forms.get(form)
        relation = None if name is None else verb.relation(name)
        foil, span = replaced(caption.text, caption.verb_span, form)
        yield Candidate(
            caption=caption.text,
            foil=foil,
            caption_span=caption.verb_span,
            foil_span=span,
            caption_phrases=(verb.base,),
            foil_phrases=(form if name is None else verbs[name].base,),
            direction="antonym" if relation == "antonym" else "unrelated",
            proposal_rank=rank,
            proposal_score=score,
            rejected=NO_VERB if name is None else FORBIDDEN.get(relation or ""),
        )


def _forms(caption: ActionCaption, verbs: Mapping[str, Verb]) -> dict[str, str]:
    return {finite(verb.base, caption.agent.plural): verb.name for verb in verbs.values()}
