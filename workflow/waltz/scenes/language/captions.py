"""The scenes' own sentences: noun phrases, clauses and the five captions, all true by how they are built."""

from random import Random

from waltz.scenes.world.graph import Graph, Object
from waltz.scenes.world.lexicon import NUMBERS, kinds, verbs

PLACES: dict[str, tuple[str, ...]] = {
    "indoors": ("in a room", "indoors", "in the room"),
    "street": ("on the street", "on a street", "on the road"),
    "grass": ("on the grass", "in a field", "on a lawn"),
    "beach": ("on the beach", "at the beach", "on a beach"),
    "snow": ("in the snow", "on the snow"),
    "night": ("at night", "outdoors at night"),
}
"""What a caption may say about where a scene is."""

BE = {False: "is", True: "are"}


def article(words: str) -> str:
    """The words with `a` or `an` before them."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def noun(kind: str, count: int) -> str:
    """The noun of a kind in the number that goes with a count."""
    return kinds()[kind].name if count == 1 else kinds()[kind].plural


def indefinite(entry: Object, colour: bool = False) -> str:
    """`a dog`, `three red cars`."""
    words = noun(entry.kind, entry.count)
    if colour and entry.colour:
        words = f"{entry.colour} {words}"
    return article(words) if entry.count == 1 else f"{NUMBERS[entry.count]} {words}"


def definite(entry: Object) -> str:
    """`the dog`, `the dogs`."""
    return f"the {noun(entry.kind, entry.count)}"


def pronoun(entry: Object) -> str:
    """he, she, it or they."""
    return kinds()[entry.kind].pronoun if entry.count == 1 else "they"


def sentence(words: str) -> str:
    """A capital first and a full stop last."""
    return words[0].upper() + words[1:] + "."


def joined(items: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def bystanders(graph: Graph) -> list[Object]:
    """Objects that neither act, nor are acted upon, nor stand in a relation."""
    busy = {index for relation in graph.relations for index in (relation.subject, relation.object)}
    if graph.action is not None:
        busy |= {graph.action.agent} | ({graph.action.theme} if graph.action.theme is not None else set())
    return [entry for index, entry in enumerate(graph.objects) if index not in busy]


def focus(graph: Graph) -> Object:
    """What a caption is about first: the agent, the subject of the relation, or the first object."""
    if graph.action is not None:
        return graph.objects[graph.action.agent]
    return graph.objects[graph.relations[0].subject] if graph.relations else graph.objects[0]


def doing(graph: Graph, colour: bool = False) -> str:
    """What follows `is` or `are`: `riding a horse`, `under a table`; empty where the focus only is there."""
    if graph.action is not None:
        verb = verbs()[graph.action.verb]
        theme = f"{verb.preposition} {indefinite(graph.theme, colour)}".strip() if graph.theme else ""
        return f"{verb.name} {theme}".strip()
    if graph.relations:
        relation = graph.relations[0]
        return f"{relation.preposition} {indefinite(graph.objects[relation.object], colour)}"
    return ""


def does(graph: Graph, colour: bool = False) -> str:
    """The finite verb phrase: `rides a horse`, `is under a table`."""
    subject = focus(graph)
    plural = subject.count > 1
    if graph.action is None:
        return f"{BE[plural]} {doing(graph, colour)}".strip()
    verb = verbs()[graph.action.verb]
    theme = f"{verb.preposition} {indefinite(graph.theme, colour)}".strip() if graph.theme else ""
    return f"{verb.base if plural else verb.third} {theme}".strip()


def place(graph: Graph, rng: Random) -> str:
    """A phrase for where the scene is."""
    return rng.choice(PLACES[graph.place])


def plain_caption(graph: Graph, rng: Random) -> str:
    """A main clause: `A man is riding a horse on the beach.`"""
    subject = focus(graph)
    verb = BE[subject.count > 1]
    act = doing(graph)
    if not act and rng.random() < 0.5:
        return sentence(f"there {verb} {indefinite(subject)} {place(graph, rng)}")
    return sentence(f"{indefinite(subject)} {verb} {act} {place(graph, rng)}".replace("  ", " "))


def coloured_caption(graph: Graph, rng: Random) -> str:
    """A caption with adjectives where there are colours, and the bystanders."""
    subject = focus(graph)
    act = doing(graph, True)
    middle = f"{does(graph, True)} {place(graph, rng)}" if act else f"{BE[subject.count > 1]} {place(graph, rng)}"
    words = f"{indefinite(subject, True)} {middle}"
    others = bystanders(graph) if act else [entry for entry in bystanders(graph) if entry != subject]
    if others:
        names = joined([indefinite(entry, True) for entry in others])
        words = f"{words} and there {BE[others[0].count > 1]} {names}"
    return sentence(words)


def relative_caption(graph: Graph, rng: Random) -> str:
    """A caption with a relative clause or a participle after its noun."""
    subject = focus(graph)
    be = BE[subject.count > 1]
    who = "who" if kinds()[subject.kind].group == "people" else "that"
    act = doing(graph)
    if not act:
        return sentence(f"there {be} {indefinite(subject, True)} {who} {be} {place(graph, rng)}")
    if rng.random() < 0.5 and graph.action is not None:
        return sentence(f"{place(graph, rng)}, there {be} {indefinite(subject)} {act}")
    return sentence(f"there {be} {indefinite(subject)} {who} {be} {act} {place(graph, rng)}")


def pronoun_caption(graph: Graph, rng: Random) -> str:
    """A caption whose second clause takes the subject up again."""
    subject = focus(graph)
    be = BE[subject.count > 1]
    second = f"{pronoun(subject)} {be} {doing(graph) or place(graph, rng)}"
    where = f" {place(graph, rng)}" if doing(graph) else ""
    return sentence(f"there {be} {indefinite(subject)}{where} and {second}")


def passive_caption(graph: Graph, rng: Random) -> str:
    """A passive where the verb has one, else a caption that begins with another object or names all."""
    theme, agent = graph.theme, graph.agent
    if theme is not None and agent is not None and graph.action is not None:
        verb = verbs()[graph.action.verb]
        if verb.passive:
            act = f"{BE[theme.count > 1]} being {verb.participle} by {indefinite(agent)}"
            return sentence(f"{indefinite(theme)} {act} {place(graph, rng)}")
    names = joined([indefinite(entry) for entry in graph.objects])
    if len(graph.objects) > 1:
        return sentence(f"{names} are {place(graph, rng)}")
    return sentence(f"the picture shows {names} {place(graph, rng)}")


def captions(graph: Graph, rng: Random) -> list[str]:
    """Five captions in different wording: plain, with adjectives, relative clause, pronoun, passive."""
    forms = (plain_caption, coloured_caption, relative_caption, pronoun_caption, passive_caption)
    return [form(graph, rng) for form in forms]


def contextual_descriptions(graph: Graph, rng: Random) -> list[str]:
    """Short descriptions that name the action; none where the scene has none."""
    if graph.action is None:
        return []
    subject = indefinite(focus(graph))
    return [sentence(f"{subject} {does(graph)} {place(graph, rng)}"), sentence(f"{subject} {does(graph)}")]


def plain_descriptions(graph: Graph, rng: Random) -> list[str]:
    """Short descriptions of the same things that avoid the verb; none where the scene has no action."""
    agent, theme = graph.agent, graph.theme
    if graph.action is None or agent is None:
        return []
    be = BE[agent.count > 1]
    if theme is None:
        return [
            sentence(f"{indefinite(agent)} {be} {place(graph, rng)}"),
            sentence(f"there {be} {indefinite(agent)} {place(graph, rng)}"),
        ]
    found = [
        sentence(f"{indefinite(agent)} and {indefinite(theme)} are {place(graph, rng)}"),
        sentence(f"there {be} {indefinite(agent)} with {indefinite(theme)} {place(graph, rng)}"),
    ]
    relation = verbs()[graph.action.verb].relation
    if relation:
        found.append(sentence(f"{indefinite(agent)} {be} {relation} {indefinite(theme)} {place(graph, rng)}"))
    return found
