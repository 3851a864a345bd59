"""Whether an answer stayed the same."""

import re

from waltz.consistency.edit_tests.generation_requests import TestSteps
from waltz.consistency.edit_tests.settings import EditTestSettings, Profile
from waltz.evaluation.prompting.questions import Question
from waltz.filters.nli import Inference

WORD = re.compile(r"\w+(?:['’-]\w+)*")


def are_same_open_answers(before: str, after: str, profile: Profile) -> bool:
    """Whether two open answers are the same, as far as their letters tell.

    Args:
        before: The earlier answer.
        after: The later one.
        profile: `published` takes an answer for the same where the later one, as it is, is part of the earlier one in
            lower case: "Yes" after "Yes" is another answer, and an empty one is the same. `equations` compares words
            without case and punctuation, and takes one answer for the same as the other where its words stand in the
            other one after one another; an empty answer is the same as an empty one only.
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
    """Whether an answer stayed the same; asks what two open answers mean where the settings say so.

    Labels are the same where they are equal. The check of meaning is of `equations` only: the released code has one
    for helper models, which it never calls.

    Args:
        test: The test that asks.
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
    """Whether two answers entail each other: in both directions entailment is the likeliest of the three relations.

    Args:
        forth: From the first to the second.
        back: From the second to the first.
    """
    return all(found.entailment > max(found.neutral, found.contradiction) for found in (forth, back))
