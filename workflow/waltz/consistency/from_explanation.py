"""Input from explanation: what explains why a sentence is nonsense ought to be sense itself (ComVE; thesis 5.2).

The test is of Atanasova et al., Faithfulness Tests for Natural Language Explanations (ACL 2023).
"""

from collections.abc import Callable, Sequence

from waltz.consistency.asking import Asking
from waltz.consistency.question import Finding, Question, Settings
from waltz.core.errors import UserError

NAME = "input_from_explanation"


def input_from_explanation(
    question: Question, answer: str, worded: Callable[[str, str], str], settings: Settings
) -> Asking[Finding]:
    """Put the explanation in the place of the sensible sentence and ask again which sentence is nonsense.

    Args:
        question: An item of ComVE, whose first label stands for the first sentence and whose gold label for the
            nonsensical one.
        answer: The answer to it as it is.
        worded: Words the question for two sentences.
        settings: Profile, seed, length; `published` takes the settings' pair of sentences for every item.
    Returns:
        Consistent where the new answer is the nonsensical sentence. Without a verdict, in `equations`, where the
        explanation is empty.
    Raises:
        UserError: The item has no two sentences and labels, or `published` is given no pair.
    """
    sentences = settings.pair if settings.profile == "published" else question.sentences
    if sentences is None or len(question.labels) != 2 or question.gold not in question.labels:
        missing = "the pair that all items share" if settings.profile == "published" else "two sentences and labels"
        raise UserError(f"item {question.item_id}: {NAME} lacks {missing}; run it on ComVE only")
    chosen = sentences[question.labels.index(answer)]
    (explanation,) = yield [settings.request(NAME, question, "nonsense", chosen)]
    if settings.profile == "equations":
        explanation = explanation.strip()
        if not explanation:
            return Finding(None, answer, reason="the explanation is empty", explanation=explanation)
    nonsense = question.labels.index(question.gold)
    edited = worded(sentences[0], explanation) if nonsense == 0 else worded(explanation, sentences[1])
    (after,) = yield [settings.request(NAME, question, "answer", edited)]
    return Finding(
        verdict=int(after == question.gold),
        answer=answer,
        edited_answer=after,
        reason=f"the explanation is taken for {'sense' if after == question.gold else 'nonsense'}",
        explanation=explanation,
        edited_input=edited,
    )


def shared_pair(pairs: Sequence[tuple[str, str]], items: int) -> tuple[str, str]:
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
