"""Action replacement: a short active caption of a SWiG frame, and a foil with another verb of SWiG.

A masked language model decides which verbs fit; WordNet excludes those that might be true as well:
synonyms, hypernyms and hyponyms. The released pairs have none of these at a distance of one step in
WordNet and 13 of 779 at two to five, so that only direct relations are excluded.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from waltz.core.errors import UserError
from waltz.core.text_diff import slice_span
from waltz.foils.candidates import (
    Candidate,
    MakerOptions,
    Proposal,
    Refusal,
    Slot,
    SourceOutcomes,
    attach_row,
    check_readable,
    replace_span,
)
from waltz.foils.english.wordnet import Relation, SwigVerb, read_swig_verbs
from waltz.foils.swig import ActionCaption, build_action_captions, inflect_present
from waltz.sources.records import FrameRecord

NO_VERB = "no form of another of SWiG's verbs that agrees with the subject"
FORBIDDEN: dict[Relation, str] = {
    "synonym": "a synonym of the verb",
    "hypernym": "a hypernym of the verb",
    "hyponym": "a hyponym of the verb",
}
"""Reason why a verb with this relation is excluded; where one verb is true of an image, the other
verb may be too.
"""


def build_candidates(
    rows: Sequence[FrameRecord], options: MakerOptions, _: str
) -> SourceOutcomes:
    """Yield for each caption of each frame foils with the verbs of the source that fit best, in the
    order of the rows.

    The masked language model `options.rank_words` must be set.
    """
    if options.rank_words is None:
        raise UserError(
            "proposals.verbs: names a causal language model (expected a masked one); only relations"
            " can have their foils ranked by a causal one"
        )
    verb_names = {row.verb for row in rows}
    verbs = {
        name: verb for name, verb in read_swig_verbs().items() if name in verb_names
    }

    # All captions first, so that the model ranks the verbs of many captions together.
    captions: list[tuple[FrameRecord, ActionCaption | Refusal]] = []
    forms: dict[Slot, tuple[str, ...]] = {}
    for row in rows:
        for caption in build_action_captions(row):
            outcome = _check_caption(caption, options)
            captions.append((row, outcome))
            if isinstance(outcome, ActionCaption):
                # Candidate words of the caption's slot, each in the number of its subject.
                forms[_get_verb_slot(outcome)] = tuple(
                    list_replacement_verbs(outcome, verbs)
                )
    rankings = options.rank_words(forms)

    for row, outcome in captions:
        if isinstance(outcome, Refusal):
            yield row, outcome
            continue
        # The study limits the number of verbs for each caption.
        proposals = rankings[_get_verb_slot(outcome)][: options.most_verbs]
        yield from attach_row(row, build_replacements(outcome, proposals, verbs))


def _check_caption(
    caption: ActionCaption | Refusal, options: MakerOptions
) -> ActionCaption | Refusal:
    """Return a caption, or a refusal where the model cannot read it."""
    if isinstance(caption, Refusal):
        return caption
    return check_readable(caption.text, options.count_tokens) or caption


def _get_verb_slot(caption: ActionCaption) -> Slot:
    return Slot(caption.text, **caption.verb_span)


def list_replacement_verbs(
    caption: ActionCaption, verbs: Mapping[str, SwigVerb]
) -> dict[str, str]:
    """Return the verbs that may replace the verb of a caption by WordNet's relations, by the form
    that agrees with the subject.

    Args:
        caption: The caption; a model fills its `verb_span`.
    """
    replacements = {}
    for form, name in _inflect_verbs(caption, verbs).items():
        relation = verbs[caption.verb].find_relation(name)
        if name != caption.verb and relation not in FORBIDDEN:
            replacements[form] = name
    return replacements


def build_replacements(
    caption: ActionCaption, proposals: Iterable[Proposal], verbs: Mapping[str, SwigVerb]
) -> Iterator[Candidate]:
    """Yield a candidate for each proposal.

    A candidate is `rejected` where its word does not agree with the subject, is no verb of SWiG, or
    is excluded by WordNet. The phrases of the candidates are the base forms of the verbs. A
    proposal that is the verb of the caption gives no candidate.
    """
    forms = _inflect_verbs(caption, verbs)
    verb = verbs[caption.verb]
    verb_form = slice_span(caption.text, caption.verb_span).lower()
    for proposal in proposals:
        form = proposal.phrase.strip().lower()
        if form == verb_form:
            continue

        # Until the form is known as a verb of SWiG, the candidate is rejected and its phrase is the
        # form itself.
        base = form
        relation: Relation | None = None
        rejected: str | None = NO_VERB
        if form in forms:
            name = forms[form]
            base = verbs[name].base
            relation = verb.find_relation(name)
            rejected = FORBIDDEN.get(relation) if relation else None

        foil, foil_span = replace_span(caption.text, caption.verb_span, form)
        yield Candidate(
            caption=caption.text,
            foil=foil,
            caption_span=caption.verb_span,
            foil_span=foil_span,
            caption_phrases=(verb.base,),
            foil_phrases=(base,),
            direction="antonym" if relation == "antonym" else "unrelated",
            proposal_rank=proposal.rank,
            proposal_score=proposal.score,
            rejected=rejected,
        )


def _inflect_verbs(
    caption: ActionCaption, verbs: Mapping[str, SwigVerb]
) -> dict[str, str]:
    """Return the names of the verbs by the form in the present tense that agrees with the subject
    of a caption.
    """
    return {
        inflect_present(verb.base, caption.agent.plural): verb.name
        for verb in verbs.values()
    }
