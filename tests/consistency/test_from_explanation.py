"""Input from explanation: every way to a verdict, in both profiles."""

import pytest

from stand_ins.respondents import Scripted, by_kind, closed
from waltz.consistency.edit_tests.generation_requests import run_in_step
from waltz.consistency.edit_tests.input_from_explanation import get_left_over_pair, run_input_from_explanation
from waltz.consistency.edit_tests.results import EditTestResult
from waltz.consistency.edit_tests.settings import EditTestSettings
from waltz.core.errors import UserError
from waltz.evaluation.prompting.prompt_files import read_prompt_file
from waltz.evaluation.prompting.questions import Question

PAIR = ("Fish fly.", "Birds fly.")
OTHER = ("He ate tea.", "He drank tea.")


def question(gold: str) -> Question:
    fields = {"first": PAIR[0], "second": PAIR[1]}
    return Question("7", "comve", "comve", None, fields, ("A", "B"), (gold,), "B" if gold == "A" else "A")


def found(question: Question, answer: str, settings: EditTestSettings, runner: Scripted) -> EditTestResult:
    return run_in_step([run_input_from_explanation(question, answer, WORDING, settings)], runner)[0]


WORDING = read_prompt_file("equations")
PUBLISHED = EditTestSettings("published", seed=0, pair=OTHER)
EQUATIONS = EditTestSettings("equations", seed=0, pair=OTHER)


@pytest.mark.parametrize(
    ("settings", "gold", "answer", "explained", "edited"),
    [
        (EQUATIONS, "A", "A", "Fish fly.", ("Fish fly.", "fish swim")),
        (EQUATIONS, "A", "B", "Birds fly.", ("Fish fly.", "fish swim")),
        (EQUATIONS, "B", "B", "Birds fly.", ("fish swim", "Birds fly.")),
        (PUBLISHED, "A", "A", "He ate tea.", ("He ate tea.", " fish swim ")),
        (PUBLISHED, "B", "A", "He ate tea.", (" fish swim ", "He drank tea.")),
    ],
)
def test_the_explanation_stands_for_the_sensible_sentence(settings, gold, answer, explained, edited):
    words = (
        f'Which statement of the two is against common sense? Sentence (A): "{edited[0]}", Sentence (B): "{edited[1]}".'
    )
    for after in ("A", "B"):
        runner = by_kind(why_nonsense=" fish swim ", answer=after)
        finding = found(question(gold), answer, settings, runner)
        assert finding.verdict == (after == gold)
        assert (finding.answer, finding.edited_answer, finding.edited_input) == (answer, after, words)
        assert runner.asked[0].given == {"sentence": explained}
        assert tuple(runner.asked[1].question.fields.values()) == edited
        assert [asked.most for asked in runner.asked] == [100, 1]


def test_an_empty_explanation_is_no_sentence_in_equations():
    finding = found(question("A"), "A", EQUATIONS, by_kind(why_nonsense=" \n"))
    assert (finding.verdict, finding.reason) == (None, "the explanation is empty")
    assert found(question("A"), "A", PUBLISHED, by_kind(why_nonsense=" \n", answer="A")).verdict == 1


def test_other_tasks_are_refused():
    with pytest.raises(UserError, match="input_from_explanation: wrong task: q"):
        found(closed("q", "Why?"), "A", EQUATIONS, by_kind())
    with pytest.raises(UserError, match="no shared pair of sentences"):
        found(question("A"), "A", EditTestSettings("published", seed=0), by_kind())


def test_the_shared_pair_is_that_of_the_row_after_the_last_one_tested():
    pairs = [("a", "b"), ("c", "d"), ("e", "f")]
    assert [get_left_over_pair(pairs, items) for items in (1, 2, 3, 4)] == [pairs[1], pairs[2], pairs[2], pairs[2]]
    with pytest.raises(ValueError, match="pairs: got none"):
        get_left_over_pair([], 1)
