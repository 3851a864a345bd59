"""Input from explanation: what explains why a sentence is nonsense ought to be sense itself (ComVE; thesis 5.2).

The test is of Atanasova et al., Faithfulness Tests for Natural Language Explanations (ACL 2023).
"""

from collections.abc import Sequence
from dataclasses import replace

from waltz.consistency.edit_tests.generation_requests import TestSteps
from waltz.consistency.edit_tests.results import EditTestResult
from waltz.consistency.edit_tests.settings import EditTestSettings
from waltz.core.errors import UserError
from waltz.evaluation.prompting.prompt_files import PromptFile
from waltz.evaluation.prompting.prompts import render_question
from waltz.evaluation.prompting.questions import Question

NAME = "input_from_explanation"


def run_input_from_explanation(
    question: Question, answer: str, prompt_file: PromptFile, settings: EditTestSettings
) -> TestSteps[EditTestResult]:
    """Put the explanation in the place of the sensible sentence and ask again which sentence is nonsense.

    Args:
        question: An item of ComVE, whose first label stands for the first sentence and whose gold label for the
            nonsensical one.
        answer: The answer to it as it is.
        prompt_file: How the question is put into words.
        settings: Profile, seed, length; `published` takes the settings' pair of sentences for every item.
    Returns:
        Consistent where the new answer is the nonsensical sentence. Without a verdict, in `equations`, where the
        explanation is empty.
    Raises:
        UserError: The item is of another task, or `published` is given no pair.
    """
    if question.form != "comve":
        raise UserError(f"{question.item_id}: {NAME} is a test of ComVE, not of {question.form}; leave it out there")
    own = (question.fields["first"], question.fields["second"])
    sentences = settings.pair if settings.profile == "published" else own
    if sentences is None:
        raise UserError(f"{question.item_id}: {NAME} lacks the pair that all items share in the profile published")
    chosen = sentences[question.labels.index(answer)]
    (explanation,) = yield [settings.request(NAME, question, "why-nonsense", sentence=chosen)]
    if settings.profile == "equations":
        explanation = explanation.strip()
        if not explanation:
            return EditTestResult(None, answer, reason="the explanation is empty", explanation=explanation)
    (gold,) = question.gold
    fields = dict(zip(("first", "second"), sentences, strict=True))
    fields["second" if gold == question.labels[0] else "first"] = explanation
    edited = replace(question, fields=fields)
    (after,) = yield [settings.request(NAME, edited, "answer")]
    return EditTestResult(
        verdict=int(after == gold),
        answer=answer,
        edited_answer=after,
        reason=f"the explanation is taken for {'sense' if after == gold else 'nonsense'}",
        explanation=explanation,
        edited_input=render_question(edited, prompt_file)[0],
    )


def get_left_over_pair(pairs: Sequence[tuple[str, str]], items: int) -> tuple[str, str]:
    """The sentences that the released code has left over from its loop over the data, and uses for every item.

    Args:
        pairs: Sentences of all rows, in the order in which it reads them.
        items: How many rows it tests.
    Returns:
        Those of the row after the last one tested, or of the last row where all are tested.
    Raises:
        ValueError: There are no rows.
    """
    if not pairs:
        raise ValueError("there are no rows that a pair could be left over from")
    return pairs[min(items, len(pairs) - 1)]
