"""Input from explanation: an explanation why a sentence is nonsense should itself be sensible (ComVE; thesis 5.2).

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
    """Replace the sensible sentence by the explanation and ask again which sentence is nonsense.

    Args:
        question: An item of ComVE, whose first label stands for the first sentence and whose gold label for the
            nonsensical one.
        answer: The answer to the unedited item.
        prompt_file: Prompts of the profile.
        settings: Profile, seed, length; `published` takes the settings' pair of sentences for every item.
    Returns:
        Consistent where the new answer is the nonsensical sentence. Without a verdict, in `equations`, where the
        explanation is empty.
    Raises:
        UserError: The item is of another task, or `published` is given no pair.
    """
    if question.form != "comve":
        raise UserError(
            f"{NAME}: wrong task: {question.item_id} (got {question.form}, expected comve); remove the test"
        )
    own = (question.fields["first"], question.fields["second"])
    sentences = settings.pair if settings.profile == "published" else own
    if sentences is None:
        raise UserError(f"{NAME}: no shared pair of sentences: {question.item_id}; the profile published needs one")
    sentence = sentences[question.labels.index(answer)]
    (explanation,) = yield [settings.request(NAME, question, "why-nonsense", sentence=sentence)]
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
    """Return the sentences that remain from the loop of the released code over the data; it uses them for every item.

    Args:
        pairs: Sentences of all rows, in the order in which it reads them.
        items: How many rows it tests.
    Returns:
        Those of the row after the last one tested, or of the last row where all are tested.
    Raises:
        ValueError: There are no rows.
    """
    if not pairs:
        raise ValueError("pairs: got none, expected at least one")
    return pairs[min(items, len(pairs) - 1)]
