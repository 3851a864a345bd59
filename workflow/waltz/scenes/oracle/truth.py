"""The oracle: whether a sentence is true of a scene, as far as the scene decides it.

A sentence is true if one of its readings is, false if all are, unknown otherwise and where it lies outside the
grammar. Bare numerals mean exactly that many; `some`, `a number of` and a bare plural two or more.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache

from waltz.scenes.language.grammar import read_answered_question, read_sentence, split_statements
from waltz.scenes.language.syntax import (
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
    Quantifier,
    Setting,
    VerbPhrase,
    list_noun_phrases,
)
from waltz.scenes.language.words import tokenize
from waltz.scenes.world.graph import Graph
from waltz.scenes.world.lexicon import read_kinds, read_verbs
from waltz.scenes.world.spatial import PLACE, SENSES, Individual, Truth, decide_absent_place, decide_position

TruthValue = bool | None
"""True, false, or None for unknown."""

Reading = tuple[tuple[Clause, tuple[NounPhrase, ...]], ...]
"""Clauses that all hold, each with the noun phrases that it mentions."""

_TRUTH_VALUES: dict[Truth, TruthValue] = {"true": True, "false": False, "unknown": None}


def decide_truth(graph: Graph, sentence: str) -> Truth:
    """Decide whether a sentence, or a dialogue of statements and answered questions, is true of a scene.

    Args:
        graph: The scene.
        sentence: Statements, each question followed by its answer (yes, no, a number or a colour).
    Returns:
        `true`, `false`, or `unknown` where the scene or the grammar does not decide it.
    """
    said: list[NounPhrase] = []
    values: list[TruthValue] = []
    for options, answer in _parse_sentence(sentence):
        value = _any(_decide_clauses(graph, option, said) for option in options) if options else None
        values.append(_not(value) if answer == "no" else value)
        if options:
            said.extend(phrase for _, mentioned in options[0] for phrase in mentioned)
    if not values:
        return "unknown"
    return {True: "true", False: "false", None: "unknown"}[_all(values)]  # type: ignore[return-value]


def is_in_grammar(sentence: str) -> bool:
    """Return True if the oracle can parse a sentence at all."""
    return bool(_parse_sentence(sentence)) and all(options for options, _ in _parse_sentence(sentence))


@lru_cache(maxsize=4096)
def _parse_sentence(sentence: str) -> tuple[tuple[tuple[Reading, ...], str | None], ...]:
    """Return the readings of each statement, and of each question with its answer, and that answer."""
    found = []
    for words, answer in split_statements(tokenize(sentence)):
        options = read_sentence(words) if answer is None else read_answered_question(words, answer)
        told = tuple(
            tuple(
                (clause, (*list_noun_phrases(clause.subject), *list_noun_phrases(clause.predicate)))
                for clause in option
            )
            for option in options
        )
        found.append((told, answer))
    return tuple(found)


def _decide_clauses(graph: Graph, reading: Reading, said: list[NounPhrase]) -> TruthValue:
    world = _Evaluator(graph, list(said))
    values = []
    for clause, mentioned in reading:
        values.append(world.clause(clause))
        world.said.extend(mentioned)
    return _all(values)


def _all(values: Iterable[TruthValue]) -> TruthValue:
    found: TruthValue = True
    for value in values:
        if value is False:
            return False
        found = found and value
    return found


def _any(values: Iterable[TruthValue]) -> TruthValue:
    return _not(_all(map(_not, values)))


def _not(value: TruthValue) -> TruthValue:
    return None if value is None else not value


class _Evaluator:
    """A scene, and the phrases that pronouns can stand for."""

    def __init__(self, graph: Graph, said: list[NounPhrase]) -> None:
        self.graph, self.said = graph, said
        self.known: dict[tuple[Individual, NounPhrase, int], TruthValue] = {}
        self.domains: dict[frozenset[str], list[Individual]] = {}
        self.things: list[Individual] = [
            (index, number) for index, entry in enumerate(graph.objects) for number in range(entry.count)
        ]

    def kind(self, thing: Individual) -> str:
        return "" if thing == PLACE else self.graph.objects[thing[0]].kind

    def clause(self, clause: Clause) -> TruthValue:
        predicate = clause.predicate or Conjunction(())
        if isinstance(clause.subject, Pronoun) and _is_about_place(predicate):
            return self.satisfies(PLACE, predicate, False)
        value = self._subject(clause.subject, predicate)
        return _not(value) if clause.negated else value

    def _subject(self, subject: Phrase, predicate: Predicate) -> TruthValue:
        if isinstance(subject, Coordination):
            return _all(self._subject(phrase, predicate) for phrase in subject.phrases)
        if isinstance(subject, Pronoun):
            return _agree(self._subject(phrase, predicate) for phrase in self.antecedents(subject))
        return self._quantified(subject, lambda thing: self.satisfies(thing, predicate, subject.plural))

    def _domain(self, phrase: NounPhrase) -> list[Individual]:
        if phrase.place:
            return [PLACE] if phrase.place == self.graph.place else []
        if phrase.kinds not in self.domains:
            self.domains[phrase.kinds] = [thing for thing in self.things if self.kind(thing) in phrase.kinds]
        return self.domains[phrase.kinds]

    def _quantified(self, phrase: NounPhrase, scope: Callable[[Individual], TruthValue]) -> TruthValue:
        domain = self._domain(phrase)
        limits = [self._restricted(thing, phrase) for thing in domain]
        each = list(zip(limits, domain, strict=True))
        if phrase.quantifier.every:
            enough = _check_quantifier(phrase.quantifier, limits)
            return _all((enough, _all(_any((_not(limit), scope(thing))) for limit, thing in each)))
        return _check_quantifier(
            phrase.quantifier, [limit is not False and _all((limit, scope(thing))) for limit, thing in each]
        )

    def _restricted(self, thing: Individual, phrase: NounPhrase) -> TruthValue:
        if not phrase.restrictions and not phrase.colour:
            return True
        key = (thing, phrase, len(self.said))
        if key not in self.known:
            self.known[key] = self._limits(thing, phrase)
        return self.known[key]

    def _limits(self, thing: Individual, phrase: NounPhrase) -> TruthValue:
        values = [self.satisfies(thing, part, phrase.plural) for part in phrase.restrictions]
        if phrase.colour:
            values.append(self._coloured(thing, phrase.colour))
        return _all(values)

    def _coloured(self, thing: Individual, colour: str) -> TruthValue:
        own = None if thing == PLACE else self.graph.objects[thing[0]].colour
        return None if own is None else own == colour

    def satisfies(self, thing: Individual, predicate: Predicate, plural: bool) -> TruthValue:
        match predicate:
            case Conjunction():
                return _all(self.satisfies(thing, part, plural) for part in predicate.predicates)
            case Negation():
                return _not(self.satisfies(thing, predicate.predicate, plural))
            case Setting():
                return self._setting(predicate.name)
            case ColourPredicate():
                return self._coloured(thing, predicate.colour)
            case NounPredicate():
                return self.kind(thing) in predicate.kinds
            case AlonePredicate():
                return self._alone(thing)
            case PrepositionalPhrase():
                return self._located(thing, predicate, plural)
            case VerbPhrase():
                return self._does(thing, predicate, plural)

    def _setting(self, name: str) -> TruthValue:
        place = self.graph.place
        if name in ("indoors", "outdoors"):
            return (place == "indoors") == (name == "indoors")
        if place == "indoors":
            return False if name == "night" else None
        return (place == "night") == (name == "night")

    def _alone(self, thing: Individual) -> TruthValue:
        groups = [read_kinds()[self.kind(other)].group for other in self.things if other != thing]
        return False if "people" in groups else None if "animals" in groups else True

    def _located(self, thing: Individual, predicate: PrepositionalPhrase, plural: bool) -> TruthValue:
        def holds(subject: Individual, landmark: Individual) -> TruthValue:
            return _TRUTH_VALUES[decide_position(self.graph, subject, predicate.preposition, landmark)]

        landmark = predicate.landmark
        if isinstance(landmark, NounPhrase) and landmark.place and landmark.place != self.graph.place:
            return _TRUTH_VALUES[decide_absent_place(SENSES[predicate.preposition])]
        if isinstance(landmark, NounPhrase) and predicate.preposition == "without":
            positive = replace(predicate, preposition="with")
            return _not(self._located(thing, positive, plural)) if landmark.kinds else True
        return self._related(thing, landmark, holds, plural)

    def _does(self, thing: Individual, predicate: VerbPhrase, plural: bool) -> TruthValue:
        def holds(subject: Individual, other: Individual) -> TruthValue:
            return self._acts(predicate.verb, *((other, subject) if predicate.passive else (subject, other)))

        if predicate.other is not None:
            return self._related(thing, predicate.other, holds, plural)
        if predicate.passive:
            return _any(self._acts(predicate.verb, other, thing) for other in self.things)
        return self._acts_alone(predicate.verb, thing)

    def _acts(self, verb: str, agent: Individual, theme: Individual) -> TruthValue:
        action = self.graph.action
        if action is None or action.theme is None or PLACE in (agent, theme):
            return False
        fits = (agent[0], theme[0]) == (action.agent, action.theme) and theme[1] in self.graph.theme_of(agent[1])
        if read_verbs()[action.verb].symmetric and (theme[0], agent[0]) == (action.agent, action.theme):
            fits = fits or agent[1] in self.graph.theme_of(theme[1])
        if not fits:
            return False
        return True if verb == action.verb else None if verb in read_verbs()[action.verb].vague else False

    def _acts_alone(self, verb: str, agent: Individual) -> TruthValue:
        action = self.graph.action
        seems = None if agent != PLACE and verb in read_kinds()[self.kind(agent)].seems else False
        if action is None or agent == PLACE:
            return seems
        entry = read_verbs()[action.verb]
        if agent[0] == action.agent or (entry.symmetric and agent[0] == action.theme):
            return True if verb == action.verb else None if verb in entry.vague else seems
        if agent[0] == action.theme and verb in entry.theme_seems:
            return None
        return seems

    def _related(
        self, thing: Individual, phrase: Phrase, holds: Callable[[Individual, Individual], TruthValue], plural: bool
    ) -> TruthValue:
        """Decide whether a thing stands in a relation to what a phrase speaks of.

        Two plurals are read cumulatively: two men ride two horses if each rides one. Where a plural subject meets a
        singular object, the readings must agree.
        """
        if isinstance(phrase, Coordination):
            return _all(self._related(thing, part, holds, plural) for part in phrase.phrases)
        if isinstance(phrase, Pronoun):
            others = (part for part in self.antecedents(phrase) if self.kind(thing) not in part.kinds)
            return _agree(self._related(thing, part, holds, plural) for part in others)
        each = self._quantified(phrase, lambda other: holds(thing, other))
        if not plural:
            return each
        fellows = [other for other in self.things if other[0] == thing[0]] or [thing]
        together = self._quantified(phrase, lambda other: _any(holds(fellow, other) for fellow in fellows))
        return together if phrase.plural or each == together else None

    def antecedents(self, pronoun: Pronoun) -> list[NounPhrase]:
        """Phrases said before that a pronoun may stand for, as definite ones."""
        found: list[NounPhrase] = []
        for phrase in self.said:
            fitting = frozenset(
                name for name in phrase.kinds if pronoun.plural or read_kinds()[name].pronoun == pronoun.word
            )
            if phrase.place or not fitting or phrase.plural != pronoun.plural:
                continue
            definite = replace(phrase, kinds=fitting, quantifier=Quantifier(1, every=pronoun.plural))
            if definite not in found:
                found.append(definite)
        return found


def _check_quantifier(quantifier: Quantifier, values: list[TruthValue]) -> TruthValue:
    return quantifier.check(values.count(True), len(values) - values.count(False))


def _agree(values: Iterable[TruthValue]) -> TruthValue:
    seen = set(values)
    return seen.pop() if len(seen) == 1 else None


def _is_about_place(predicate: Predicate) -> bool:
    if isinstance(predicate, Conjunction):
        return all(_is_about_place(part) for part in predicate.predicates)
    if isinstance(predicate, Negation):
        return _is_about_place(predicate.predicate)
    if isinstance(predicate, PrepositionalPhrase):
        return isinstance(predicate.landmark, NounPhrase) and bool(predicate.landmark.place)
    return isinstance(predicate, Setting)
