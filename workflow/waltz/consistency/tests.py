"""All self-consistency tests of an item, and their rows."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from waltz.consistency import biasing, counterfactual, from_explanation, reasoning
from waltz.consistency.asking import Asking, Respondent, in_step, together, witnessed
from waltz.consistency.question import Finding, Question, Settings, Tested, Unedited, unedited
from waltz.core.errors import UserError

Worded = Callable[[str, str], str]

BEGUN: dict[str, Callable[[Question, Unedited, Settings, Worded], Asking[Finding]]] = {
    counterfactual.NAME: lambda question, before, settings, worded: counterfactual.counterfactual_edits(
        question, before.answer, settings
    ),
    from_explanation.NAME: lambda question, before, settings, worded: from_explanation.input_from_explanation(
        question, before.answer, worded, settings
    ),
    biasing.NAME: lambda question, before, settings, worded: biasing.biasing_features(question, before, settings),
    reasoning.EARLY_ANSWERING: lambda question, before, settings, worded: reasoning.early_answering(
        question, before, settings
    ),
    reasoning.FILLER_TOKENS: lambda question, before, settings, worded: reasoning.filler_tokens(
        question, before, settings
    ),
    reasoning.ADDING_MISTAKES: lambda question, before, settings, worded: reasoning.adding_mistakes(
        question, before, settings
    ),
    reasoning.PARAPHRASING: lambda question, before, settings, worded: reasoning.paraphrasing(
        question, before, settings
    ),
}
"""The tests by name, in the order of thesis Table 5.2."""


def of_item(question: Question, tests: Sequence[str], settings: Settings, worded: Worded) -> Asking[list[Tested]]:
    """The tests of one item: first it is asked as it is, then all tests advance in step.

    Args:
        question: The item.
        tests: Names in `BEGUN`.
        settings: Profile, seed, lengths.
        worded: Words ComVE's question for two sentences.
    Raises:
        UserError: A test is unknown.
    """
    unknown = next((test for test in tests if test not in BEGUN), None)
    if unknown is not None:
        raise UserError(f"consistency: there is no test {unknown}; there are {', '.join(BEGUN)}")
    before, first = yield from witnessed(unedited(question, settings))
    running = [witnessed(BEGUN[test](question, before, settings, worded)) for test in tests]
    found = yield from together(running)
    return [
        Tested(question.item_id, test, finding, settings.seed, (*first, *exchanges))
        for test, (finding, exchanges) in zip(tests, found, strict=True)
    ]


def of_items(
    questions: Sequence[Question], tests: Sequence[str], settings: Settings, worded: Worded, respondent: Respondent
) -> list[Tested]:
    """The tests of several items, whose requests are answered together; an item's rows do not hang on the others.

    Args:
        questions: The items.
        tests: Names in `BEGUN`.
        settings: Profile, seed, lengths.
        worded: Words ComVE's question for two sentences.
        respondent: The model and its helper.
    """
    found = in_step([of_item(question, tests, settings, worded) for question in questions], respondent)
    return [tested for item in found for tested in item]


def row(tested: Tested) -> dict[str, Any]:
    """The columns of a finding: those of `Finding`, the score, and the exchanges, of which each text is given.

    Args:
        tested: A finding.
    Returns:
        item_id, test, verdict, score (the verdict as a float), answer, edited_answer, reason, explanation,
        edited_input, edited_explanation, inserted, seed, and exchanges: kind, seed, reply, and `given`, the rest of
        the request as JSON.
    """
    finding = tested.finding
    return {
        "item_id": tested.item_id,
        "test": tested.test,
        **asdict(finding),
        "score": None if finding.verdict is None else float(finding.verdict),
        "seed": tested.seed,
        "exchanges": [
            {
                "kind": exchange.request.kind,
                "seed": exchange.request.seed,
                "given": json.dumps(
                    {
                        name: value
                        for name, value in asdict(exchange.request).items()
                        if name not in ("kind", "seed", "item_id") and value != ""
                    },
                    ensure_ascii=False,
                    sort_keys=True,
                ),
                "reply": exchange.reply,
            }
            for exchange in tested.exchanges
        ],
    }
