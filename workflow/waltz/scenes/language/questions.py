"""Questions about scenes with their answers, and dialogues of ten of them."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from waltz.scenes.graph import Graph, Object
from waltz.scenes.language.captions import (
    BE,
    PLACES,
    add_article,
    find_focus,
    get_be,
    get_pronoun,
    join_words,
    render_definite,
    render_indefinite,
    render_participle,
    render_sentence,
)
from waltz.scenes.lexicon import read_categories, read_kinds, read_verbs
from waltz.scenes.oracle import decide_truth

ROUNDS = 10

EXISTENCE_PHRASES = ("shown", "there", "in the picture", "in the photo", "pictured")
ASKED_PREPOSITIONS = ("on", "under", "behind", "in front of", "to the left of", "to the right of", "next to")
ASKED_COLOURS = ("red", "green", "blue", "yellow", "purple", "orange")


@dataclass(frozen=True)
class Question:
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


def render_question(words: str) -> str:
    """Return the words with a capital first and a question mark last."""
    return words[0].upper() + words[1:] + "?"


def draw_questions(graph: Graph, rng: Random, count: int = 8) -> list[Question]:
    """Draw different questions: one how-many question with answer 0, two with larger answers, then yes/no and wh-."""
    questions = [draw_how_many(graph, rng, zero) for zero in (True, False, False)]
    while len({question.text for question in questions}) < count:
        question = draw_yes_no(graph, rng) if rng.random() < 0.5 else draw_wh_question(graph, rng)
        if question is not None:
            questions.append(question)
    return list({question.text: question for question in reversed(questions)}.values())[::-1][:count]


def draw_how_many(graph: Graph, rng: Random, zero: bool) -> Question:
    """Draw a how-many question about a kind or category; its answer is 0 if and only if `zero`."""
    counts = {kind.plural: graph.count(kind.name) for kind in read_kinds().values()}
    for category in read_categories().values():
        if not category.mass:
            counts[category.plural] = sum(graph.count(name) for name in category.members)
    count = 0 if zero else rng.choice(sorted(set(counts.values()) - {0}))
    plural = rng.choice(sorted(name for name, number in counts.items() if number == count))
    text = render_question(f"how many {plural} are {rng.choice(EXISTENCE_PHRASES)}")
    wrong = [str(number) for number in range(10) if number != count]
    return Question(text, str(count), tuple(rng.sample(wrong, 3)), "number")


def render_statement(question: Question) -> str | None:
    """Render a how-many question and its answer as a statement, `There are exactly 3 dogs.`; None for others."""
    if question.kind != "number":
        return None
    noun = question.text.removeprefix("How many ").split(" are ")[0]
    count = int(question.answer)
    if count == 1:
        singulars = {kind.plural: kind.name for kind in read_kinds().values()}
        singulars |= {category.plural: category.name for category in read_categories().values()}
        noun = singulars[noun]
    return render_sentence(f"there {BE[count != 1]} exactly {count} {noun}")


def draw_yes_no(graph: Graph, rng: Random) -> Question | None:
    """Draw a question that truth answers with yes or no; None where the one drawn is left open."""
    forms = (_draw_existence_question, _draw_place_question, _draw_doing_question, _draw_relation_question)
    text = rng.choice(forms)(graph, rng)
    answer = _answer_yes_no(graph, text)
    if answer is None:
        return None
    return Question(render_question(text), answer, ("no" if answer == "yes" else "yes",), "yes/no")


def _answer_yes_no(graph: Graph, text: str) -> str | None:
    """Return yes or no, as the oracle decides a question, which a caption may precede; None where it is open."""
    return {"true": "yes", "false": "no", "unknown": None}[decide_truth(graph, f"{text}? yes.")]


def _draw_existence_question(graph: Graph, rng: Random) -> str:
    kinds = [entry.kind for entry in graph.objects] if rng.random() < 0.5 else graph.list_absent_kinds()
    kind = read_kinds()[rng.choice(kinds)]
    return rng.choice(
        (f"are there any {kind.plural}", f"is there {add_article(kind.name)}", f"do you see any {kind.plural}")
    )


def _draw_place_question(graph: Graph, rng: Random) -> str:
    subject = find_focus(graph)
    place = graph.place if rng.random() < 0.5 else rng.choice(list(PLACES))
    return f"{get_be(subject)} {render_definite(subject)} {rng.choice(PLACES[place])}"


def _draw_doing_question(graph: Graph, rng: Random) -> str:
    subject = find_focus(graph)
    is_right = rng.random() < 0.5 and graph.action is not None
    act = render_participle(graph) if is_right else _draw_fitting_action(graph, subject, rng)
    return f"{get_be(subject)} {render_definite(subject)} {act}"


def _draw_fitting_action(graph: Graph, subject: Object, rng: Random) -> str:
    theme = graph.theme
    fitting = [verb for verb in read_verbs().values() if verb.takes(subject.kind, theme.kind if theme else None)]
    if not fitting:
        return PLACES[graph.place][0]
    verb = rng.choice(fitting)
    return join_words(verb.name, verb.preposition, render_definite(theme)) if theme else verb.name


def _draw_relation_question(graph: Graph, rng: Random) -> str:
    subject = find_focus(graph)
    others = [entry for entry in graph.objects if entry != subject]
    if not others:
        return _draw_place_question(graph, rng)
    landmark = rng.choice(others)
    if graph.relations and rng.random() < 0.4:
        preposition, landmark = graph.relations[0].preposition, graph.objects[graph.relations[0].object]
    else:
        preposition = rng.choice(ASKED_PREPOSITIONS)
    return f"{get_be(subject)} {render_definite(subject)} {preposition} {render_definite(landmark)}"


def draw_wh_question(graph: Graph, rng: Random) -> Question | None:
    """Draw a what, who, where or when question; None where the one drawn does not fit the scene."""
    forms: tuple[Callable[[Graph, Random], Question | None], ...] = (
        _draw_what,
        _draw_who,
        _draw_where,
        _draw_when,
        _draw_colour,
        _draw_what_doing,
    )
    return rng.choice(forms)(graph, rng)


def _draw_what(graph: Graph, rng: Random) -> Question | None:
    if graph.verb and graph.agent and graph.theme:
        entry, names = graph.theme, graph.verb.themes
        text = join_words("what is", render_definite(graph.agent), graph.verb.name, graph.verb.preposition)
    elif graph.relations:
        relation = graph.relations[0]
        entry, names = graph.objects[relation.subject], ()
        text = f"what is {relation.preposition} {render_definite(graph.objects[relation.object])}"
    else:
        return None
    if entry.count > 1 or read_kinds()[entry.kind].group == "people":
        return None
    return Question(render_question(text), render_indefinite(entry), _draw_wrong_names(graph, names, rng))


def _draw_who(graph: Graph, rng: Random) -> Question | None:
    if graph.agent is None or graph.agent.count > 1 or read_kinds()[graph.agent.kind].group != "people":
        return None
    people = tuple(kind.name for kind in read_kinds().values() if kind.group == "people")
    text = render_question(f"who is {render_participle(graph)}")
    return Question(text, render_indefinite(graph.agent), _draw_wrong_names(graph, people, rng))


def _draw_wrong_names(graph: Graph, preferred: tuple[str, ...], rng: Random) -> tuple[str, ...]:
    """Draw three kinds that the scene lacks, the preferred ones first."""
    absent = [name for name in preferred if not graph.count(name)]
    others = [name for name in graph.list_absent_kinds() if name not in absent]
    names = (rng.sample(absent, len(absent)) + rng.sample(others, 3))[:3]
    return tuple(add_article(name) for name in names)


def _draw_where(graph: Graph, rng: Random) -> Question | None:
    if graph.place == "night":
        return None
    subject = rng.choice(graph.objects)
    others = rng.sample([name for name in PLACES if name not in (graph.place, "night")], 3)
    text = render_question(f"where {get_be(subject)} {render_definite(subject)}")
    return Question(text, PLACES[graph.place][0], tuple(PLACES[name][0] for name in others))


def _draw_when(graph: Graph, rng: Random) -> Question | None:
    if graph.place == "indoors":
        return None
    times = ("at night", "during the day") if graph.place == "night" else ("during the day", "at night")
    return Question("When was the picture taken?", times[0], (times[1], "at dawn", "at sunset"))


def _draw_colour(graph: Graph, rng: Random) -> Question | None:
    coloured = [entry for entry in graph.objects if entry.colour]
    if not coloured:
        return None
    entry = rng.choice(coloured)
    wrong = [name for name in ASKED_COLOURS if name != entry.colour]
    text = render_question(f"what color {get_be(entry)} {render_definite(entry)}")
    return Question(text, str(entry.colour), tuple(rng.sample(wrong, 3)))


def _draw_what_doing(graph: Graph, rng: Random) -> Question | None:
    if graph.agent is None or graph.verb is None:
        return None
    names = [name for name in read_verbs() if name not in graph.verb.vague | {graph.verb.name}]
    text = render_question(f"what {get_be(graph.agent)} {render_definite(graph.agent)} doing")
    return Question(text, graph.verb.name, tuple(rng.sample(names, 3)))


def draw_dialogue(graph: Graph, caption: str, rng: Random) -> list[tuple[str, str]]:
    """Draw ten rounds of question and answer, lower case, without punctuation; pronouns refer to the caption."""
    forms = (_draw_pronoun_question, _draw_pronoun_question, _draw_existence_question, _draw_scene_question)
    rounds: dict[str, str] = {}
    while len(rounds) < ROUNDS:
        if rng.random() < 0.3:
            question = draw_how_many(graph, rng, rng.random() < 0.3) if rng.random() < 0.6 else _draw_colour(graph, rng)
            if question is not None:
                rounds[question.text[:-1].lower()] = question.answer
            continue
        text = rng.choice(forms)(graph, rng)
        answer = _answer_yes_no(graph, f"{caption} {text}")
        if answer is not None:
            rounds[text] = answer
    return list(rounds.items())


def _draw_pronoun_question(graph: Graph, rng: Random) -> str:
    subject = find_focus(graph)
    text = rng.choice((_draw_place_question, _draw_doing_question, _draw_relation_question))(graph, rng)
    return text.replace(f" {render_definite(subject)} ", f" {get_pronoun(subject)} ", 1)


def _draw_scene_question(graph: Graph, rng: Random) -> str:
    return rng.choice(("is it outdoors", "is it indoors", "is it at night", "is this indoors", "is this outdoors"))
