"""Questions about scenes with their answers, and dialogues of ten of them."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from waltz.scenes.graph import Graph, Object
from waltz.scenes.language.captions import (
    BE,
    PLACES,
    add_indefinite_article,
    find_focus,
    get_be,
    get_pronoun,
    join_words,
    render_definite,
    render_indefinite,
    render_participle,
    render_sentence,
)
from waltz.scenes.lexicon import (
    exclude,
    list_excluded_verbs,
    list_kinds_in,
    list_verbs_for,
    read_kinds,
    read_scene_categories,
)
from waltz.scenes.oracle import decide_truth

ROUNDS = 10
"""Number of questions in a dialogue."""

EXISTENCE_PHRASES = ("shown", "there", "in the picture", "in the photo", "pictured")
ASKED_PREPOSITIONS = (
    "on",
    "under",
    "behind",
    "in front of",
    "to the left of",
    "to the right of",
    "next to",
)
ASKED_COLORS = ("red", "green", "blue", "yellow", "purple", "orange")


@dataclass(frozen=True)
class SceneQuestion:
    """A question of one type with its answer and wrong answers.

    Attributes:
        text: With a capital and a question mark.
        answer: A word or phrase, lower case, without a full stop.
        wrong: Plausible wrong answers, most of them of the same sort.
        kind: number, yes/no or other, as in VQA v2.
    """

    text: str
    answer: str
    wrong: tuple[str, ...]
    kind: str = "other"


def format_question(words: str) -> str:
    """Return the words with a capital first and a question mark last."""
    return words[0].upper() + words[1:] + "?"


def draw_scene_questions(
    graph: Graph, rng: Random, count: int = 8
) -> list[SceneQuestion]:
    """Draw different questions: one how-many question with answer 0, two with larger answers, then
    yes/no and wh-.
    """
    # VALSE's existence is made from how-many questions with the answer 0, its counting from those
    # with larger ones.
    questions = [
        draw_how_many(graph, rng, zero=True),
        draw_how_many(graph, rng, zero=False),
        draw_how_many(graph, rng, zero=False),
    ]
    texts = {question.text for question in questions}
    # A question that is drawn again, or that the scene leaves open, adds none.
    while len(texts) < count:
        if rng.random() < 0.5:
            question = draw_yes_no(graph, rng)
        else:
            question = draw_wh_question(graph, rng)
        if question is not None:
            questions.append(question)
            texts.add(question.text)

    # Of questions that are drawn more than once, the first draw stays, at the position of the last
    # one.
    first_draws = {question.text: question for question in reversed(questions)}
    return list(first_draws.values())[::-1][:count]


def draw_how_many(graph: Graph, rng: Random, zero: bool) -> SceneQuestion:
    """Draw a how-many question about a kind or category; its answer is 0 if and only if `zero`."""
    plurals_of = _group_plurals_by_count(graph)
    count = 0
    if not zero:
        count = rng.choice(sorted(plurals_of.keys() - {0}))
    # Sorted, so that the draw depends on no order of the lexicon.
    plural = rng.choice(sorted(plurals_of[count]))
    text = format_question(f"how many {plural} are {rng.choice(EXISTENCE_PHRASES)}")
    wrong = list(map(str, exclude(range(10), count)))
    return SceneQuestion(text, str(count), tuple(rng.sample(wrong, 3)), "number")


def _group_plurals_by_count(graph: Graph) -> dict[int, list[str]]:
    """Return the plurals of kinds and categories by the number of individuals that the scene has of
    each.
    """
    plurals_of: dict[int, list[str]] = {}
    for kind in read_kinds().values():
        plurals_of.setdefault(graph.count(kind.name), []).append(kind.plural)
    for category in read_scene_categories().values():
        if not category.mass:  # `food` cannot be counted
            count = sum(graph.count(name) for name in category.members)
            plurals_of.setdefault(count, []).append(category.plural)
    return plurals_of


def render_statement(question: SceneQuestion) -> str | None:
    """Render a how-many question and its answer as a statement, `There are exactly 3 dogs.`; None
    for others.
    """
    if question.kind != "number":
        return None
    noun = question.text.removeprefix("How many ").split(" are ")[0]
    # Questions have the plural, also of what is there once.
    count = int(question.answer)
    if count == 1:
        singulars = {kind.plural: kind.name for kind in read_kinds().values()}
        singulars |= {
            category.plural: category.name
            for category in read_scene_categories().values()
        }
        noun = singulars[noun]
    return render_sentence(f"there {BE[count != 1]} exactly {count} {noun}")


def draw_yes_no(graph: Graph, rng: Random) -> SceneQuestion | None:
    """Draw a yes/no question with the oracle's answer; None where the scene leaves the question
    open.
    """
    forms = (
        _draw_existence_question,
        _draw_place_question,
        _draw_doing_question,
        _draw_relation_question,
    )
    text = rng.choice(forms)(graph, rng)
    answer = _answer_yes_no(graph, text)
    if answer is None:
        return None
    wrong = "no" if answer == "yes" else "yes"
    return SceneQuestion(format_question(text), answer, (wrong,), "yes/no")


def _answer_yes_no(graph: Graph, text: str) -> str | None:
    """Return the oracle's answer to a question, which a caption may precede: yes, no, or None if it
    is open.
    """
    answers = {"true": "yes", "false": "no", "unknown": None}
    return answers[decide_truth(graph, f"{text}? yes.")]


def _draw_existence_question(graph: Graph, rng: Random) -> str:
    """Draw a question whether the scene has a kind; half of the kinds are absent."""
    # Half of the answers are yes.
    if rng.random() < 0.5:
        kinds = [entry.kind for entry in graph.objects]
    else:
        kinds = graph.list_absent_kinds()
    kind = read_kinds()[rng.choice(kinds)]
    return rng.choice(
        (
            f"are there any {kind.plural}",
            f"is there {add_indefinite_article(kind.name)}",
            f"do you see any {kind.plural}",
        )
    )


def _draw_place_question(graph: Graph, rng: Random) -> str:
    """Draw a question whether the focus is at a place; half of the places are right."""
    subject = find_focus(graph)
    place_name = graph.place
    if rng.random() >= 0.5:
        place_name = rng.choice(list(PLACES))
    return (
        f"{get_be(subject)} {render_definite(subject)} {rng.choice(PLACES[place_name])}"
    )


def _draw_doing_question(graph: Graph, rng: Random) -> str:
    """Draw a question whether the focus does something; half of the acts are right."""
    subject = find_focus(graph)
    if rng.random() < 0.5 and graph.action is not None:
        act = render_participle(graph)
    else:
        act = _draw_fitting_action(graph, subject, rng)
    return f"{get_be(subject)} {render_definite(subject)} {act}"


def _draw_fitting_action(graph: Graph, subject: Object, rng: Random) -> str:
    """Draw an action that the focus could do to the scene's theme; if no verb fits, draw a place."""
    theme, theme_kind = None, None
    if graph.event is not None:
        theme, theme_kind = graph.event.theme, graph.event.theme_kind
    fitting = list_verbs_for(subject.kind, theme_kind)
    if not fitting:
        return PLACES[graph.place][0]
    verb = rng.choice(fitting)
    if theme is None:
        return verb.name
    return join_words(verb.name, verb.preposition, render_definite(theme))


def _draw_relation_question(graph: Graph, rng: Random) -> str:
    """Draw a question about the position of the focus relative to another object, or the place
    without one.
    """
    subject = find_focus(graph)
    landmarks = exclude(graph.objects, subject)
    if not landmarks:
        return _draw_place_question(graph, rng)
    # A preposition at random is right seldom, so that the meant one is asked for in part of the
    # questions.
    landmark = rng.choice(landmarks)
    if graph.relations and rng.random() < 0.4:
        relation = graph.relations[0]
        preposition, landmark = relation.preposition, graph.objects[relation.object]
    else:
        preposition = rng.choice(ASKED_PREPOSITIONS)
    return f"{get_be(subject)} {render_definite(subject)} {preposition} {render_definite(landmark)}"


def draw_wh_question(graph: Graph, rng: Random) -> SceneQuestion | None:
    """Draw a what, who, where or when question; None if the drawn question does not fit the scene."""
    forms: tuple[Callable[[Graph, Random], SceneQuestion | None], ...] = (
        _draw_what,
        _draw_who,
        _draw_where,
        _draw_when,
        _draw_color,
        _draw_what_doing,
    )
    return rng.choice(forms)(graph, rng)


def _draw_what(graph: Graph, rng: Random) -> SceneQuestion | None:
    """Draw `what is the man riding`, or `what is under the table`; None where the answer is a
    person or a plural.
    """
    preferred: tuple[str, ...] = ()
    # Wrong answers are things that the verb could be done to, where the question is about a verb.
    event = graph.event
    if event is not None and event.theme is not None:
        answer, preferred = event.theme, event.verb.themes
        agent = render_definite(event.agent)
        text = join_words("what is", agent, event.verb.name, event.verb.preposition)
    elif graph.relations:
        relation = graph.relations[0]
        answer = graph.objects[relation.subject]
        text = f"what is {relation.preposition} {render_definite(graph.objects[relation.object])}"
    else:
        return None
    if answer.count > 1 or _is_one_person(answer):
        return None
    return SceneQuestion(
        format_question(text),
        render_indefinite(answer),
        _draw_wrong_names(graph, preferred, rng),
    )


def _draw_who(graph: Graph, rng: Random) -> SceneQuestion | None:
    """Draw `who is riding a horse`; None unless the agent is one person."""
    if graph.event is None or not _is_one_person(graph.event.agent):
        return None
    text = format_question(f"who is {render_participle(graph)}")
    return SceneQuestion(
        text,
        render_indefinite(graph.event.agent),
        _draw_wrong_names(graph, list_kinds_in("people"), rng),
    )


def _is_one_person(entry: Object) -> bool:
    return entry.count == 1 and read_kinds()[entry.kind].is_person


def _draw_wrong_names(
    graph: Graph, preferred: tuple[str, ...], rng: Random
) -> tuple[str, ...]:
    """Draw three kinds that the scene lacks, the preferred ones first."""
    preferred_absent = [name for name in preferred if not graph.count(name)]
    further_absent = exclude(graph.list_absent_kinds(), *preferred_absent)
    names = rng.sample(preferred_absent, len(preferred_absent)) + rng.sample(
        further_absent, 3
    )
    return tuple(add_indefinite_article(name) for name in names[:3])


def _draw_where(graph: Graph, rng: Random) -> SceneQuestion | None:
    """Draw `where is the man`; None at night, which is a time."""
    if graph.place == "night":
        return None
    # Everything in a scene is at the same place, so that any object can be asked for.
    subject = rng.choice(graph.objects)
    wrong_places = exclude(PLACES, graph.place, "night")
    wrong = tuple(PLACES[name][0] for name in rng.sample(wrong_places, 3))
    text = format_question(f"where {get_be(subject)} {render_definite(subject)}")
    return SceneQuestion(text, PLACES[graph.place][0], wrong)


def _draw_when(graph: Graph, rng: Random) -> SceneQuestion | None:
    """Return the question when the picture was taken; None indoors, where the time cannot be seen."""
    if graph.place == "indoors":
        return None
    answer, wrong = "during the day", "at night"
    if graph.place == "night":
        answer, wrong = wrong, answer
    return SceneQuestion(
        "When was the picture taken?", answer, (wrong, "at dawn", "at sunset")
    )


def _draw_color(graph: Graph, rng: Random) -> SceneQuestion | None:
    """Draw `what color is the car`; None if no object has a kind with several colors."""
    colored = [entry for entry in graph.objects if entry.color]
    if not colored:
        return None
    entry = rng.choice(colored)
    wrong = exclude(ASKED_COLORS, entry.color)
    text = format_question(f"what color {get_be(entry)} {render_definite(entry)}")
    return SceneQuestion(text, str(entry.color), tuple(rng.sample(wrong, 3)))


def _draw_what_doing(graph: Graph, rng: Random) -> SceneQuestion | None:
    """Draw `what is the man doing`; None where nobody acts."""
    event = graph.event
    if event is None:
        return None
    # A wrong answer that the picture does not rule out would be right.
    names = [verb.name for verb in list_excluded_verbs(event.verb)]
    text = format_question(
        f"what {get_be(event.agent)} {render_definite(event.agent)} doing"
    )
    return SceneQuestion(text, event.verb.name, tuple(rng.sample(names, 3)))


def draw_dialogue(graph: Graph, caption: str, rng: Random) -> list[tuple[str, str]]:
    """Draw ten rounds of question and answer, lower case, without punctuation; pronouns refer to
    the caption.
    """
    forms = (
        _draw_pronoun_question,
        _draw_pronoun_question,
        _draw_existence_question,
        _draw_scene_question,
    )
    # Rounds by question, so that none is asked twice.
    rounds: dict[str, str] = {}
    while len(rounds) < ROUNDS:
        if rng.random() < 0.3:
            question = _draw_number_or_color(graph, rng)
            if question is not None:
                rounds[question.text[:-1].lower()] = question.answer
            continue
        text = rng.choice(forms)(graph, rng)
        answer = _answer_yes_no(graph, f"{caption} {text}")
        if answer is not None:
            rounds[text] = answer
    return list(rounds.items())


def _draw_number_or_color(graph: Graph, rng: Random) -> SceneQuestion | None:
    if rng.random() >= 0.6:
        return _draw_color(graph, rng)
    return draw_how_many(graph, rng, zero=rng.random() < 0.3)


def _draw_pronoun_question(graph: Graph, rng: Random) -> str:
    """Draw a question about the focus with a pronoun for it."""
    subject = find_focus(graph)
    # The caption before the dialogue mentions the focus, to which the pronoun refers.
    text = rng.choice(
        (_draw_place_question, _draw_doing_question, _draw_relation_question)
    )(graph, rng)
    return text.replace(f" {render_definite(subject)} ", f" {get_pronoun(subject)} ", 1)


def _draw_scene_question(graph: Graph, rng: Random) -> str:
    return rng.choice(
        (
            "is it outdoors",
            "is it indoors",
            "is it at night",
            "is this indoors",
            "is this outdoors",
        )
    )
