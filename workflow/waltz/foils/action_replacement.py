"""Action replacement: a short active caption of a SWiG frame, and the same with another of SWiG's verbs.

A masked language model decides which verbs fit; WordNet excludes those that might be true as well: synonyms, hypernyms
and hyponyms. The released pairs have none of these at a distance of one step in WordNet and 13 of 779 at two to five,
so that only direct relations are excluded.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from waltz.core.text_diff import slice_span
from waltz.foils.candidates import (
    Candidate,
    MakerOptions,
    Proposal,
    Refusal,
    Row,
    Slot,
    SourceOutcomes,
    replace_span,
)
from waltz.foils.english.wordnet import Verb, read_verbs
from waltz.foils.swig import ActionCaption, build_action_captions, inflect_present

NO_VERB = "no form of another of SWiG's verbs that agrees with the subject"
FORBIDDEN = {relation: f"a {relation} of the verb" for relation in ("synonym", "hypernym", "hyponym")}


def build_candidates(rows: Sequence[Row], options: MakerOptions, _: str) -> SourceOutcomes:
    """Yield the best fitting of the source's own verbs for each caption of each frame, in the order of the rows.

    Needs `options.rank_words`.
    """
    assert options.rank_words is not None
    verb_names = {row["verb"] for row in rows}
    verbs = {name: verb for name, verb in read_verbs().items() if name in verb_names}
    captions = [(row, caption) for row in rows for caption in build_action_captions(row)]
    forms = {
        Slot(caption.text, **caption.verb_span): tuple(list_replacement_verbs(caption, verbs))
        for _, caption in captions
        if not isinstance(caption, Refusal)
    }
    rankings = options.rank_words(forms)
    for row, caption in captions:
        if isinstance(caption, Refusal):
            yield row, caption
            continue
        proposals = rankings[Slot(caption.text, **caption.verb_span)][: options.most_verbs]
        yield from ((row, candidate) for candidate in build_replacements(caption, proposals, verbs))


def list_replacement_verbs(caption: ActionCaption, verbs: Mapping[str, Verb]) -> dict[str, str]:
    """Return the verbs that WordNet allows instead of a caption's, by the form that agrees with its subject.

    Args:
        caption: The caption; a model fills its `verb_span`.
    """
    return {
        form: name
        for form, name in _inflect_verbs(caption, verbs).items()
        if name != caption.verb and verbs[caption.verb].find_relation(name) not in FORBIDDEN
    }


def build_replacements(
    caption: ActionCaption, proposals: Iterable[Proposal], verbs: Mapping[str, Verb]
) -> Iterator[Candidate]:
    """Yield every proposal as a candidate, `rejected` where it is no agreeing verb of SWiG, or WordNet excludes it.

    The phrases of the candidates are the base forms of the verbs. A proposal of the caption's own verb gives none.
    """
    forms = _inflect_verbs(caption, verbs)
    verb = verbs[caption.verb]
    for proposal in proposals:
        form = proposal.phrase.strip().lower()
        if form == slice_span(caption.text, caption.verb_span).lower():
            continue
        name = forms.get(form)
        relation = None if name is None else verb.find_relation(name)
        foil, span = replace_span(caption.text, caption.verb_span, form)
        yield Candidate(
            caption=caption.text,
            foil=foil,
            caption_span=caption.verb_span,
            foil_span=span,
            caption_phrases=(verb.base,),
            foil_phrases=(form if name is None else verbs[name].base,),
            direction="antonym" if relation == "antonym" else "unrelated",
            proposal_rank=proposal.rank,
            proposal_score=proposal.score,
            rejected=NO_VERB if name is None else FORBIDDEN.get(relation or ""),
        )


def _inflect_verbs(caption: ActionCaption, verbs: Mapping[str, Verb]) -> dict[str, str]:
    return {inflect_present(verb.base, caption.agent.plural): verb.name for verb in verbs.values()}
