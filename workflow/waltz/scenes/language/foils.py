"""Foils in the scenes' own grammar: false sentences that differ from a true one in one place.

They train and test the scene models; the benchmark builds its foils from the written files.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from waltz.scenes.graph import PREPOSITIONS, Graph, Object
from waltz.scenes.language.captions import (
    BE,
    draw_captions,
    draw_place,
    get_be,
    inflect_noun,
    render_existence,
    render_indefinite,
    render_main_clause,
    render_sentence,
    render_with_theme,
)
from waltz.scenes.lexicon import NUMBERS, Verb, read_kinds, read_verbs
from waltz.scenes.oracle import decide_truth


@dataclass(frozen=True)
class Foil:
    """A true caption and a false one."""

    piece: str
    caption: str
    foil: str


def draw_foils(graph: Graph, rng: Random) -> Iterator[Foil]:
    """Yield one foil of each possible piece; the oracle decides every caption true and every foil false."""
    for piece, draw_pair in _FOIL_DRAWERS.items():
        pair = draw_pair(graph, rng)
        if pair and decide_truth(graph, pair[0]) == "true" and decide_truth(graph, pair[1]) == "false":
            yield Foil(piece, *pair)


def _draw_existence_foil(graph: Graph, rng: Random) -> tuple[str, str]:
    absent = read_kinds()[rng.choice(graph.list_absent_kinds())]
    entry = rng.choice(graph.objects)
    if rng.random() < 0.5:
        words = rng.choice((absent.plural, absent.plural, f"{absent.plural} shown"))
        return render_sentence("there are no", words), render_sentence("there are", words)
    if entry.count == 1:
        suffix = rng.choice(("", "shown"))
        return render_sentence(render_existence(entry), suffix), render_sentence("there is no", entry.kind, suffix)
    plural = read_kinds()[entry.kind].plural
    words = rng.choice((plural, f"{plural} shown"))
    return render_sentence("there are", words), render_sentence("there are no", words)


def _draw_object_foil(graph: Graph, rng: Random) -> tuple[str, str]:
    where = draw_place(graph, rng) if rng.random() < 0.6 else ""
    entry = rng.choice(graph.objects)
    other = Object(_draw_other_kind(graph, entry, rng), entry.cells)
    clauses = render_main_clause(graph), render_main_clause(graph.replace_object(entry, other))
    if rng.random() >= 0.6 or clauses[0] == clauses[1]:
        clauses = render_existence(entry), render_existence(other)
    return render_sentence(clauses[0], where), render_sentence(clauses[1], where)


def _draw_other_kind(graph: Graph, entry: Object, rng: Random) -> str:
    """Draw a kind that the scene lacks, of the same group and fit for the action where there are such."""
    absent = graph.list_absent_kinds()
    kinds = [name for name in absent if read_kinds()[name].group == read_kinds()[entry.kind].group] or absent
    if graph.verb is not None and entry == graph.theme:
        kinds = [name for name in kinds if name in graph.verb.themes] or kinds
    return rng.choice(kinds)


def _draw_count_foil(graph: Graph, rng: Random) -> tuple[str, str]:
    entry = rng.choice(graph.objects)
    others = [number for number in range(1, 10) if number != entry.count]
    number = rng.choice(others + [number for number in others if abs(number - entry.count) == 1] * 2)
    where = draw_place(graph, rng)
    form = rng.randrange(3)

    def render(count: int) -> str:
        be, noun = BE[count > 1], inflect_noun(entry.kind, count)
        if form == 0:
            return render_sentence(f"there {be} exactly {count} {noun}")
        if form == 1 or 1 in (entry.count, number):
            return render_sentence(f"there {be} exactly {NUMBERS[count]} {noun} {where}")
        return render_sentence(f"{NUMBERS[count]} {noun} {be} {where}")

    return render(entry.count), render(number)


def _draw_relation_foil(graph: Graph, rng: Random) -> tuple[str, str] | None:
    if graph.relations:
        relation = graph.relations[0]
        subject, landmark = graph.objects[relation.subject], graph.objects[relation.object]
        right = relation.preposition
        wrong = rng.choice([preposition for preposition in PREPOSITIONS if preposition != right])
        where = draw_place(graph, rng) if rng.random() < 0.4 else ""
    else:
        if len(graph.objects) < 2:
            return None
        subject, landmark = rng.sample(graph.objects, 2)
        right, wrong, where = "to the left of", "to the right of", ""
        if rng.random() < 0.5:
            right, wrong = wrong, right

    def render(preposition: str) -> str:
        clause = f"{render_indefinite(subject)} {get_be(subject)} {preposition} {render_indefinite(landmark)}"
        return render_sentence(clause, where)

    return render(right), render(wrong)


def _draw_action_foil(graph: Graph, rng: Random) -> tuple[str, str] | None:
    right, agent, theme = graph.verb, graph.agent, graph.theme
    if right is None or agent is None:
        return None
    others = [verb for verb in read_verbs().values() if verb.name not in right.vague | {right.name}]
    similar = [
        verb for verb in others if bool(verb.themes) == bool(right.themes) and verb.preposition == right.preposition
    ]
    fitting = [verb for verb in others if verb.takes(agent.kind, theme.kind if theme else None)] or similar
    if not fitting:
        return None
    wrong = rng.choice(fitting)
    where = draw_place(graph, rng) if rng.random() < 0.5 else ""
    finite = rng.random() < 0.5

    def render(verb: Verb) -> str:
        form = verb.conjugate(agent.count > 1) if finite else f"{get_be(agent)} {verb.name}"
        return render_sentence(render_indefinite(agent), render_with_theme(form, verb, theme), where)

    return render(right), render(wrong)


_FOIL_DRAWERS: dict[str, Callable[[Graph, Random], tuple[str, str] | None]] = {
    "existence": _draw_existence_foil,
    "object": _draw_object_foil,
    "count": _draw_count_foil,
    "relation": _draw_relation_foil,
    "action": _draw_action_foil,
}

PIECES = tuple(_FOIL_DRAWERS)


def swap_actants(graph: Graph) -> tuple[str, str] | None:
    """Return `A man rides a horse.` and `A horse rides a man.`; None where there is no theme."""
    verb = graph.verb
    if verb is None or graph.agent is None or graph.theme is None:
        return None

    def render(agent: Object, theme: Object) -> str:
        form = verb.conjugate(agent.count > 1)
        return render_sentence(render_indefinite(agent), render_with_theme(form, verb, theme))

    return render(graph.agent, graph.theme), render(graph.theme, graph.agent)


EXCHANGEABLE_PREPOSITIONS = ("at", "behind", "from", "in", "into", "on", "over", "to", "under")
"""Prepositions of one word that captions of scenes have."""
PREPOSITION_PATTERN = re.compile(rf"(?<=\s)(?:{'|'.join(EXCHANGEABLE_PREPOSITIONS)})\b")


def exchange_preposition(text: str, rng: Random) -> str | None:
    """Return a text with one of its prepositions exchanged.

    Returns:
        `A dog sleeps under the grass.` of `A dog sleeps on the grass.`; None where there is no preposition.
    """
    matches = list(PREPOSITION_PATTERN.finditer(text))
    if not matches:
        return None
    match = rng.choice(matches)
    new = rng.choice([word for word in EXCHANGEABLE_PREPOSITIONS if word != match.group()])
    return text[: match.start()] + new + text[match.end() :]


SINGULAR_QUANTIFIERS = ("exactly one", "a single")
PLURAL_QUANTIFIERS = ("some", "a number of")


def exchange_quantifier(text: str, entry: Object, rng: Random) -> str | None:
    """Return a text whose first indefinite mention of an object has a quantifier in the place of its determiner.

    Returns:
        `A single dog chases a cow.` of `A dog chases a cow.`; None where the text does not mention it so.
    """
    determiner = "an?|one" if entry.count == 1 else NUMBERS[entry.count]
    new = rng.choice(SINGULAR_QUANTIFIERS if entry.count == 1 else PLURAL_QUANTIFIERS)
    noun = re.escape(inflect_noun(entry.kind, entry.count))
    match = re.search(rf"\b({determiner}) ((?:[a-z]+ )?{noun})\b", text, re.IGNORECASE)
    if match is None:
        return None
    words = new.capitalize() if match.start() == 0 else new
    return f"{text[: match.start()]}{words} {match.group(2)}{text[match.end() :]}"


def draw_number_pair(graph: Graph, rng: Random) -> tuple[str, str] | None:
    """Draw a quantified caption, and the same caption of a scene in which one kind has changed its number.

    Returns:
        (`A single dog is chasing a cow.`, `Some dogs are chasing a cow.`), or None where the caption drawn does not
        name the object drawn with an indefinite determiner, or no scene can be so.
    """
    entry = rng.choice(graph.objects)
    count = 1 if entry.count > 1 else rng.randrange(2, 5)
    changed_entry = replace(entry, cells=(entry.cells * count)[:count])
    try:
        changed_graph = graph.replace_object(entry, changed_entry)
    except ValueError:  # so many agents and themes do not go together
        return None
    seed, form = rng.random(), rng.randrange(5)
    original = exchange_quantifier(draw_captions(graph, Random(seed))[form], entry, rng)
    changed = exchange_quantifier(draw_captions(changed_graph, Random(seed))[form], changed_entry, rng)
    return None if original is None or changed is None else (original, changed)
