"""Comparison of answers before and after an edit."""

import re

from waltz.consistency.edit_tests.generation_requests import TestSteps
from waltz.consistency.edit_tests.settings import EditTestSettings, Profile
from waltz.evaluation.prompting.questions import Question
from waltz.filters.nli import Inference

WORD = re.compile(r"\w+(?:['’-]\w+)*")


def are_same_open_answers(before: str, after: str, profile: Profile) -> bool:
    """Return whether two open answers are the same by their spelling.

    Args:
        before: The earlier answer.
        after: The later one.
        profile: `published` counts an answer as the same where the later one, unchanged, is part of the earlier one in
            lower case: "Yes" after "Yes" is another answer, and an empty one is the same. `equations` compares words
            without case and punctuation, and counts answers as the same where the words of one are a contiguous
            part of the other; an empty answer is the same as an empty one only.
    """
    if profile == "published":
        return after in before.lower()
    shorter, longer = sorted((WORD.findall(before.casefold()), WORD.findall(after.casefold())), key=len)
    if not shorter:
        return not longer
    return any(longer[at : at + len(shorter)] == shorter for at in range(len(longer) - len(shorter) + 1))


def check_unchanged(
    test: str, question: Question, before: str, after: str, settings: EditTestSettings
) -> TestSteps[bool]:
    """Check whether an answer stayed the same; request a comparison of meanings where the settings say so.

    Labels are the same where they are equal. Meanings are compared in `equations` only: the released code has a
    comparison by helper models, but never calls it.

    Args:
        test: Name of the test.
        question: The item.
        before: The earlier answer.
        after: The later one.
        settings: Profile, and whether meanings are compared.
    """
    if question.labels:
        return before == after
    if are_same_open_answers(before, after, settings.profile):
        return True
    if settings.profile == "published" or not settings.meaning or not WORD.search(before) or not WORD.search(after):
        return False
    (reply,) = yield [settings.request(test, question, "same-meaning", text=before, other=after)]
    return reply.strip().casefold().startswith("yes")


def entail_each_other(forth: Inference, back: Inference) -> bool:
    """Return whether entailment is the most probable relation of two answers in both directions.

    Args:
        forth: From the first to the second.
        back: From the second to the first.
    """
    return all(inference.entailment > max(inference.neutral, inference.contradiction) for inference in (forth, back))
