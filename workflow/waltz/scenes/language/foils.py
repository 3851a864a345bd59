"""Foils in the grammar of the scenes: false sentences that differ from a true one in one position.

The scene models are trained and measured on them; the benchmark builds its foils from the written
files.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from waltz.scenes.graph import PREPOSITIONS, Event, Graph, Object
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
from waltz.scenes.lexicon import (
    NUMBERS,
    SceneVerb,
    exclude,
    list_excluded_verbs,
    read_kinds,
)
from waltz.scenes.oracle import decide_truth


@dataclass(frozen=True)
class Foil:
    """A true caption and a false one."""

    piece: str
    caption: str
    foil: str


def draw_foils(graph: Graph, rng: Random) -> Iterator[Foil]:
    """Yield one foil for each piece that the scene allows; the oracle decides captions true and
    foils false.
    """
    for piece, draw_pair in _FOIL_DRAWERS.items():
        pair = draw_pair(graph, rng)
        if pair is None:
            continue
        caption, foil = pair
        if (
            decide_truth(graph, caption) == "true"
            and decide_truth(graph, foil) == "false"
        ):
            yield Foil(piece, caption, foil)


def _draw_existence_foil(graph: Graph, rng: Random) -> tuple[str, str]:
    """Draw `There are no dogs.` with `There are dogs.` of an absent kind, or the opposite of a kind
    that is there.
    """
    # Plurals stand twice: `There are no dogs.` is drawn more often than `There are no dogs shown.`
    absent = read_kinds()[rng.choice(graph.list_absent_kinds())]
    entry = rng.choice(graph.objects)
    if rng.random() < 0.5:
        words = rng.choice((absent.plural, absent.plural, f"{absent.plural} shown"))
        return render_sentence("there are no", words), render_sentence(
            "there are", words
        )
    if entry.count == 1:
        suffix = rng.choice(("", "shown"))
        return render_sentence(render_existence(entry), suffix), render_sentence(
            "there is no", entry.kind, suffix
        )
    plural = read_kinds()[entry.kind].plural
    words = rng.choice((plural, f"{plural} shown"))
    return render_sentence("there are", words), render_sentence("there are no", words)


def _draw_object_foil(graph: Graph, rng: Random) -> tuple[str, str]:
    """Draw a caption, and the same caption with one kind replaced."""
    place_phrase = ""
    if rng.random() < 0.6:
        place_phrase = draw_place(graph, rng)
    entry = rng.choice(graph.objects)
    exchanged = Object(_draw_other_kind(graph, entry, rng), entry.cells)
    clause = render_main_clause(graph)
    exchanged_clause = render_main_clause(graph.replace_object(entry, exchanged))
    # A main clause that does not mention the object does not change.
    if rng.random() >= 0.6 or clause == exchanged_clause:
        clause, exchanged_clause = render_existence(entry), render_existence(exchanged)
    return render_sentence(clause, place_phrase), render_sentence(
        exchanged_clause, place_phrase
    )


def _draw_other_kind(graph: Graph, entry: Object, rng: Random) -> str:
    """Draw a kind that the scene lacks, of the same group and fit for the action where there are
    such.
    """
    group = read_kinds()[entry.kind].group
    kinds = graph.list_absent_kinds(group)
    if not kinds:
        kinds = graph.list_absent_kinds()
    if graph.event is None or entry != graph.event.theme:
        return rng.choice(kinds)
    themes = graph.event.verb.themes
    fitting_kinds = [kind for kind in kinds if kind in themes]
    return rng.choice(fitting_kinds or kinds)


def _draw_count_foil(graph: Graph, rng: Random) -> tuple[str, str]:
    """Draw a caption with the number of a kind, and the same caption with a wrong number, often the
    next number.
    """
    entry = rng.choice(graph.objects)
    # The next higher and lower numbers stand three times among the wrong ones, as the hardest to
    # see.
    wrong_numbers = exclude(range(1, 10), entry.count)
    neighbors = [number for number in wrong_numbers if abs(number - entry.count) == 1]
    wrong_number = rng.choice(wrong_numbers + neighbors * 2)
    place_phrase = draw_place(graph, rng)
    form = rng.choice(("digits", "words", "subject"))
    if form == "subject" and 1 in (entry.count, wrong_number):
        form = "words"  # `One dog is ...` may be said of one of several dogs

    def render(count: int) -> str:
        be, noun = BE[count > 1], inflect_noun(entry.kind, count)
        if form == "digits":
            return render_sentence(f"there {be} exactly {count} {noun}")
        if form == "words":
            return render_sentence(
                f"there {be} exactly {NUMBERS[count]} {noun} {place_phrase}"
            )
        return render_sentence(f"{NUMBERS[count]} {noun} {be} {place_phrase}")

    return render(entry.count), render(wrong_number)


def _draw_relation_foil(graph: Graph, rng: Random) -> tuple[str, str] | None:
    """Draw a caption with a preposition, and the same caption with another preposition; None for a
    single object.
    """
    place_phrase = ""
    if graph.relations:
        relation = graph.relations[0]
        subject, landmark = (
            graph.objects[relation.subject],
            graph.objects[relation.object],
        )
        right = relation.preposition
        wrong = rng.choice(exclude(PREPOSITIONS, right))
        if rng.random() < 0.4:
            place_phrase = draw_place(graph, rng)
    elif len(graph.objects) >= 2:
        subject, landmark = rng.sample(graph.objects, 2)
        right, wrong = "to the left of", "to the right of"
        if rng.random() < 0.5:
            right, wrong = wrong, right
    else:
        return None

    def render(preposition: str) -> str:
        clause = f"{render_indefinite(subject)} {get_be(subject)} {preposition} {render_indefinite(landmark)}"
        return render_sentence(clause, place_phrase)

    return render(right), render(wrong)


def _draw_action_foil(graph: Graph, rng: Random) -> tuple[str, str] | None:
    """Draw a caption with the scene's verb, and the same caption with a verb that the picture rules
    out, or None.
    """
    event = graph.event
    if event is None:
        return None
    agent = event.agent
    wrong_verbs = _list_wrong_verbs(event)
    if not wrong_verbs:
        return None
    wrong = rng.choice(wrong_verbs)
    place_phrase = ""
    if rng.random() < 0.5:
        place_phrase = draw_place(graph, rng)
    is_finite = rng.random() < 0.5

    def render(verb: SceneVerb) -> str:
        form = f"{get_be(agent)} {verb.name}"
        if is_finite:
            form = verb.conjugate(agent.count > 1)
        return render_sentence(
            render_indefinite(agent),
            render_with_theme(form, verb, event.theme),
            place_phrase,
        )

    return render(event.verb), render(wrong)


def _list_wrong_verbs(event: Event) -> list[SceneVerb]:
    """Return verbs that the agent could do to the theme, else verbs of the same construction."""
    wrong_verbs = list_excluded_verbs(event.verb)
    fitting = [
        verb for verb in wrong_verbs if verb.takes(event.agent.kind, event.theme_kind)
    ]
    if fitting:
        return fitting
    # Verbs of the same construction keep the sentence grammatical, though nobody does such a thing.
    construction = event.verb.construction
    return [verb for verb in wrong_verbs if verb.construction == construction]


_FOIL_DRAWERS: dict[str, Callable[[Graph, Random], tuple[str, str] | None]] = {
    "existence": _draw_existence_foil,
    "object": _draw_object_foil,
    "count": _draw_count_foil,
    "relation": _draw_relation_foil,
    "action": _draw_action_foil,
}

PIECES = tuple(_FOIL_DRAWERS)


def swap_actants(graph: Graph) -> tuple[str, str] | None:
    """Return `A man rides a horse.` and `A horse rides a man.`; None if the scene has no theme."""
    event = graph.event
    if event is None or event.theme is None:
        return None
    verb = event.verb

    def render(agent: Object, theme: Object) -> str:
        form = verb.conjugate(agent.count > 1)
        return render_sentence(
            render_indefinite(agent), render_with_theme(form, verb, theme)
        )

    return render(event.agent, event.theme), render(event.theme, event.agent)


EXCHANGEABLE_PREPOSITIONS = (
    "at",
    "behind",
    "from",
    "in",
    "into",
    "on",
    "over",
    "to",
    "under",
)
"""Prepositions of one word that captions of scenes have."""
PREPOSITION_PATTERN = re.compile(rf"(?<=\s)(?:{'|'.join(EXCHANGEABLE_PREPOSITIONS)})\b")


def exchange_preposition(text: str, rng: Random) -> str | None:
    """Return a text with one of its prepositions exchanged.

    Returns:
        `A dog sleeps under the grass.` of `A dog sleeps on the grass.`; None where there is no
        preposition.
    """
    # The pattern asks for a space before the preposition, so the first word stays.
    matches = list(PREPOSITION_PATTERN.finditer(text))
    if not matches:
        return None
    match = rng.choice(matches)
    new = rng.choice(exclude(EXCHANGEABLE_PREPOSITIONS, match.group()))
    return text[: match.start()] + new + text[match.end() :]


SINGULAR_QUANTIFIERS = ("exactly one", "a single")
PLURAL_QUANTIFIERS = ("some", "a number of")


def exchange_quantifier(text: str, entry: Object, rng: Random) -> str | None:
    """Return a text whose first indefinite mention of an object has a quantifier instead of its
    determiner.

    Returns:
        `A single dog chases a cow.` of `A dog chases a cow.`; None where the text has no such
        mention.
    """
    if entry.count == 1:
        determiner, quantifiers = "an?|one", SINGULAR_QUANTIFIERS
    else:
        determiner, quantifiers = NUMBERS[entry.count], PLURAL_QUANTIFIERS
    new = rng.choice(quantifiers)
    noun = re.escape(inflect_noun(entry.kind, entry.count))
    # The noun may have an adjective before it: `a red car`.
    match = re.search(rf"\b({determiner}) ((?:[a-z]+ )?{noun})\b", text, re.IGNORECASE)
    if match is None:
        return None
    if match.start() == 0:
        new = new.capitalize()
    return f"{text[: match.start()]}{new} {match.group(2)}{text[match.end() :]}"


def draw_number_pair(graph: Graph, rng: Random) -> tuple[str, str] | None:
    """Draw a quantified caption, and the same caption of a scene in which one kind has changed its
    number.

    Returns:
        (`A single dog is chasing a cow.`, `Some dogs are chasing a cow.`), or None where the
        caption that is drawn does not mention the object with an indefinite determiner, or the
        action does not allow the other number.
    """
    entry = rng.choice(graph.objects)
    count = 1
    if entry.count == 1:
        count = rng.randrange(2, 5)
    changed_entry = replace(entry, cells=(entry.cells * count)[:count])
    try:
        changed_graph = graph.replace_object(entry, changed_entry)
    except ValueError:  # the themes do not divide among the agents
        return None
    # One of the five captions, of both scenes by the same draws.
    seed, form = rng.random(), rng.randrange(5)
    original = exchange_quantifier(draw_captions(graph, Random(seed))[form], entry, rng)
    changed = exchange_quantifier(
        draw_captions(changed_graph, Random(seed))[form], changed_entry, rng
    )
    if original is None or changed is None:
        return None
    return original, changed


def draw_choice(foil: Foil, rng: Random) -> tuple[str, str]:
    """Draw the order in which a prompt shows a caption and its foil, and return the prompt and its
    answer.
    """
    first, second, answer = foil.foil, foil.caption, "B"
    if rng.random() < 0.5:
        first, second, answer = foil.caption, foil.foil, "A"
    return (
        f"Which sentence describes the image? A: {first} B: {second} Answer A or B.",
        answer,
    )
