"""Foils in the scenes' own grammar: false sentences that differ from a true one in one place.

They train and test the scene models; the benchmark builds its foils from the written files.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from waltz.scenes.graph import Graph, Object
from waltz.scenes.language.captions import (
    BE,
    draw_captions,
    draw_place,
    find_focus,
    render_indefinite,
    render_participle,
    render_sentence,
)
from waltz.scenes.lexicon import NUMBERS, read_kinds, read_verbs
from waltz.scenes.oracle import decide_truth

PIECES = ("existence", "object", "count", "relation", "action")

OTHER_PREPOSITIONS = ("on", "under", "in", "behind", "in front of", "next to", "over")


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
        if pair is None:
            continue
        caption, foil = pair
        if decide_truth(graph, caption) == "true" and decide_truth(graph, foil) == "false":
            yield Foil(piece, caption, foil)


def _draw_existence_foil(graph: Graph, rng: Random) -> tuple[str, str]:
    absent = rng.choice([kind for kind in read_kinds().values() if not graph.count(kind.name)])
    entry = rng.choice(graph.objects)
    if rng.random() < 0.5:
        words = rng.choice((absent.plural, absent.plural, f"{absent.plural} shown"))
        return render_sentence(f"there are no {words}"), render_sentence(f"there are {words}")
    if entry.count == 1:
        suffix = rng.choice(("", " shown"))
        return render_sentence(f"there is {render_indefinite(entry)}{suffix}"), render_sentence(
            f"there is no {entry.kind}{suffix}"
        )
    plural = rng.choice((read_kinds()[entry.kind].plural, f"{read_kinds()[entry.kind].plural} shown"))
    return render_sentence(f"there are {plural}"), render_sentence(f"there are no {plural}")


def _swap_kind(graph: Graph, entry: Object, rng: Random) -> Object:
    """Return the object as another kind, of the same group where there is one that the scene lacks."""
    group = read_kinds()[entry.kind].group
    same = [kind.name for kind in read_kinds().values() if kind.group == group and not graph.count(kind.name)]
    absent = same or [kind.name for kind in read_kinds().values() if not graph.count(kind.name)]
    if graph.action is not None and entry == graph.theme:
        fitting = [name for name in absent if name in read_verbs()[graph.action.verb].themes]
        absent = fitting or absent
    return Object(rng.choice(absent), entry.cells)


def replace_object(graph: Graph, old: Object, new: Object) -> Graph:
    """Return the scene with one object put in the place of another."""
    return replace(graph, objects=tuple(new if entry == old else entry for entry in graph.objects))


def render_main_clause(graph: Graph) -> str:
    """Render `A man is riding a horse`, `Three dogs are under a table`, without place; or `There are three dogs`."""
    subject, act = find_focus(graph), render_participle(graph)
    be = BE[subject.count > 1]
    return f"{render_indefinite(subject)} {be} {act}" if act else f"there {be} {render_indefinite(subject)}"


def _draw_object_foil(graph: Graph, rng: Random) -> tuple[str, str]:
    where = f" {draw_place(graph, rng)}" if rng.random() < 0.6 else ""
    entry = rng.choice(graph.objects)
    foil = replace_object(graph, entry, _swap_kind(graph, entry, rng))
    if rng.random() < 0.6 and render_main_clause(graph) != render_main_clause(foil):
        return render_sentence(render_main_clause(graph) + where), render_sentence(render_main_clause(foil) + where)
    index = graph.objects.index(entry)
    return tuple(  # type: ignore[return-value]
        render_sentence(f"there {BE[entry.count > 1]} {render_indefinite(world.objects[index])}{where}")
        for world in (graph, foil)
    )


def _draw_count_foil(graph: Graph, rng: Random) -> tuple[str, str]:
    entry = rng.choice(graph.objects)
    others = [number for number in range(1, 10) if number != entry.count]
    number = rng.choice(others + [number for number in others if abs(number - entry.count) == 1] * 2)
    where = draw_place(graph, rng)
    form = rng.randrange(3)

    def words(count: int) -> str:
        be, kind = BE[count > 1], read_kinds()[entry.kind]
        noun = kind.name if count == 1 else kind.plural
        if form == 0:
            return f"there {be} exactly {count} {noun}"
        if form == 1:
            return f"there {be} exactly {NUMBERS[count]} {noun} {where}"
        return (
            f"exactly {NUMBERS[count]} {noun} {be} {where}" if count == 1 else f"{NUMBERS[count]} {noun} {be} {where}"
        )

    if form == 2 and 1 in (entry.count, number):
        form = 1
    return render_sentence(words(entry.count)), render_sentence(words(number))


def _draw_relation_foil(graph: Graph, rng: Random) -> tuple[str, str] | None:
    if graph.relations:
        relation = graph.relations[0]
        subject, landmark = graph.objects[relation.subject], graph.objects[relation.object]
        right = relation.preposition
        wrong = rng.choice([preposition for preposition in OTHER_PREPOSITIONS if preposition != right])
        where = f" {draw_place(graph, rng)}" if rng.random() < 0.4 else ""
    else:
        if len(graph.objects) < 2:
            return None
        subject, landmark = rng.sample(graph.objects, 2)
        right, wrong, where = "to the left of", "to the right of", ""
        if rng.random() < 0.5:
            right, wrong = wrong, right
    be = BE[subject.count > 1]
    return tuple(  # type: ignore[return-value]
        render_sentence(f"{render_indefinite(subject)} {be} {preposition} {render_indefinite(landmark)}{where}")
        for preposition in (right, wrong)
    )


def _draw_action_foil(graph: Graph, rng: Random) -> tuple[str, str] | None:
    if graph.action is None or graph.agent is None:
        return None
    verb = read_verbs()[graph.action.verb]
    fitting = [
        wrong_verb
        for wrong_verb in read_verbs().values()
        if wrong_verb.name not in verb.vague | {verb.name}
        and bool(wrong_verb.themes) == bool(verb.themes)
        and graph.agent.kind in wrong_verb.agents
        and (graph.theme is None or graph.theme.kind in wrong_verb.themes)
    ] or [
        wrong_verb
        for wrong_verb in read_verbs().values()
        if wrong_verb.name not in verb.vague | {verb.name}
        and bool(wrong_verb.themes) == bool(verb.themes)
        and wrong_verb.preposition == verb.preposition
    ]
    if not fitting:
        return None
    wrong_verb = rng.choice(fitting)
    where = f" {draw_place(graph, rng)}" if rng.random() < 0.5 else ""
    plural = graph.agent.count > 1
    finite = rng.random() < 0.5

    def words(name: str) -> str:
        entry = read_verbs()[name]
        form = (entry.base if plural else entry.third) if finite else f"{BE[plural]} {entry.name}"
        theme = (
            f" {entry.preposition}".rstrip() + f" {render_indefinite(graph.theme)}" if graph.theme is not None else ""
        )
        assert graph.agent is not None
        return render_sentence(f"{render_indefinite(graph.agent)} {form}{theme}{where}")

    return words(verb.name), words(wrong_verb.name)


_FOIL_DRAWERS: dict[str, Callable[[Graph, Random], tuple[str, str] | None]] = {
    "existence": _draw_existence_foil,
    "object": _draw_object_foil,
    "count": _draw_count_foil,
    "relation": _draw_relation_foil,
    "action": _draw_action_foil,
}


def swap_actants(graph: Graph) -> tuple[str, str] | None:
    """Return `A man rides a horse.` and `A horse rides a man.`; None where there is no theme."""
    if graph.agent is None or graph.theme is None or graph.action is None:
        return None
    verb = read_verbs()[graph.action.verb]

    def words(agent: Object, theme: Object) -> str:
        form = verb.base if agent.count > 1 else verb.third
        return render_sentence(
            f"{render_indefinite(agent)} {form} {verb.preposition} {render_indefinite(theme)}".replace("  ", " ")
        )

    return words(graph.agent, graph.theme), words(graph.theme, graph.agent)


EXCHANGEABLE_PREPOSITIONS = ("at", "behind", "from", "in", "into", "on", "over", "to", "under")
"""Prepositions of one word that captions of scenes have."""
PREPOSITION_PATTERN = re.compile(rf"(?<=\s)(?:{'|'.join(EXCHANGEABLE_PREPOSITIONS)})\b")


def exchange_preposition(text: str, rng: Random) -> str | None:
    """Return a text with one of its prepositions exchanged.

    Returns:
        `A dog sleeps under the grass.` of `A dog sleeps on the grass.`; None where there is no preposition.
    """
    places = list(PREPOSITION_PATTERN.finditer(text))
    if not places:
        return None
    place = rng.choice(places)
    new = rng.choice([word for word in EXCHANGEABLE_PREPOSITIONS if word != place.group()])
    return text[: place.start()] + new + text[place.end() :]


SINGULAR_QUANTIFIERS = ("exactly one", "a single")
PLURAL_QUANTIFIERS = ("some", "a number of")


def exchange_quantifier(text: str, entry: Object, rng: Random) -> str | None:
    """Return a text whose first indefinite mention of an object has a quantifier in the place of its determiner.

    Returns:
        `A single dog chases a cow.` of `A dog chases a cow.`; None where the text does not mention it so.
    """
    kind = read_kinds()[entry.kind]
    name, determiner = (kind.name, "an?|one") if entry.count == 1 else (kind.plural, NUMBERS[entry.count])
    new = rng.choice(SINGULAR_QUANTIFIERS if entry.count == 1 else PLURAL_QUANTIFIERS)
    mention = re.compile(rf"\b({determiner}) ((?:[a-z]+ )?{re.escape(name)})\b", re.IGNORECASE)
    match = mention.search(text)
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
    changed_object = replace(entry, cells=(entry.cells * count)[:count])
    try:
        changed_graph = replace_object(graph, entry, changed_object)
    except ValueError:  # so many agents and themes do not go together
        return None
    seed, form = rng.random(), rng.randrange(5)
    texts = [
        exchange_quantifier(draw_captions(scene, Random(seed))[form], mentioned, rng)
        for scene, mentioned in ((graph, entry), (changed_graph, changed_object))
    ]
    return None if texts[0] is None or texts[1] is None else (texts[0], texts[1])
