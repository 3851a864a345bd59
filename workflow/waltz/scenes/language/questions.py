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
    get_pronoun,
    render_definite,
    render_indefinite,
    render_participle,
    render_sentence,
)
from waltz.scenes.lexicon import read_categories, read_kinds, read_verbs
from waltz.scenes.oracle import decide_truth

ROUNDS = 10

EXISTENCE_PHRASES = ("shown", "there", "in the picture", "in the photo", "pictured")


@dataclass(frozen=True)
class Question:
    """A question of one type with its answer and wrong answers.

    Attributes:
        text: With a capital and a question mark.
        answer: A word or phrase, lower case, without a full stop.
        kind: number, yes/no or other, as in VQA v2.
        wrong: Plausible wrong answers, most of them of the same sort.
    """

    text: str
    answer: str
    kind: str
    wrong: tuple[str, ...]


def render_question(words: str) -> str:
    """Return the words with a capital first and a question mark last."""
    return words[0].upper() + words[1:] + "?"


def draw_how_many(graph: Graph, rng: Random, zero: bool) -> Question:
    """Draw a how-many question about a kind or category; its answer is 0 if and only if `zero`."""
    counts = {kind.plural: graph.count(kind.name) for kind in read_kinds().values()}
    for category in read_categories().values():
        if not category.mass:
            counts[category.plural] = sum(graph.count(name) for name in category.members)
    count = 0 if zero else rng.choice(sorted(set(counts.values()) - {0}))
    plural = rng.choice(sorted(name for name, number in counts.items() if number == count))
    words = rng.choice(EXISTENCE_PHRASES)
    text = f"how many {plural} are there" if words == "there" else f"how many {plural} are {words}"
    wrong = [str(number) for number in range(10) if number != count]
    return Question(render_question(text), str(count), "number", tuple(rng.sample(wrong, 3)))


def draw_yes_no(graph: Graph, rng: Random) -> Question | None:
    """Draw a question that truth answers with yes or no; None where the one drawn is left open."""
    text = rng.choice((_draw_existence_question, _draw_place_question, _draw_doing_question, _draw_relation_question))(
        graph, rng
    )
    verdict = decide_truth(graph, f"{text}? yes.")
    if verdict == "unknown":
        return None
    answer = "yes" if verdict == "true" else "no"
    return Question(render_question(text), answer, "yes/no", ("no" if answer == "yes" else "yes",))


def _choose_kind(graph: Graph, rng: Random) -> str:
    present = [entry.kind for entry in graph.objects]
    return (
        rng.choice(present)
        if rng.random() < 0.5
        else rng.choice([name for name in read_kinds() if name not in present])
    )


def _draw_existence_question(graph: Graph, rng: Random) -> str:
    kind = read_kinds()[_choose_kind(graph, rng)]
    return rng.choice(
        (f"are there any {kind.plural}", f"is there {add_article(kind.name)}", f"do you see any {kind.plural}")
    )


def _draw_place_question(graph: Graph, rng: Random) -> str:
    subject = find_focus(graph)
    name = graph.place if rng.random() < 0.5 else rng.choice(list(PLACES))
    return f"{BE[subject.count > 1]} {render_definite(subject)} {rng.choice(PLACES[name])}"


def _choose_other_verb(graph: Graph, rng: Random) -> str:
    agent = find_focus(graph)
    if graph.theme is not None:
        theme = graph.theme
        fitting = [verb for verb in read_verbs().values() if theme.kind in verb.themes and agent.kind in verb.agents]
        verb = rng.choice(fitting)
        return f"{verb.name} {verb.preposition} {render_definite(theme)}".replace("  ", " ")
    fitting = [verb for verb in read_verbs().values() if not verb.themes and agent.kind in verb.agents]
    return rng.choice(fitting).name if fitting else PLACES[graph.place][0]


def _draw_doing_question(graph: Graph, rng: Random) -> str:
    subject = find_focus(graph)
    act = (
        render_participle(graph) if rng.random() < 0.5 and graph.action is not None else _choose_other_verb(graph, rng)
    )
    return f"{BE[subject.count > 1]} {render_definite(subject)} {act}"


def _draw_relation_question(graph: Graph, rng: Random) -> str:
    subject = find_focus(graph)
    others = [entry for entry in graph.objects if entry != subject]
    if not others:
        return _draw_place_question(graph, rng)
    landmark = rng.choice(others)
    if graph.relations and rng.random() < 0.4:
        preposition, landmark = graph.relations[0].preposition, graph.objects[graph.relations[0].object]
    else:
        preposition = rng.choice(
            ("on", "under", "behind", "in front of", "to the left of", "to the right of", "next to")
        )
    return f"{BE[subject.count > 1]} {render_definite(subject)} {preposition} {render_definite(landmark)}"


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


def _choose_names(rng: Random, answer: Object, graph: Graph, group: tuple[str, ...]) -> tuple[str, ...]:
    absent = [name for name in group if graph.count(name) == 0 and name != answer.kind]
    others = [name for name in read_kinds() if graph.count(name) == 0 and name not in absent]
    names = (rng.sample(absent, len(absent)) + rng.sample(others, 3))[:3]
    return tuple(add_article(name) for name in names)


def _draw_what(graph: Graph, rng: Random) -> Question | None:
    if graph.action is not None and graph.theme is not None and graph.agent is not None:
        if graph.theme.count > 1 or read_kinds()[graph.theme.kind].group == "people":
            return None
        verb = read_verbs()[graph.action.verb]
        text = f"what is {render_definite(graph.agent)} {verb.name} {verb.preposition}".strip()
        wrong = _choose_names(rng, graph.theme, graph, verb.themes)
        return Question(render_question(text), render_indefinite(graph.theme), "other", wrong)
    if graph.relations:
        subject, landmark = graph.objects[graph.relations[0].subject], graph.objects[graph.relations[0].object]
        if subject.count > 1 or read_kinds()[subject.kind].group == "people":
            return None
        text = f"what is {graph.relations[0].preposition} {render_definite(landmark)}"
        return Question(
            render_question(text), render_indefinite(subject), "other", _choose_names(rng, subject, graph, ())
        )
    return None


def _draw_who(graph: Graph, rng: Random) -> Question | None:
    if graph.agent is None or graph.agent.count > 1 or read_kinds()[graph.agent.kind].group != "people":
        return None
    people = tuple(kind.name for kind in read_kinds().values() if kind.group == "people")
    return Question(
        render_question(f"who is {render_participle(graph)}"),
        render_indefinite(graph.agent),
        "other",
        _choose_names(rng, graph.agent, graph, people),
    )


def _draw_where(graph: Graph, rng: Random) -> Question | None:
    if graph.place == "night":
        return None
    subject = rng.choice(graph.objects)
    others = [name for name in PLACES if name not in (graph.place, "night")]
    wrong = tuple(PLACES[name][0] for name in rng.sample(others, 3))
    return Question(
        render_question(f"where {BE[subject.count > 1]} {render_definite(subject)}"),
        PLACES[graph.place][0],
        "other",
        wrong,
    )


def _draw_when(graph: Graph, rng: Random) -> Question | None:
    answer = "at night" if graph.place == "night" else "during the day"
    wrong = ("during the day" if graph.place == "night" else "at night", "at dawn", "at sunset")
    return None if graph.place == "indoors" else Question("When was the picture taken?", answer, "other", wrong)


def _draw_colour(graph: Graph, rng: Random) -> Question | None:
    coloured = [entry for entry in graph.objects if entry.colour]
    if not coloured:
        return None
    entry = rng.choice(coloured)
    wrong = [name for name in ("red", "green", "blue", "yellow", "purple", "orange") if name != entry.colour]
    text = f"what color {BE[entry.count > 1]} {render_definite(entry)}"
    return Question(render_question(text), str(entry.colour), "other", tuple(rng.sample(wrong, 3)))


def _draw_what_doing(graph: Graph, rng: Random) -> Question | None:
    if graph.agent is None or graph.action is None:
        return None
    vague = read_verbs()[graph.action.verb].vague
    names = [name for name in read_verbs() if name not in vague and name != graph.action.verb]
    text = f"what {BE[graph.agent.count > 1]} {render_definite(graph.agent)} doing"
    return Question(render_question(text), graph.action.verb, "other", tuple(rng.sample(names, 3)))


def draw_questions(graph: Graph, rng: Random, count: int = 8) -> list[Question]:
    """Draw different questions: one how-many question with answer 0, two with larger answers, then yes/no and wh-."""
    questions = [draw_how_many(graph, rng, True), draw_how_many(graph, rng, False), draw_how_many(graph, rng, False)]
    while len({question.text for question in questions}) < count:
        question = draw_yes_no(graph, rng) if rng.random() < 0.5 else draw_wh_question(graph, rng)
        if question is not None:
            questions.append(question)
    return list({question.text: question for question in reversed(questions)}.values())[::-1][:count]


def draw_dialogue(graph: Graph, caption: str, rng: Random) -> list[tuple[str, str]]:
    """Draw ten rounds of question and answer, lower case, without punctuation; pronouns refer to the caption."""
    rounds: dict[str, str] = {}
    while len(rounds) < ROUNDS:
        if rng.random() < 0.3:
            question = draw_how_many(graph, rng, rng.random() < 0.3) if rng.random() < 0.6 else _draw_colour(graph, rng)
            if question is not None:
                rounds[question.text[:-1].lower()] = question.answer
            continue
        text = rng.choice(
            (_draw_pronoun_question, _draw_pronoun_question, _draw_existence_question, _draw_scene_question)
        )(graph, rng)
        verdict = decide_truth(graph, f"{caption} {text}? yes.")
        if verdict != "unknown":
            rounds[text] = "yes" if verdict == "true" else "no"
    return list(rounds.items())


def _draw_pronoun_question(graph: Graph, rng: Random) -> str:
    subject = find_focus(graph)
    ask_about = rng.choice((_draw_place_question, _draw_doing_question, _draw_relation_question))
    return ask_about(graph, rng).replace(f" {render_definite(subject)} ", f" {get_pronoun(subject)} ", 1)


def _draw_scene_question(graph: Graph, rng: Random) -> str:
    return rng.choice(("is it outdoors", "is it indoors", "is it at night", "is this indoors", "is this outdoors"))


def render_statement(question: Question) -> str | None:
    """Render a how-many question and its answer as a statement, `There are exactly 3 dogs.`; None for others."""
    if question.kind != "number":
        return None
    plural = question.text.removeprefix("How many ").split(" are ")[0]
    count = int(question.answer)
    names = {kind.plural: kind.name for kind in read_kinds().values()}
    names |= {category.plural: category.name for category in read_categories().values()}
    return render_sentence(f"there {BE[count != 1]} exactly {count} {names[plural] if count == 1 else plural}")
