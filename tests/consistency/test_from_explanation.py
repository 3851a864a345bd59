"""Input from explanation: every way to a verdict, in both profiles."""

import pytest
from respondents import Scripted, by_kind

from waltz.consistency.asking import in_step
from waltz.consistency.from_explanation import input_from_explanation, shared_pair
from waltz.consistency.question import Finding, Question, Settings
from waltz.core.errors import UserError

PAIR = ("Fish fly.", "Birds fly.")
OTHER = ("He ate tea.", "He drank tea.")


def question(gold: str) -> Question:
    return Question("7", "Which is nonsense?", gold=gold, labels=("A", "B"), sentences=PAIR)


def worded(first: str, second: str) -> str:
    return f"(A) {first} (B) {second}"


def found(question: Question, answer: str, settings: Settings, respondent: Scripted) -> Finding:
    return in_step([input_from_explanation(question, answer, worded, settings)], respondent)[0]


PUBLISHED = Settings("published", seed=0, pair=OTHER)
EQUATIONS = Settings("equations", seed=0, pair=OTHER)


@pytest.mark.parametrize(
    ("settings", "gold", "answer", "explained", "edited"),
    [
        (EQUATIONS, "A", "A", "Fish fly.", "(A) Fish fly. (B) fish swim"),
        (EQUATIONS, "A", "B", "Birds fly.", "(A) Fish fly. (B) fish swim"),
        (EQUATIONS, "B", "B", "Birds fly.", "(A) fish swim (B) Birds fly."),
        (PUBLISHED, "A", "A", "He ate tea.", "(A) He ate tea. (B)  fish swim "),
        (PUBLISHED, "B", "A", "He ate tea.", "(A)  fish swim  (B) He drank tea."),
    ],
)
def test_the_explanation_stands_for_the_sensible_sentence(settings, gold, answer, explained, edited):
    for after in ("A", "B"):
        respondent = by_kind(nonsense=" fish swim ", answer=after)
        finding = found(question(gold), answer, settings, respondent)
        assert finding.verdict == (after == gold)
        assert (finding.answer, finding.edited_answer, finding.edited_input) == (answer, after, edited)
        assert respondent.asked[0].text == explained
        assert [asked.most for asked in respondent.asked] == [100, 1]


def test_an_empty_explanation_is_no_sentence_in_equations():
    finding = found(question("A"), "A", EQUATIONS, by_kind(nonsense=" \n"))
    assert (finding.verdict, finding.reason) == (None, "the explanation is empty")
    assert found(question("A"), "A", PUBLISHED, by_kind(nonsense=" \n", answer="A")).verdict == 1


def test_other_tasks_are_refused():
    with pytest.raises(UserError, match="item q: input_from_explanation lacks two sentences"):
        found(Question("q", "Why?", gold="x"), "x", EQUATIONS, by_kind())
    with pytest.raises(UserError, match="lacks the pair that all items share"):
        found(question("A"), "A", Settings("published", seed=0), by_kind())


def test_the_shared_pair_is_that_of_the_row_after_the_last_one_tested():
    pairs = [("a", "b"), ("c", "d"), ("e", "f")]
    assert [shared_pair(pairs, items) for items in (1, 2, 3, 4)] == [pairs[1], pairs[2], pairs[2], pairs[2]]
    with pytest.raises(ValueError, match="no rows"):
        shared_pair([], 1)
