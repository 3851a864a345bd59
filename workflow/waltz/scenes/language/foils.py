"""Foils in the scenes' own grammar: false sentences that differ from a true one in one place.

They train and test the scenes' models; the instruments of the benchmark make their own, from the written files.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from waltz.scenes.language.captions import BE, definite, doing, focus, indefinite, place, sentence
from waltz.scenes.oracle.truth import truth
from waltz.scenes.world.graph import Graph, Object
from waltz.scenes.world.lexicon import NUMBERS, kinds, verbs

PIECES = ("existence", "object", "count", "relation", "action")

OTHER_PREPOSITIONS = ("on", "under", "in", "behind", "in front of", "next to", "over")


@dataclass(frozen=True)
class Foil:
    """A true caption and a false one."""

    piece: str
    caption: str
    foil: str


def foils(graph: Graph, rng: Random) -> Iterator[Foil]:
    """One foil of each piece that the scene allows; truth calls every caption true and every foil false."""
    for piece, make in _MAKERS.items():
        pair = make(graph, rng)
        if pair is None:
            continue
        caption, foil = pair
        if truth(graph, caption) == "true" and truth(graph, foil) == "false":
            yield Foil(piece, caption, foil)


def _existence(graph: Graph, rng: Random) -> tuple[str, str]:
    absent = rng.choice([kind for kind in kinds().values() if not graph.count(kind.name)])
    entry = rng.choice(graph.objects)
    if rng.random() < 0.5:
        words = rng.choice((absent.plural, absent.plural, f"{absent.plural} shown"))
        return sentence(f"there are no {words}"), sentence(f"there are {words}")
    if entry.count == 1:
        shown = rng.choice(("", " shown"))
        return sentence(f"there is {indefinite(entry)}{shown}"), sentence(f"there is no {entry.kind}{shown}")
    plural = rng.choice((kinds()[entry.kind].plural, f"{kinds()[entry.kind].plural} shown"))
    return sentence(f"there are {plural}"), sentence(f"there are no {plural}")


def _swapped(graph: Graph, entry: Object, rng: Random) -> Object:
    """The object as another kind, of the same group where there is one that the scene lacks."""
    group = kinds()[entry.kind].group
    same = [kind.name for kind in kinds().values() if kind.group == group and not graph.count(kind.name)]
    absent = same or [kind.name for kind in kinds().values() if not graph.count(kind.name)]
    if graph.action is not None and entry == graph.theme:
        fitting = [name for name in absent if name in verbs()[graph.action.verb].themes]
        absent = fitting or absent
    return Object(rng.choice(absent), entry.cells)


def with_object(graph: Graph, old: Object, new: Object) -> Graph:
    """The scene with one object put in the place of another."""
    return replace(graph, objects=tuple(new if entry == old else entry for entry in graph.objects))


def main_clause(graph: Graph) -> str:
    """`A man is riding a horse`, `Three dogs are under a table`, without place; or `There are three dogs`."""
    subject, act = focus(graph), doing(graph)
    be = BE[subject.count > 1]
    return f"{indefinite(subject)} {be} {act}" if act else f"there {be} {indefinite(subject)}"


def _object(graph: Graph, rng: Random) -> tuple[str, str]:
    where = f" {place(graph, rng)}" if rng.random() < 0.6 else ""
    entry = rng.choice(graph.objects)
    foil = with_object(graph, entry, _swapped(graph, entry, rng))
    if rng.random() < 0.6 and main_clause(graph) != main_clause(foil):
        return sentence(main_clause(graph) + where), sentence(main_clause(foil) + where)
    index = graph.objects.index(entry)
    return tuple(  # type: ignore[return-value]
        sentence(f"there {BE[entry.count > 1]} {indefinite(world.objects[index])}{where}") for world in (graph, foil)
    )


def _count(graph: Graph, rng: Random) -> tuple[str, str]:
    entry = rng.choice(graph.objects)
    others = [number for number in range(1, 10) if number != entry.count]
    number = rng.choice(others + [number for number in others if abs(number - entry.count) == 1] * 2)
    where = place(graph, rng)
    form = rng.randrange(3)

    def words(count: int) -> str:
        be, kind = BE[count > 1], kinds()[entry.kind]
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
    return sentence(words(entry.count)), sentence(words(number))


def _relation(graph: Graph, rng: Random) -> tuple[str, str] | None:
    if graph.relations:
        relation = graph.relations[0]
        subject, landmark = graph.objects[relation.subject], graph.objects[relation.object]
        right = relation.preposition
        wrong = rng.choice([other for other in OTHER_PREPOSITIONS if other != right])
        where = f" {place(graph, rng)}" if rng.random() < 0.4 else ""
    else:
        if len(graph.objects) < 2:
            return None
        subject, landmark = rng.sample(graph.objects, 2)
        right, wrong, where = "to the left of", "to the right of", ""
        if rng.random() < 0.5:
            right, wrong = wrong, right
    be = BE[subject.count > 1]
    return tuple(  # type: ignore[return-value]
        sentence(f"{indefinite(subject)} {be} {preposition} {indefinite(landmark)}{where}")
        for preposition in (right, wrong)
    )


def _action(graph: Graph, rng: Random) -> tuple[str, str] | None:
    if graph.action is None or graph.agent is None:
        return None
    verb = verbs()[graph.action.verb]
    fitting = [
        other
        for other in verbs().values()
        if other.name not in verb.vague | {verb.name}
        and bool(other.themes) == bool(verb.themes)
        and graph.agent.kind in other.agents
        and (graph.theme is None or graph.theme.kind in other.themes)
    ] or [
        other
        for other in verbs().values()
        if other.name not in verb.vague | {verb.name}
        and bool(other.themes) == bool(verb.themes)
        and other.preposition == verb.preposition
    ]
    if not fitting:
        return None
    other = rng.choice(fitting)
    where = f" {place(graph, rng)}" if rng.random() < 0.5 else ""
    plural = graph.agent.count > 1
    finite = rng.random() < 0.5

    def words(name: str) -> str:
        entry = verbs()[name]
        form = (entry.base if plural else entry.third) if finite else f"{BE[plural]} {entry.name}"
        theme = f" {entry.preposition}".rstrip() + f" {indefinite(graph.theme)}" if graph.theme is not None else ""
        assert graph.agent is not None
        return sentence(f"{indefinite(graph.agent)} {form}{theme}{where}")

    return words(verb.name), words(other.name)


_MAKERS: dict[str, Callable[[Graph, Random], tuple[str, str] | None]] = {
    "existence": _existence,
    "object": _object,
    "count": _count,
    "relation": _relation,
    "action": _action,
}


def actant_swap(graph: Graph) -> tuple[str, str] | None:
    """`A man rides a horse.` and `A horse rides a man.`; None where there is no theme."""
    if graph.agent is None or graph.theme is None or graph.action is None:
        return None
    verb = verbs()[graph.action.verb]

    def words(agent: Object, theme: Object) -> str:
        form = verb.base if agent.count > 1 else verb.third
        return sentence(f"{indefinite(agent)} {form} {verb.preposition} {indefinite(theme)}".replace("  ", " "))

    return words(graph.agent, graph.theme), words(graph.theme, graph.agent)


__all__ = ["PIECES", "Foil", "actant_swap", "definite", "foils", "main_clause", "with_object"]
