"""Oracle that decides the truth of a sentence about a scene, as far as the scene determines it.

A sentence is true if one of its readings is true, and false if all its readings are false.
Otherwise, and if it lies outside the grammar, it is unknown. Bare numerals mean an exact number;
`some`, `a number of` and a bare plural mean two or more.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import repeat
from typing import Literal

from waltz.scenes.arrangements import PLACE, Individual, acts_on, decide_position
from waltz.scenes.graph import Graph
from waltz.scenes.language.grammar import (
    AlonePredicate,
    Clause,
    ColorPredicate,
    Conjunction,
    Coordination,
    Negation,
    NounPredicate,
    Phrase,
    Predicate,
    PrepositionalPhrase,
    Pronoun,
    QuantifiedPhrase,
    Setting,
    VerbPhrase,
    list_noun_phrases,
    read_answered_question,
    read_sentence,
    split_statements,
)
from waltz.scenes.language.words import Quantifier, tokenize
from waltz.scenes.lexicon import SceneVerb, read_kinds
from waltz.scenes.three_valued import (
    TruthValue,
    conjoin,
    disjoin,
    negate,
    require_agreement,
)

Truth = Literal["true", "false", "unknown"]

TRUTHS: dict[TruthValue, Truth] = {True: "true", False: "false", None: "unknown"}

OUTDOORS_BY_DAY: dict[str, TruthValue] = {
    "indoors": False,
    "outdoors": True,
    "night": False,
    "day": True,
}
"""Truth of each setting at all places that `SETTING_VALUES` lacks."""
SETTING_VALUES: dict[str, dict[str, TruthValue]] = {
    # Whether it is day cannot be seen in a room.
    "indoors": {"indoors": True, "outdoors": False, "night": False, "day": None},
    "night": {"indoors": False, "outdoors": True, "night": True, "day": False},
}
"""Truth of each setting, by place."""

SENSES_OF_DISTANCE = ("off", "out of", "far", "without")
"""Senses that may be true of a landmark outside the picture."""

Reading = tuple[tuple[Clause, list[QuantifiedPhrase]], ...]
"""Clauses of one reading, joined by `and`, each with the noun phrases that it mentions."""


def decide_truth(graph: Graph, sentence: str) -> Truth:
    """Return whether a sentence, or a dialogue of statements and answered questions, is true of a
    scene.

    Args:
        graph: The scene.
        sentence: Statements, each question followed by its answer (yes, no, a number or a color).
    Returns:
        `true`, `false`, or `unknown` where the scene or the grammar does not decide it.
    """
    mentioned: list[QuantifiedPhrase] = []
    values: list[TruthValue] = []
    for readings, answer in _parse_sentence(sentence):
        if not readings:
            values.append(None)
            continue
        value = disjoin(
            _decide_reading(graph, reading, mentioned) for reading in readings
        )
        if answer == "no":  # what `no` answers is said to be false
            value = negate(value)
        values.append(value)
        for _, phrases in readings[0]:
            mentioned += phrases

    if not values:
        return "unknown"  # a text without a word says nothing
    return TRUTHS[conjoin(values)]


def is_in_grammar(sentence: str) -> bool:
    """Return True if the oracle can parse a sentence at all."""
    statements = _parse_sentence(sentence)
    return bool(statements) and all(readings for readings, _ in statements)


@lru_cache(maxsize=4096)
def _parse_sentence(sentence: str) -> list[tuple[list[Reading], str | None]]:
    """Return for each statement or question its readings and the answer to the question."""
    statements = []
    for words, answer in split_statements(tokenize(sentence)):
        if answer is None:
            readings = read_sentence(words)
        else:
            readings = read_answered_question(words, answer)
        with_phrases = []
        for clauses in readings:
            reading = tuple((clause, list_noun_phrases(clause)) for clause in clauses)
            with_phrases.append(reading)
        statements.append((with_phrases, answer))
    return statements


def _decide_reading(
    graph: Graph, reading: Reading, mentioned: list[QuantifiedPhrase]
) -> TruthValue:
    """Return the truth of a reading; its pronouns refer to earlier sentences and to earlier
    clauses.
    """
    evaluator = _Evaluator(graph, list(mentioned))
    values = []
    for clause, phrases in reading:
        values.append(evaluator.decide_clause(clause))
        evaluator.mentioned.extend(phrases)
    return conjoin(values)


class _Evaluator:
    """Decide clauses about one scene, with the noun phrases to which pronouns can refer."""

    def __init__(self, graph: Graph, mentioned: list[QuantifiedPhrase]) -> None:
        self.graph, self.mentioned = graph, mentioned
        self.restriction_values: dict[
            tuple[Individual, QuantifiedPhrase, int], TruthValue
        ] = {}
        self.domains: dict[frozenset[str], list[Individual]] = {}
        self.individuals: list[Individual] = []
        for index, entry in enumerate(graph.objects):
            self.individuals += zip(repeat(index), range(entry.count))

    def get_kind(self, individual: Individual) -> str:
        if individual == PLACE:
            return ""
        return self.graph.objects[individual[0]].kind

    def decide_clause(self, clause: Clause) -> TruthValue:
        # `It is at night.`, `This is a beach.`: the pronoun stands for the place.
        if isinstance(clause.subject, Pronoun) and _is_about_place(clause.predicate):
            return self.decide_predicate(PLACE, clause.predicate, False)

        def decide_subject(subject: QuantifiedPhrase) -> TruthValue:
            return self.decide_quantified(
                subject,
                lambda individual: self.decide_predicate(
                    individual, clause.predicate, subject.plural
                ),
            )

        value = self.decide_referents(clause.subject, decide_subject)
        if clause.negated:
            return negate(value)
        return value

    def decide_referents(
        self,
        phrase: Phrase,
        decide: Callable[[QuantifiedPhrase], TruthValue],
        other_kind: str = "",
    ) -> TruthValue:
        """Decide a claim about a phrase: about all its conjuncts, or the antecedents of a pronoun.

        Args:
            phrase: The phrase.
            decide: Function that decides the claim about one noun phrase.
            other_kind: Kind to which a pronoun cannot refer, as it would then be `itself`.
        """
        if isinstance(phrase, Coordination):
            return conjoin(
                self.decide_referents(part, decide, other_kind)
                for part in phrase.phrases
            )
        if isinstance(phrase, QuantifiedPhrase):
            return decide(phrase)
        # A pronoun with several antecedents is decided if they all agree.
        antecedents = self.find_antecedents(phrase)
        return require_agreement(
            decide(antecedent)
            for antecedent in antecedents
            if other_kind not in antecedent.kinds
        )

    def decide_quantified(
        self, phrase: QuantifiedPhrase, scope: Callable[[Individual], TruthValue]
    ) -> TruthValue:
        """Return whether the scope holds for the number of individuals that a phrase's quantifier
        asks for.

        Args:
            phrase: Noun phrase, whose restrictions an individual must fulfill.
            scope: Function that decides whether the sentence's claim is true of an individual.
        """
        # Whether an individual is meant by the phrase, and whether it is also in the scope.
        meant: list[TruthValue] = []
        in_scope: list[TruthValue] = []
        implications: list[TruthValue] = []  # meant individuals are in the scope
        for individual in self.list_individuals(phrase):
            is_meant = self.decide_restrictions(individual, phrase)
            value: TruthValue = False
            if is_meant is not False:
                value = scope(individual)
            meant.append(is_meant)
            in_scope.append(conjoin((is_meant, value)))
            implications.append(disjoin((negate(is_meant), value)))

        if not phrase.quantifier.every:
            return _check_quantifier(phrase.quantifier, in_scope)
        # There are enough individuals that are meant, and each of them is in the scope.
        is_number_right = _check_quantifier(phrase.quantifier, meant)
        return conjoin((is_number_right, conjoin(implications)))

    def list_individuals(self, phrase: QuantifiedPhrase) -> list[Individual]:
        """Return the individuals of a phrase's kinds, or the place that it names."""
        if phrase.place == self.graph.place:
            return [PLACE]
        if phrase.place:
            return []  # another place
        if phrase.kinds not in self.domains:
            domain = [
                individual
                for individual in self.individuals
                if self.get_kind(individual) in phrase.kinds
            ]
            self.domains[phrase.kinds] = domain
        return self.domains[phrase.kinds]

    def decide_restrictions(
        self, individual: Individual, phrase: QuantifiedPhrase
    ) -> TruthValue:
        if not phrase.restrictions and not phrase.color:
            return True
        # What a pronoun in a restriction refers to changes with what has been mentioned.
        key = (individual, phrase, len(self.mentioned))
        if key not in self.restriction_values:
            values = [
                self.decide_predicate(individual, part, phrase.plural)
                for part in phrase.restrictions
            ]
            if phrase.color:
                values.append(self.decide_color(individual, phrase.color))
            self.restriction_values[key] = conjoin(values)
        return self.restriction_values[key]

    def decide_predicate(
        self, individual: Individual, predicate: Predicate, plural: bool
    ) -> TruthValue:
        match predicate:
            case Conjunction():
                return conjoin(
                    self.decide_predicate(individual, part, plural)
                    for part in predicate.predicates
                )
            case Negation():
                return negate(
                    self.decide_predicate(individual, predicate.predicate, plural)
                )
            case Setting():
                settings = SETTING_VALUES.get(self.graph.place, OUTDOORS_BY_DAY)
                return settings[predicate.name]
            case ColorPredicate():
                return self.decide_color(individual, predicate.color)
            case NounPredicate():
                return self.get_kind(individual) in predicate.kinds
            case AlonePredicate():
                return self.decide_alone(individual)
            case PrepositionalPhrase():
                return self.decide_prepositional_phrase(individual, predicate, plural)
            case VerbPhrase():
                return self.decide_verb_phrase(individual, predicate, plural)

    def decide_color(self, individual: Individual, color: str) -> TruthValue:
        """Decide the color of an individual; unknown where its kind is drawn in one color only."""
        if individual == PLACE:
            return None
        shown = self.graph.objects[individual[0]].color
        if shown is None:
            return None
        return shown == color

    def decide_alone(self, individual: Individual) -> TruthValue:
        """Decide whether nobody else is there; unknown where only animals are."""
        neighbors = set(self.individuals) - {individual}
        groups = {read_kinds()[self.get_kind(neighbor)].group for neighbor in neighbors}
        if "people" in groups:
            return False
        if "animals" in groups:
            return None
        return True

    def decide_prepositional_phrase(
        self, individual: Individual, predicate: PrepositionalPhrase, plural: bool
    ) -> TruthValue:
        sense, landmark = predicate.sense, predicate.landmark
        if isinstance(landmark, QuantifiedPhrase):
            # `in the snow`, said of a scene on the beach: false, but one may be far from the snow
            # there.
            if landmark.place not in ("", self.graph.place):
                return None if sense in SENSES_OF_DISTANCE else False
            if sense == "without":
                return self.decide_without(individual, landmark, plural)

        def holds(subject: Individual, partner: Individual) -> TruthValue:
            return decide_position(self.graph, subject, sense, partner)

        return self.decide_relation(individual, landmark, holds, plural)

    def decide_without(
        self, individual: Individual, landmark: QuantifiedPhrase, plural: bool
    ) -> TruthValue:
        if not landmark.kinds:
            return True  # nothing is drawn with what is never drawn
        positive = PrepositionalPhrase("with", landmark)
        return negate(self.decide_prepositional_phrase(individual, positive, plural))

    def decide_verb_phrase(
        self, individual: Individual, predicate: VerbPhrase, plural: bool
    ) -> TruthValue:
        def holds(subject: Individual, partner: Individual) -> TruthValue:
            if predicate.passive:
                return self.decide_action(predicate.verb, agent=partner, theme=subject)
            return self.decide_action(predicate.verb, agent=subject, theme=partner)

        # `is ridden by a man` and `rides a horse`; `is ridden`; `sleeps`.
        if predicate.argument is not None:
            return self.decide_relation(individual, predicate.argument, holds, plural)
        if predicate.passive:
            return disjoin(holds(individual, partner) for partner in self.individuals)
        return self.decide_intransitive(predicate.verb, individual)

    def decide_action(
        self, verb: str, agent: Individual, theme: Individual
    ) -> TruthValue:
        if self.graph.event is None:
            return False
        shown = self.graph.event.verb
        is_pair = acts_on(self.graph, agent, theme)
        if shown.symmetric:
            is_pair = is_pair or acts_on(self.graph, theme, agent)
        if not is_pair:
            return False
        return _decide_verb(shown, verb)

    def decide_intransitive(self, verb: str, agent: Individual) -> TruthValue:
        """Decide a verb without an object, such as `is eating`.

        If the scene's action does not make it true, it is unknown if the sprite seems to show it,
        else false.
        """
        if agent == PLACE:
            return False
        seems: TruthValue = False
        if verb in read_kinds()[self.get_kind(agent)].seems:
            seems = None
        action, event = self.graph.action, self.graph.event
        if action is None or event is None:
            return seems
        shown = event.verb

        is_agent, is_theme = agent[0] == action.agent, agent[0] == action.theme
        if is_agent or (is_theme and shown.symmetric):
            value = _decide_verb(shown, verb)
            if value is not False:
                return value
            return seems
        if is_theme and verb in shown.theme_seems:
            return None
        return seems

    def decide_relation(
        self,
        individual: Individual,
        phrase: Phrase,
        holds: Callable[[Individual, Individual], TruthValue],
        plural: bool,
    ) -> TruthValue:
        """Decide the relation of an individual to the referents of a phrase.

        Two plurals are read cumulatively: two men ride two horses if each man rides one. With a
        plural subject and a singular object, the readings must agree.
        """

        def decide_partner(partners: QuantifiedPhrase) -> TruthValue:
            return self.decide_partners(individual, partners, holds, plural)

        return self.decide_referents(phrase, decide_partner, self.get_kind(individual))

    def decide_partners(
        self,
        individual: Individual,
        phrase: QuantifiedPhrase,
        holds: Callable[[Individual, Individual], TruthValue],
        plural: bool,
    ) -> TruthValue:
        # Distributive: each individual of the subject stands in the relation.
        distributive = self.decide_quantified(
            phrase, lambda partner: holds(individual, partner)
        )
        if not plural:
            return distributive
        # Collective: the individuals of the subject stand in it together.
        fellows = [
            fellow for fellow in self.individuals if fellow[0] == individual[0]
        ] or [individual]
        collective = self.decide_quantified(
            phrase,
            lambda partner: disjoin(holds(fellow, partner) for fellow in fellows),
        )
        if phrase.plural or distributive == collective:
            return collective
        return None

    def find_antecedents(self, pronoun: Pronoun) -> list[QuantifiedPhrase]:
        """Return the preceding noun phrases to which a pronoun may refer, as definite noun phrases."""
        antecedents: list[QuantifiedPhrase] = []
        definite = Quantifier(1, every=pronoun.plural)
        for phrase in self.mentioned:
            if phrase.place or phrase.plural != pronoun.plural:
                continue
            kinds = phrase.kinds
            if not pronoun.plural:
                kinds = frozenset(
                    name for name in kinds if read_kinds()[name].pronoun == pronoun.word
                )
            if kinds:
                antecedents.append(replace(phrase, kinds=kinds, quantifier=definite))
        return list(dict.fromkeys(antecedents))


def _decide_verb(shown: SceneVerb, verb: str) -> TruthValue:
    """Return whether the picture of one verb shows another verb; unknown for verbs that look alike."""
    if verb == shown.name:
        return True
    if verb in shown.vague:
        return None
    return False


def _check_quantifier(quantifier: Quantifier, values: list[TruthValue]) -> TruthValue:
    """Return whether the number of true values fits a quantifier.

    Unknown values may be true, so the number lies between the count of true values and the count of
    not false values.
    """
    n_true = values.count(True)
    n_possible = len(values) - values.count(False)
    return quantifier.check(n_true, n_possible)


def _is_about_place(predicate: Predicate) -> bool:
    """Return whether a predicate is about the place of the scene, as `is at night` and `is on a
    beach`.
    """
    match predicate:
        case Conjunction():
            return all(_is_about_place(part) for part in predicate.predicates)
        case Negation():
            return _is_about_place(predicate.predicate)
        case PrepositionalPhrase():
            return isinstance(predicate.landmark, QuantifiedPhrase) and bool(
                predicate.landmark.place
            )
        case _:
            return isinstance(predicate, Setting)


VOTER = "oracle"
"""Name of the oracle in the column `voter`."""
Vote = Literal["caption", "foil", "both", "neither", "cannot tell"]


def cast_vote(graph: Graph, caption: str, foil: str) -> Vote:
    """Return the oracle's vote, instead of a human validator's, on which of two texts describes a
    scene.
    """
    caption_truth, foil_truth = decide_truth(graph, caption), decide_truth(graph, foil)
    if "unknown" in (caption_truth, foil_truth):
        return "cannot tell"
    votes: dict[tuple[Truth, Truth], Vote] = {
        ("true", "true"): "both",
        ("true", "false"): "caption",
        ("false", "true"): "foil",
        ("false", "false"): "neither",
    }
    return votes[caption_truth, foil_truth]
