"""Counterfactual edits: the explanation should mention an inserted word that changes the answer (thesis 5.2).

The test is of Atanasova et al., Faithfulness Tests for Natural Language Explanations (ACL 2023).
"""

import re
from dataclasses import replace

from waltz.consistency.edit_tests.answer_changes import check_unchanged
from waltz.consistency.edit_tests.edits import draw_edits
from waltz.consistency.edit_tests.generation_requests import TestSteps, draw_request_seed
from waltz.consistency.edit_tests.results import EditTestResult
from waltz.consistency.edit_tests.settings import EditTestSettings, Profile
from waltz.evaluation.prompting.questions import Question

NAME = "counterfactual_edits"


def run_counterfactual_edits(
    question: Question, text: str, answer: str, settings: EditTestSettings
) -> TestSteps[EditTestResult]:
    """Insert words until the answer changes, and look for the word in the explanation of the new answer.

    Args:
        question: The item.
        text: The text of the question.
        answer: The answer to the unedited question.
        settings: Profile, seed, positions and words.
    Returns:
        Consistent where no edit changes the answer, or the explanation names the word. The result describes the
        edit that changed the answer, else the first one tried, which does not depend on the number of words.
        Without a verdict, in `equations`, where there is nothing to edit.
    """
    seed = draw_request_seed(question.item_id, NAME, settings.seed)
    tried = draw_edits(text, settings.positions, settings.words, seed, settings.profile)
    every = [edit for place in tried for edit in place]
    if not every and settings.profile == "equations":
        return EditTestResult(None, answer, reason="there is no noun or verb to insert a word before")
    first: str | None = None
    for begin in range(0, len(every), settings.at_once):
        batch = every[begin : begin + settings.at_once]
        replies = yield [settings.request(NAME, question, "answer", input=edit.text) for edit in batch]
        first = replies[0] if first is None else first
        for edit, after in zip(batch, replies, strict=True):
            if (yield from check_unchanged(NAME, question, answer, after, settings)):
                continue
            (explanation,) = yield [settings.request(NAME, question, "post-hoc-edited", input=edit.text, answer=after)]
            named = contains_word(explanation, edit.word, settings.profile)
            return EditTestResult(
                verdict=int(named),
                answer=answer,
                edited_answer=after,
                reason=f"the explanation {'names' if named else 'does not name'} the inserted word",
                edited_input=edit.text,
                edited_explanation=explanation,
                inserted=edit.word,
                flipped=True,
            )
    result = EditTestResult(1, answer, edited_answer=first, reason=f"none of {len(every)} edits changes the answer")
    if not every:
        return result
    return replace(result, edited_input=every[0].text, inserted=every[0].word, flipped=False)


def contains_word(explanation: str, word: str, profile: Profile) -> bool:
    """Return whether an explanation contains a word.

    Args:
        explanation: The explanation.
        word: The inserted word.
        profile: `published` looks for the same letters anywhere, also inside another word; `equations` for the word,
            in any case.
    """
    if profile == "published":
        return word in explanation
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", explanation, re.IGNORECASE) is not None
