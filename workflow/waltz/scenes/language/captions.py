"""The scenes' own sentences: noun phrases, clauses and the five captions, all true by how they are built."""

from random import Random

from waltz.scenes.graph import Graph, Object
from waltz.scenes.lexicon import NUMBERS, read_kinds, read_verbs

PLACES: dict[str, tuple[str, ...]] = {
    "indoors": ("in a room", "indoors", "in the room"),
    "street": ("on the street", "on a street", "on the road"),
    "grass": ("on the grass", "in a field", "on a lawn"),
    "beach": ("on the beach", "at the beach", "on a beach"),
    "snow": ("in the snow", "on the snow"),
    "night": ("at night", "outdoors at night"),
}
"""Place phrases of the captions, by place."""

BE = {False: "is", True: "are"}


def add_article(words: str) -> str:
    """Return the words with `a` or `an` before them."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def inflect_noun(kind: str, count: int) -> str:
    """Return the noun of a kind in the number that goes with a count."""
    return read_kinds()[kind].name if count == 1 else read_kinds()[kind].plural


def render_indefinite(entry: Object, colour: bool = False) -> str:
    """Render `a dog`, `three red cars`."""
    words = inflect_noun(entry.kind, entry.count)
    if colour and entry.colour:
        words = f"{entry.colour} {words}"
    return add_article(words) if entry.count == 1 else f"{NUMBERS[entry.count]} {words}"


def render_definite(entry: Object) -> str:
    """Render `the dog`, `the dogs`."""
    return f"the {inflect_noun(entry.kind, entry.count)}"


def get_pronoun(entry: Object) -> str:
    """Return `he`, `she`, `it` or `they`."""
    return read_kinds()[entry.kind].pronoun if entry.count == 1 else "they"


def render_sentence(words: str) -> str:
    """Return the words with a capital first and a full stop last."""
    return words[0].upper() + words[1:] + "."


def join_words(items: list[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def find_bystanders(graph: Graph) -> list[Object]:
    """Return the objects that are neither agent nor theme of the action nor part of a relation."""
    busy = {index for relation in graph.relations for index in (relation.subject, relation.object)}
    if graph.action is not None:
        busy |= {graph.action.agent} | ({graph.action.theme} if graph.action.theme is not None else set())
    return [entry for index, entry in enumerate(graph.objects) if index not in busy]


def find_focus(graph: Graph) -> Object:
    """Return what a caption is about first: the agent, the subject of the relation, or the first object."""
    if graph.action is not None:
        return graph.objects[graph.action.agent]
    return graph.objects[graph.relations[0].subject] if graph.relations else graph.objects[0]


def render_participle(graph: Graph, colour: bool = False) -> str:
    """Render what follows `is` or `are`: `riding a horse`, `under a table`; empty where the focus only is there."""
    if graph.action is not None:
        verb = read_verbs()[graph.action.verb]
        theme = f"{verb.preposition} {render_indefinite(graph.theme, colour)}".strip() if graph.theme else ""
        return f"{verb.name} {theme}".strip()
    if graph.relations:
        relation = graph.relations[0]
        return f"{relation.preposition} {render_indefinite(graph.objects[relation.object], colour)}"
    return ""


def render_verb_phrase(graph: Graph, colour: bool = False) -> str:
    """Render the finite verb phrase: `rides a horse`, `is under a table`."""
    subject = find_focus(graph)
    plural = subject.count > 1
    if graph.action is None:
        return f"{BE[plural]} {render_participle(graph, colour)}".strip()
    verb = read_verbs()[graph.action.verb]
    theme = f"{verb.preposition} {render_indefinite(graph.theme, colour)}".strip() if graph.theme else ""
    return f"{verb.base if plural else verb.third} {theme}".strip()


def draw_place(graph: Graph, rng: Random) -> str:
    """Draw a phrase for where the scene is."""
    return rng.choice(PLACES[graph.place])


def draw_plain_caption(graph: Graph, rng: Random) -> str:
    """Draw a main clause: `A man is riding a horse on the beach.`"""
    subject = find_focus(graph)
    verb = BE[subject.count > 1]
    act = render_participle(graph)
    if not act and rng.random() < 0.5:
        return render_sentence(f"there {verb} {render_indefinite(subject)} {draw_place(graph, rng)}")
    return render_sentence(f"{render_indefinite(subject)} {verb} {act} {draw_place(graph, rng)}".replace("  ", " "))


def draw_coloured_caption(graph: Graph, rng: Random) -> str:
    """Draw a caption with adjectives where there are colours, and the bystanders."""
    subject = find_focus(graph)
    act = render_participle(graph, True)
    middle = (
        f"{render_verb_phrase(graph, True)} {draw_place(graph, rng)}"
        if act
        else f"{BE[subject.count > 1]} {draw_place(graph, rng)}"
    )
    words = f"{render_indefinite(subject, True)} {middle}"
    others = find_bystanders(graph) if act else [entry for entry in find_bystanders(graph) if entry != subject]
    if others:
        names = join_words([render_indefinite(entry, True) for entry in others])
        words = f"{words} and there {BE[others[0].count > 1]} {names}"
    return render_sentence(words)


def draw_relative_caption(graph: Graph, rng: Random) -> str:
    """Draw a caption with a relative clause or a participle after its noun."""
    subject = find_focus(graph)
    be = BE[subject.count > 1]
    who = "who" if read_kinds()[subject.kind].group == "people" else "that"
    act = render_participle(graph)
    if not act:
        return render_sentence(f"there {be} {render_indefinite(subject, True)} {who} {be} {draw_place(graph, rng)}")
    if rng.random() < 0.5 and graph.action is not None:
        return render_sentence(f"{draw_place(graph, rng)}, there {be} {render_indefinite(subject)} {act}")
    return render_sentence(f"there {be} {render_indefinite(subject)} {who} {be} {act} {draw_place(graph, rng)}")


def draw_pronoun_caption(graph: Graph, rng: Random) -> str:
    """Draw a caption whose second clause takes the subject up again."""
    subject = find_focus(graph)
    be = BE[subject.count > 1]
    second = f"{get_pronoun(subject)} {be} {render_participle(graph) or draw_place(graph, rng)}"
    where = f" {draw_place(graph, rng)}" if render_participle(graph) else ""
    return render_sentence(f"there {be} {render_indefinite(subject)}{where} and {second}")


def draw_passive_caption(graph: Graph, rng: Random) -> str:
    """Draw a passive where the verb has one, else a caption that begins with another object or names all."""
    theme, agent = graph.theme, graph.agent
    if theme is not None and agent is not None and graph.action is not None:
        verb = read_verbs()[graph.action.verb]
        if verb.passive:
            act = f"{BE[theme.count > 1]} being {verb.participle} by {render_indefinite(agent)}"
            return render_sentence(f"{render_indefinite(theme)} {act} {draw_place(graph, rng)}")
    names = join_words([render_indefinite(entry) for entry in graph.objects])
    if len(graph.objects) > 1:
        return render_sentence(f"{names} are {draw_place(graph, rng)}")
    return render_sentence(f"the picture shows {names} {draw_place(graph, rng)}")


def draw_captions(graph: Graph, rng: Random) -> list[str]:
    """Draw five captions in different wording: plain, with adjectives, relative clause, pronoun, passive."""
    forms = (
        draw_plain_caption,
        draw_coloured_caption,
        draw_relative_caption,
        draw_pronoun_caption,
        draw_passive_caption,
    )
    return [form(graph, rng) for form in forms]


def draw_contextual_descriptions(graph: Graph, rng: Random) -> list[str]:
    """Draw short descriptions that name the action; none where the scene has none."""
    if graph.action is None:
        return []
    subject = render_indefinite(find_focus(graph))
    return [
        render_sentence(f"{subject} {render_verb_phrase(graph)} {draw_place(graph, rng)}"),
        render_sentence(f"{subject} {render_verb_phrase(graph)}"),
    ]


def draw_plain_descriptions(graph: Graph, rng: Random) -> list[str]:
    """Draw short descriptions of the same things that avoid the verb; none where the scene has no action."""
    agent, theme = graph.agent, graph.theme
    if graph.action is None or agent is None:
        return []
    be = BE[agent.count > 1]
    if theme is None:
        return [
            render_sentence(f"{render_indefinite(agent)} {be} {draw_place(graph, rng)}"),
            render_sentence(f"there {be} {render_indefinite(agent)} {draw_place(graph, rng)}"),
        ]
    descriptions = [
        render_sentence(f"{render_indefinite(agent)} and {render_indefinite(theme)} are {draw_place(graph, rng)}"),
        render_sentence(
            f"there {be} {render_indefinite(agent)} with {render_indefinite(theme)} {draw_place(graph, rng)}"
        ),
    ]
    relation = read_verbs()[graph.action.verb].relation
    if relation:
        descriptions.append(
            render_sentence(
                f"{render_indefinite(agent)} {be} {relation} {render_indefinite(theme)} {draw_place(graph, rng)}"
            )
        )
    return descriptions
