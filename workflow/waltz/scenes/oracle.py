"""Oracle that decides the truth of a sentence about a scene, as far as the scene determines it.

A sentence is true if one of its readings is, false if all are, unknown otherwise and where it lies outside the
grammar. Bare numerals mean exactly that many; `some`, `a number of` and a bare plural two or more.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

from waltz.scenes.graph import Graph
from waltz.scenes.language.grammar import (
    AlonePredicate,
    Clause,
    ColourPredicate,
    Conjunction,
    Coordination,
    Negation,
    NounPhrase,
    NounPredicate,
    Phrase,
    Predicate,
    PrepositionalPhrase,
    Pronoun,
    Setting,
    VerbPhrase,
    list_noun_phrases,
    read_answered_question,
    read_sentence,
    split_statements,
)
from waltz.scenes.language.words import Quantifier, tokenize
from waltz.scenes.lexicon import read_kinds

Truth = Literal["true", "false", "unknown"]

TruthValue = bool | None
"""True, false, or None for unknown."""

Reading = tuple[tuple[Clause, list[NounPhrase]], ...]
"""Clauses that all hold, each with the noun phrases that it mentions."""

Individual = tuple[int, int]
"""Object's index in the graph and number in it; (-1, 0) is the place."""

PLACE: Individual = (-1, 0)


def decide_truth(graph: Graph, sentence: str) -> Truth:
    """Decide whether a sentence, or a dialogue of statements and answered questions, is true of a scene.

    Args:
        graph: The scene.
        sentence: Statements, each question followed by its answer (yes, no, a number or a colour).
    Returns:
        `true`, `false`, or `unknown` where the scene or the grammar does not decide it.
    """
    mentioned: list[NounPhrase] = []
    values: list[TruthValue] = []
    for readings, answer in _parse_sentence(sentence):
        value = _disjoin(_decide_reading(graph, reading, mentioned) for reading in readings) if readings else None
        values.append(_negate(value) if answer == "no" else value)
        if readings:
            mentioned += [phrase for _, phrases in readings[0] for phrase in phrases]
    value = _conjoin(values) if values else None
    return "unknown" if value is None else "true" if value else "false"


def is_in_grammar(sentence: str) -> bool:
    """Return True if the oracle can parse a sentence at all."""
    return bool(_parse_sentence(sentence)) and all(readings for readings, _ in _parse_sentence(sentence))


@lru_cache(maxsize=4096)
def _parse_sentence(sentence: str) -> list[tuple[list[Reading], str | None]]:
    """Return the readings of each statement, and of each question with its answer, and that answer."""
    statements = []
    for words, answer in split_statements(tokenize(sentence)):
        readings = read_sentence(words) if answer is None else read_answered_question(words, answer)
        with_phrases = [tuple((clause, list_noun_phrases(clause)) for clause in reading) for reading in readings]
        statements.append((with_phrases, answer))
    return statements


def _decide_reading(graph: Graph, reading: Reading, mentioned: list[NounPhrase]) -> TruthValue:
    evaluator = _Evaluator(graph, list(mentioned))
    values = []
    for clause, phrases in reading:
        values.append(evaluator.decide_clause(clause))
        evaluator.mentioned.extend(phrases)
    return _conjoin(values)


def _conjoin(values: Iterable[TruthValue]) -> TruthValue:
    result: TruthValue = True
    for value in values:
        if value is False:
            return False
        result = result and value
    return result


def _disjoin(values: Iterable[TruthValue]) -> TruthValue:
    return _negate(_conjoin(map(_negate, values)))


def _negate(value: TruthValue) -> TruthValue:
    return None if value is None else not value


def _require_agreement(values: Iterable[TruthValue]) -> TruthValue:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


class _Evaluator:
    """A scene with the noun phrases that pronouns can refer to."""

    def __init__(self, graph: Graph, mentioned: list[NounPhrase]) -> None:
        self.graph, self.mentioned = graph, mentioned
        self.restriction_values: dict[tuple[Individual, NounPhrase, int], TruthValue] = {}
        self.domains: dict[frozenset[str], list[Individual]] = {}
        self.individuals: list[Individual] = [
            (index, number) for index, entry in enumerate(graph.objects) for number in range(entry.count)
        ]

    def get_kind(self, thing: Individual) -> str:
        return "" if thing == PLACE else self.graph.objects[thing[0]].kind

    def decide_clause(self, clause: Clause) -> TruthValue:
        if isinstance(clause.subject, Pronoun) and _is_about_place(clause.predicate):
            return self.decide_predicate(PLACE, clause.predicate, False)
        value = self.decide_subject(clause.subject, clause.predicate)
        return _negate(value) if clause.negated else value

    def decide_subject(self, subject: Phrase, predicate: Predicate) -> TruthValue:
        if isinstance(subject, Coordination):
            return _conjoin(self.decide_subject(phrase, predicate) for phrase in subject.phrases)
        if isinstance(subject, Pronoun):
            return _require_agreement(self.decide_subject(part, predicate) for part in self.find_antecedents(subject))
        return self.decide_quantified(subject, lambda thing: self.decide_predicate(thing, predicate, subject.plural))

    def decide_quantified(self, phrase: NounPhrase, scope: Callable[[Individual], TruthValue]) -> TruthValue:
        domain = self.list_individuals(phrase)
        limits = [self.decide_restrictions(thing, phrase) for thing in domain]
        each = list(zip(limits, domain, strict=True))
        if phrase.quantifier.every:
            enough = _check_quantifier(phrase.quantifier, limits)
            return _conjoin((enough, _conjoin(_disjoin((_negate(limit), scope(thing))) for limit, thing in each)))
        return _check_quantifier(
            phrase.quantifier, [limit is not False and _conjoin((limit, scope(thing))) for limit, thing in each]
        )

    def list_individuals(self, phrase: NounPhrase) -> list[Individual]:
        if phrase.place:
            return [PLACE] if phrase.place == self.graph.place else []
        if phrase.kinds not in self.domains:
            self.domains[phrase.kinds] = [thing for thing in self.individuals if self.get_kind(thing) in phrase.kinds]
        return self.domains[phrase.kinds]

    def decide_restrictions(self, thing: Individual, phrase: NounPhrase) -> TruthValue:
        if not phrase.restrictions and not phrase.colour:
            return True
        key = (thing, phrase, len(self.mentioned))
        if key not in self.restriction_values:
            values = [self.decide_predicate(thing, part, phrase.plural) for part in phrase.restrictions]
            if phrase.colour:
                values.append(self.decide_colour(thing, phrase.colour))
            self.restriction_values[key] = _conjoin(values)
        return self.restriction_values[key]

    def decide_predicate(self, thing: Individual, predicate: Predicate, plural: bool) -> TruthValue:
        match predicate:
            case Conjunction():
                return _conjoin(self.decide_predicate(thing, part, plural) for part in predicate.predicates)
            case Negation():
                return _negate(self.decide_predicate(thing, predicate.predicate, plural))
            case Setting():
                return self.decide_setting(predicate.name)
            case ColourPredicate():
                return self.decide_colour(thing, predicate.colour)
            case NounPredicate():
                return self.get_kind(thing) in predicate.kinds
            case AlonePredicate():
                return self.decide_alone(thing)
            case PrepositionalPhrase():
                return self.decide_prepositional_phrase(thing, predicate, plural)
            case VerbPhrase():
                return self.decide_verb_phrase(thing, predicate, plural)

    def decide_setting(self, name: str) -> TruthValue:
        place = self.graph.place
        if name in ("indoors", "outdoors"):
            return (place == "indoors") == (name == "indoors")
        if place == "indoors":
            return False if name == "night" else None
        return (place == "night") == (name == "night")

    def decide_colour(self, thing: Individual, colour: str) -> TruthValue:
        own = None if thing == PLACE else self.graph.objects[thing[0]].colour
        return None if own is None else own == colour

    def decide_alone(self, thing: Individual) -> TruthValue:
        groups = [read_kinds()[self.get_kind(neighbour)].group for neighbour in self.individuals if neighbour != thing]
        return False if "people" in groups else None if "animals" in groups else True

    def decide_prepositional_phrase(
        self, thing: Individual, predicate: PrepositionalPhrase, plural: bool
    ) -> TruthValue:
        sense, landmark = predicate.sense, predicate.landmark
        if isinstance(landmark, NounPhrase):
            if landmark.place and landmark.place != self.graph.place:
                return None if sense in ("off", "out of", "far", "without") else False
            if sense == "without":
                positive = PrepositionalPhrase("with", landmark)
                return _negate(self.decide_prepositional_phrase(thing, positive, plural)) if landmark.kinds else True
        return self.decide_relation(
            thing, landmark, lambda subject, partner: _decide_position(self.graph, subject, sense, partner), plural
        )

    def decide_verb_phrase(self, thing: Individual, predicate: VerbPhrase, plural: bool) -> TruthValue:
        def holds(subject: Individual, partner: Individual) -> TruthValue:
            agent, theme = (partner, subject) if predicate.passive else (subject, partner)
            return self.decide_action(predicate.verb, agent, theme)

        if predicate.argument is not None:
            return self.decide_relation(thing, predicate.argument, holds, plural)
        if predicate.passive:
            return _disjoin(holds(thing, partner) for partner in self.individuals)
        return self.decide_intransitive(predicate.verb, thing)

    def decide_action(self, verb: str, agent: Individual, theme: Individual) -> TruthValue:
        shown = self.graph.verb
        if shown is None:
            return False
        if _acts_on(self.graph, agent, theme) or (shown.symmetric and _acts_on(self.graph, theme, agent)):
            return True if verb == shown.name else None if verb in shown.vague else False
        return False

    def decide_intransitive(self, verb: str, agent: Individual) -> TruthValue:
        if agent == PLACE:
            return False
        action, shown = self.graph.action, self.graph.verb
        seems = None if verb in read_kinds()[self.get_kind(agent)].seems else False
        if action is None or shown is None:
            return seems
        if agent[0] == action.agent or (shown.symmetric and agent[0] == action.theme):
            return True if verb == shown.name else None if verb in shown.vague else seems
        return None if agent[0] == action.theme and verb in shown.theme_seems else seems

    def decide_relation(
        self, thing: Individual, phrase: Phrase, holds: Callable[[Individual, Individual], TruthValue], plural: bool
    ) -> TruthValue:
        """Decide the relation of an individual to the referents of a phrase.

        Two plurals are read cumulatively: two men ride two horses if each rides one. Where a plural subject meets a
        singular object, the readings must agree.
        """
        if isinstance(phrase, Coordination):
            return _conjoin(self.decide_relation(thing, part, holds, plural) for part in phrase.phrases)
        if isinstance(phrase, Pronoun):
            others = (part for part in self.find_antecedents(phrase) if self.get_kind(thing) not in part.kinds)
            return _require_agreement(self.decide_relation(thing, part, holds, plural) for part in others)
        distributive = self.decide_quantified(phrase, lambda partner: holds(thing, partner))
        if not plural:
            return distributive
        fellows = [partner for partner in self.individuals if partner[0] == thing[0]] or [thing]
        collective = self.decide_quantified(
            phrase, lambda partner: _disjoin(holds(fellow, partner) for fellow in fellows)
        )
        return collective if phrase.plural or distributive == collective else None

    def find_antecedents(self, pronoun: Pronoun) -> list[NounPhrase]:
        """Return the preceding noun phrases that a pronoun may refer to, as definite ones."""
        antecedents: list[NounPhrase] = []
        for phrase in self.mentioned:
            fitting = frozenset(
                name for name in phrase.kinds if pronoun.plural or read_kinds()[name].pronoun == pronoun.word
            )
            if fitting and not phrase.place and phrase.plural == pronoun.plural:
                antecedents.append(replace(phrase, kinds=fitting, quantifier=Quantifier(1, every=pronoun.plural)))
        return list(dict.fromkeys(antecedents))


def _check_quantifier(quantifier: Quantifier, values: list[TruthValue]) -> TruthValue:
    return quantifier.check(values.count(True), len(values) - values.count(False))


def _is_about_place(predicate: Predicate) -> bool:
    match predicate:
        case Conjunction():
            return all(_is_about_place(part) for part in predicate.predicates)
        case Negation():
            return _is_about_place(predicate.predicate)
        case PrepositionalPhrase():
            return isinstance(predicate.landmark, NounPhrase) and bool(predicate.landmark.place)
        case _:
            return isinstance(predicate, Setting)


INVERSE = {
    "on": "bearing", "under": "over", "over": "under", "in": "around", "behind": "in front of",
    "in front of": "behind", "next to": "next to", "beside": "beside", "touching": "touching", "apart": "apart",
}  # fmt: skip
"""How the landmark is to the subject, by how the subject is to the landmark."""

TRUE_SENSES = {"bearing": "under", "beside": "next to"}
"""The sense that an arrangement makes true, where it is not called the same."""

FALSE_SENSES = {
    "on": {"under", "in", "behind", "in front of", "next to", "off", "far", "around"},
    "bearing": {"on", "in", "behind", "in front of", "next to", "over", "far", "around"},
    "under": {"on", "in", "over", "far", "around"},
    "over": {"on", "under", "in", "behind", "in front of", "around"},
    "in": {"under", "behind", "in front of", "next to", "over", "out of", "off", "far", "around"},
    "around": {"on", "in", "under", "over", "behind", "in front of", "far", "next to"},
    "behind": {"on", "under", "in", "in front of", "over", "far", "around"},
    "in front of": {"on", "under", "in", "behind", "over", "far", "around"},
    "next to": {"on", "under", "in", "behind", "in front of", "over", "far", "around"},
    "beside": {"on", "under", "in", "over", "far", "around"},
    "touching": {"far"},
    "apart": {"on", "under", "in", "around"},
}
"""Senses that each arrangement makes false; all others it leaves open."""

PLACE_TRUE = {
    "indoors": {"in", "at"},
    "street": {"on", "in", "at"},
    "grass": {"on", "in", "at"},
    "beach": {"on", "at"},
    "snow": {"in", "on", "at"},
    "night": {"at"},
}
"""Senses that fit each place; `at` fits every one, because imSitu's sentences put it before all of them."""
PLACE_FALSE = {"under", "over", "behind", "in front of", "next to", "off", "out of", "far", "around", "without"}


def _decide_position(graph: Graph, subject: Individual, sense: str, landmark: Individual) -> TruthValue:
    """Decide whether an individual is in, on, under … another one, or the place."""
    if landmark == PLACE:
        if sense in PLACE_TRUE[graph.place]:
            return True
        return False if sense in PLACE_FALSE or (graph.place, sense) == ("indoors", "on") else None
    if subject == PLACE:
        return {"with": True, "without": False}.get(sense)
    if subject == landmark or sense == "through":
        return False
    if sense in ("left of", "right of"):
        return _decide_side(graph, subject, sense, landmark)
    arrangement = _find_arrangement(graph, subject, landmark)
    if sense in ("with", "without"):
        return None if arrangement == "apart" else sense == "with"
    if TRUE_SENSES.get(arrangement, arrangement) == sense or (sense == "near" and arrangement in ("next to", "beside")):
        return True
    return False if sense in FALSE_SENSES[arrangement] else None


def _decide_side(graph: Graph, subject: Individual, sense: str, landmark: Individual) -> TruthValue:
    first, second = graph.objects[subject[0]].cells[subject[1]], graph.objects[landmark[0]].cells[landmark[1]]
    slack = min(first.size, second.size) // 6
    left, right = first.right <= second.left + slack, second.right <= first.left + slack
    return None if left == right else left == (sense == "left of")


def _find_arrangement(graph: Graph, subject: Individual, landmark: Individual) -> str:
    """Return how the sprites of two individuals were arranged: a key of `FALSE_SENSES`."""
    for relation in graph.relations:
        if (relation.subject, relation.object) == (subject[0], landmark[0]):
            return relation.preposition
        if (relation.object, relation.subject) == (subject[0], landmark[0]):
            return INVERSE[relation.preposition]
    if graph.verb is not None:
        arrangement = {"": "touching", "next to": "beside"}.get(graph.verb.relation, graph.verb.relation)
        if _acts_on(graph, subject, landmark):
            return arrangement
        if _acts_on(graph, landmark, subject):
            return INVERSE[arrangement]
    return "apart"


def _acts_on(graph: Graph, agent: Individual, theme: Individual) -> bool:
    """Return True if an individual is the agent, and another its own theme, of the scene's action."""
    action = graph.action
    if action is None or (agent[0], theme[0]) != (action.agent, action.theme):
        return False
    return theme[1] in graph.get_theme_indices(agent[1])


VOTER = "oracle"
"""What the column `voter` marks the oracle's votes by."""
VOTES = 3

Vote = Literal["caption", "foil", "both", "neither", "cannot tell"]


def cast_vote(graph: Graph, caption: str, foil: str) -> Vote:
    """Return the oracle's vote, in the place of a human validator's, on which of two texts describes a scene."""
    verdicts = (decide_truth(graph, caption), decide_truth(graph, foil))
    if "unknown" in verdicts:
        return "cannot tell"
    if verdicts[0] == verdicts[1]:
        return "both" if verdicts[0] == "true" else "neither"
    return "caption" if verdicts[0] == "true" else "foil"


def cast_votes(items: Iterable[Mapping[str, Any]], scene_of: Mapping[str, Graph]) -> list[dict[str, Any]]:
    """Return the oracle's votes on items, counted as three votes for each item.

    Args:
        items: Rows with item_id, image, caption and foil.
        scene_of: Scene of each image.
    Returns:
        item_id, voter, vote, votes_caption, votes_foil, votes_other of each item, in order.
    """
    rows = []
    for item in items:
        vote = cast_vote(scene_of[item["image"]], item["caption"], item["foil"])
        counts = {f"votes_{name}": VOTES * (vote == name) for name in ("caption", "foil")}
        counts["votes_other"] = VOTES - sum(counts.values())
        rows.append({"item_id": item["item_id"], "voter": VOTER, "vote": vote, **counts})
    return rows
