"""Build true sentences about scenes: noun phrases, clauses and the five captions of each scene."""

from random import Random

from waltz.scenes.graph import Graph, Object
from waltz.scenes.lexicon import NUMBERS, SceneVerb, exclude, read_kinds

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
    return " ".join(filter(None, parts))


def render_sentence(*parts: str) -> str:
    """Join parts to a sentence, with a capital first and a full stop last."""
    words = join_words(*parts)
    return words[0].upper() + words[1:] + "."


def join_with_and(items: list[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    if len(items) == 1:
        return items[0]
    return f"{', '.join(items[:-1])} and {items[-1]}"


def add_indefinite_article(words: str) -> str:
    """Return the words with `a` or `an` before them."""
    article = "an" if words[0] in "aeiou" else "a"
    return f"{article} {words}"


def inflect_noun(kind: str, count: int) -> str:
    """Return the noun of a kind in the number that goes with a count."""
    if count == 1:
        return read_kinds()[kind].name
    return read_kinds()[kind].plural


def render_indefinite(entry: Object, color: bool = False) -> str:
    """Render `a dog`, `three red cars`."""
    words = inflect_noun(entry.kind, entry.count)
    if color and entry.color:
        words = f"{entry.color} {words}"
    if entry.count == 1:
        return add_indefinite_article(words)
    return f"{NUMBERS[entry.count]} {words}"


def render_definite(entry: Object) -> str:
    """Render `the dog`, `the dogs`."""
    return f"the {inflect_noun(entry.kind, entry.count)}"


def get_be(entry: Object) -> str:
    """Return `is` or `are`."""
    return BE[entry.count > 1]


def get_pronoun(entry: Object) -> str:
    """Return `he`, `she`, `it` or `they`."""
    if entry.count > 1:
        return "they"
    return read_kinds()[entry.kind].pronoun


def render_existence(entry: Object, color: bool = False) -> str:
    """Render `there is a dog`, `there are three red cars`."""
    return f"there {get_be(entry)} {render_indefinite(entry, color)}"


def find_focus(graph: Graph) -> Object:
    """Return the object that a caption mentions first: the agent, the relation's subject, or the
    first object.
    """
    if graph.event is not None:
        return graph.event.agent
    if graph.relations:
        return graph.objects[graph.relations[0].subject]
    return graph.objects[0]


def render_with_theme(
    form: str, verb: SceneVerb, theme: Object | None, color: bool = False
) -> str:
    """Render a form of a verb with its theme: `rides a horse`, `sitting on a chair`."""
    if theme is None:
        return form
    return join_words(form, verb.preposition, render_indefinite(theme, color))


def render_participle(graph: Graph, color: bool = False) -> str:
    """Render the words after `is` or `are`: `riding a horse`, `under a table`; empty without action
    and relation.
    """
    event = graph.event
    if event is not None:
        return render_with_theme(event.verb.name, event.verb, event.theme, color)
    if graph.relations:
        relation = graph.relations[0]
        return f"{relation.preposition} {render_indefinite(graph.objects[relation.object], color)}"
    return ""


def render_verb_phrase(graph: Graph, color: bool = False) -> str:
    """Render the finite verb phrase: `rides a horse`, `is under a table`."""
    subject, event = find_focus(graph), graph.event
    if event is None:
        return join_words(get_be(subject), render_participle(graph, color))
    form = event.verb.conjugate(subject.count > 1)
    return render_with_theme(form, event.verb, event.theme, color)


def render_main_clause(graph: Graph) -> str:
    """Render `a man is riding a horse`, `three dogs are under a table`, without place; or `there
    are three dogs`.
    """
    subject, act = find_focus(graph), render_participle(graph)
    if not act:
        return render_existence(subject)
    return f"{render_indefinite(subject)} {get_be(subject)} {act}"


def draw_place(graph: Graph, rng: Random) -> str:
    """Draw a phrase for the place of the scene."""
    return rng.choice(PLACES[graph.place])


def draw_plain_caption(graph: Graph, rng: Random) -> str:
    """Draw a main clause: `A man is riding a horse on the beach.`"""
    # `There is a dog on the beach.` or `A dog is on the beach.` where nothing happens.
    subject, act = find_focus(graph), render_participle(graph)
    if not act and rng.random() < 0.5:
        return render_sentence(render_existence(subject), draw_place(graph, rng))
    return render_sentence(
        render_indefinite(subject), get_be(subject), act, draw_place(graph, rng)
    )


def draw_colored_caption(graph: Graph, rng: Random) -> str:
    """Draw a caption with adjectives where there are colors, and the bystanders."""
    subject = find_focus(graph)
    words = f"{render_indefinite(subject, True)} {render_verb_phrase(graph, True)} {draw_place(graph, rng)}"
    # `A man rides a red bicycle on the beach and there are two dogs.`
    bystanders = exclude(graph.list_bystanders(), subject)
    if not bystanders:
        return render_sentence(words)
    names = join_with_and([render_indefinite(entry, True) for entry in bystanders])
    return render_sentence(words, "and there", get_be(bystanders[0]), names)


def draw_relative_caption(graph: Graph, rng: Random) -> str:
    """Draw a caption with a relative clause or a participle after its noun."""
    subject, act = find_focus(graph), render_participle(graph)
    relative_pronoun = "who" if read_kinds()[subject.kind].group == "people" else "that"
    # `On the beach, there is a man riding a horse.` or `There is a man who is riding a horse on the
    # beach.`
    if act and rng.random() < 0.5 and graph.action is not None:
        return render_sentence(
            f"{draw_place(graph, rng)}, {render_existence(subject)} {act}"
        )
    existence = render_existence(subject, color=not act)
    return render_sentence(
        existence, relative_pronoun, get_be(subject), act, draw_place(graph, rng)
    )


def draw_pronoun_caption(graph: Graph, rng: Random) -> str:
    """Draw a caption whose second clause refers to the subject by a pronoun."""
    subject, act, place_phrase = (
        find_focus(graph),
        render_participle(graph),
        draw_place(graph, rng),
    )
    # `There is a man on the beach and he is riding a horse.`, or with the place last where nothing
    # happens.
    second_clause = f"and {get_pronoun(subject)} {get_be(subject)}"
    if not act:
        return render_sentence(render_existence(subject), second_clause, place_phrase)
    return render_sentence(render_existence(subject), place_phrase, second_clause, act)


def draw_passive_caption(graph: Graph, rng: Random) -> str:
    """Draw a passive caption if the verb has a passive, else a caption that begins with another
    object or names all.
    """
    event = graph.event
    # `A horse is being ridden by a man on the beach.`
    if event is not None and event.theme is not None and event.verb.passive:
        agent, theme = render_indefinite(event.agent), render_indefinite(event.theme)
        act = f"{get_be(event.theme)} being {event.verb.participle} by {agent}"
        return render_sentence(theme, act, draw_place(graph, rng))
    names = join_with_and([render_indefinite(entry) for entry in graph.objects])
    if len(graph.objects) > 1:
        return render_sentence(names, "are", draw_place(graph, rng))
    return render_sentence("the picture shows", names, draw_place(graph, rng))


def draw_captions(graph: Graph, rng: Random) -> list[str]:
    """Draw five captions in different wording: plain, with adjectives, relative clause, pronoun,
    passive.
    """
    return [
        draw_plain_caption(graph, rng),
        draw_colored_caption(graph, rng),
        draw_relative_caption(graph, rng),
        draw_pronoun_caption(graph, rng),
        draw_passive_caption(graph, rng),
    ]


def draw_contextual_descriptions(graph: Graph, rng: Random) -> list[str]:
    """Draw short descriptions that name the action; none if the scene has no action."""
    if graph.action is None:
        return []
    clause = f"{render_indefinite(find_focus(graph))} {render_verb_phrase(graph)}"
    return [render_sentence(clause, draw_place(graph, rng)), render_sentence(clause)]


def draw_plain_descriptions(graph: Graph, rng: Random) -> list[str]:
    """Draw short descriptions of the same things that avoid the verb; none where the scene has no
    action.
    """
    event = graph.event
    if event is None:
        return []
    agent, be = render_indefinite(event.agent), get_be(event.agent)
    # Agent and theme side by side, or how the arrangement has them, without what the agent does.
    if event.theme is None:
        subjects = [f"{agent} {be}", f"there {be} {agent}"]
    else:
        theme = render_indefinite(event.theme)
        subjects = [f"{agent} and {theme} are", f"there {be} {agent} with {theme}"]
        if event.verb.relation:
            subjects.append(f"{agent} {be} {event.verb.relation} {theme}")
    return [render_sentence(subject, draw_place(graph, rng)) for subject in subjects]
