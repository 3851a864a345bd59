"""The scenes' own sentences: noun phrases, clauses and the five captions, all true by how they are built."""

from random import Random

from waltz.scenes.graph import Graph, Object
from waltz.scenes.lexicon import NUMBERS, Verb, read_kinds

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


def join_words(*parts: str) -> str:
    """Join the parts that are not empty by spaces."""
    return " ".join(part for part in parts if part)


def render_sentence(*parts: str) -> str:
    """Join parts to a sentence, with a capital first and a full stop last."""
    words = join_words(*parts)
    return words[0].upper() + words[1:] + "."


def list_words(items: list[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


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


def get_be(entry: Object) -> str:
    """Return `is` or `are`."""
    return BE[entry.count > 1]


def get_pronoun(entry: Object) -> str:
    """Return `he`, `she`, `it` or `they`."""
    return read_kinds()[entry.kind].pronoun if entry.count == 1 else "they"


def render_existence(entry: Object, colour: bool = False) -> str:
    """Render `there is a dog`, `there are three red cars`."""
    return f"there {get_be(entry)} {render_indefinite(entry, colour)}"


def find_focus(graph: Graph) -> Object:
    """Return what a caption is about first: the agent, the subject of the relation, or the first object."""
    if graph.agent is not None:
        return graph.agent
    return graph.objects[graph.relations[0].subject] if graph.relations else graph.objects[0]


def render_with_theme(form: str, verb: Verb, theme: Object | None, colour: bool = False) -> str:
    """Render a form of a verb with its theme: `rides a horse`, `sitting on a chair`."""
    return join_words(form, verb.preposition, render_indefinite(theme, colour)) if theme else form


def render_participle(graph: Graph, colour: bool = False) -> str:
    """Render what follows `is` or `are`: `riding a horse`, `under a table`; empty where the focus only is there."""
    if graph.verb is not None:
        return render_with_theme(graph.verb.name, graph.verb, graph.theme, colour)
    if graph.relations:
        relation = graph.relations[0]
        return f"{relation.preposition} {render_indefinite(graph.objects[relation.object], colour)}"
    return ""


def render_verb_phrase(graph: Graph, colour: bool = False) -> str:
    """Render the finite verb phrase: `rides a horse`, `is under a table`."""
    subject = find_focus(graph)
    if graph.verb is None:
        return join_words(get_be(subject), render_participle(graph, colour))
    return render_with_theme(graph.verb.conjugate(subject.count > 1), graph.verb, graph.theme, colour)


def render_main_clause(graph: Graph) -> str:
    """Render `a man is riding a horse`, `three dogs are under a table`, without place; or `there are three dogs`."""
    subject, act = find_focus(graph), render_participle(graph)
    return f"{render_indefinite(subject)} {get_be(subject)} {act}" if act else render_existence(subject)


def draw_place(graph: Graph, rng: Random) -> str:
    """Draw a phrase for where the scene is."""
    return rng.choice(PLACES[graph.place])


def draw_plain_caption(graph: Graph, rng: Random) -> str:
    """Draw a main clause: `A man is riding a horse on the beach.`"""
    subject, act = find_focus(graph), render_participle(graph)
    if not act and rng.random() < 0.5:
        return render_sentence(render_existence(subject), draw_place(graph, rng))
    return render_sentence(render_indefinite(subject), get_be(subject), act, draw_place(graph, rng))


def draw_coloured_caption(graph: Graph, rng: Random) -> str:
    """Draw a caption with adjectives where there are colours, and the bystanders."""
    subject = find_focus(graph)
    words = f"{render_indefinite(subject, True)} {render_verb_phrase(graph, True)} {draw_place(graph, rng)}"
    others = [entry for entry in graph.list_bystanders() if entry != subject]
    if not others:
        return render_sentence(words)
    names = list_words([render_indefinite(entry, True) for entry in others])
    return render_sentence(words, "and there", get_be(others[0]), names)


def draw_relative_caption(graph: Graph, rng: Random) -> str:
    """Draw a caption with a relative clause or a participle after its noun."""
    subject, act = find_focus(graph), render_participle(graph)
    who = "who" if read_kinds()[subject.kind].group == "people" else "that"
    if act and rng.random() < 0.5 and graph.action is not None:
        return render_sentence(f"{draw_place(graph, rng)}, {render_existence(subject)} {act}")
    existence = render_existence(subject, colour=not act)
    return render_sentence(existence, who, get_be(subject), act, draw_place(graph, rng))


def draw_pronoun_caption(graph: Graph, rng: Random) -> str:
    """Draw a caption whose second clause takes the subject up again."""
    subject, act, place = find_focus(graph), render_participle(graph), draw_place(graph, rng)
    second = f"and {get_pronoun(subject)} {get_be(subject)} {act or place}"
    return render_sentence(render_existence(subject), place if act else "", second)


def draw_passive_caption(graph: Graph, rng: Random) -> str:
    """Draw a passive where the verb has one, else a caption that begins with another object or names all."""
    if graph.verb and graph.agent and graph.theme and graph.verb.passive:
        act = f"{get_be(graph.theme)} being {graph.verb.participle} by {render_indefinite(graph.agent)}"
        return render_sentence(render_indefinite(graph.theme), act, draw_place(graph, rng))
    names = list_words([render_indefinite(entry) for entry in graph.objects])
    if len(graph.objects) > 1:
        return render_sentence(names, "are", draw_place(graph, rng))
    return render_sentence("the picture shows", names, draw_place(graph, rng))


def draw_captions(graph: Graph, rng: Random) -> list[str]:
    """Draw five captions in different wording: plain, with adjectives, relative clause, pronoun, passive."""
    return [
        draw_plain_caption(graph, rng),
        draw_coloured_caption(graph, rng),
        draw_relative_caption(graph, rng),
        draw_pronoun_caption(graph, rng),
        draw_passive_caption(graph, rng),
    ]


def draw_contextual_descriptions(graph: Graph, rng: Random) -> list[str]:
    """Draw short descriptions that name the action; none where the scene has none."""
    if graph.action is None:
        return []
    clause = f"{render_indefinite(find_focus(graph))} {render_verb_phrase(graph)}"
    return [render_sentence(clause, draw_place(graph, rng)), render_sentence(clause)]


def draw_plain_descriptions(graph: Graph, rng: Random) -> list[str]:
    """Draw short descriptions of the same things that avoid the verb; none where the scene has no action."""
    if graph.verb is None or graph.agent is None:
        return []
    agent, be = render_indefinite(graph.agent), get_be(graph.agent)
    if graph.theme is None:
        subjects = [f"{agent} {be}", f"there {be} {agent}"]
    else:
        theme = render_indefinite(graph.theme)
        subjects = [f"{agent} and {theme} are", f"there {be} {agent} with {theme}"]
        if graph.verb.relation:
            subjects.append(f"{agent} {be} {graph.verb.relation} {theme}")
    return [render_sentence(subject, draw_place(graph, rng)) for subject in subjects]
