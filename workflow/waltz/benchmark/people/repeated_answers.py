"""Answers of a platform that come more than once: the same record in two files, a person under two
names, and second answers of one person.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from waltz.benchmark.people.tasks import PlatformAnswer
from waltz.core.errors import UserError

REPLACED = "replaced by a later answer of the annotator"


def unify_annotators(answers: Iterable[PlatformAnswer]) -> list[PlatformAnswer]:
    """Name each annotator by one key, where some answers have a second key of the same person.

    Raises:
        UserError: A key belongs to two people, or some keys are numbers and some e-mail addresses,
            and no answer says which belong together.
    """
    answers = list(answers)
    names: dict[str, str] = {}
    second_keys: dict[str, str] = {}
    for answer in answers:
        if not answer.second_key:
            continue
        names.setdefault(answer.second_key, answer.annotator)
        second_key = second_keys.setdefault(answer.annotator, answer.second_key)
        if second_key != answer.second_key:
            raise UserError(
                f"{answer.location}: annotator {answer.annotator!r} is {second_key!r} and {answer.second_key!r}; import"
                " the exports of each server by themselves"
            )
    unified = []
    for answer in answers:
        # One address may have a number on each server.
        second_key = second_keys.get(answer.annotator, answer.annotator)
        annotator = names.get(second_key, answer.annotator)
        unified.append(replace(answer, annotator=annotator))
    _check_forms(unified, second_keys)
    return unified


def _check_forms(
    answers: Iterable[PlatformAnswer], second_keys: Mapping[str, str]
) -> None:
    """Raise an error where one person may be a number in some answers and an address in others."""
    numbers: dict[str, str] = {}
    addresses: dict[str, str] = {}
    for answer in answers:
        if answer.annotator in second_keys:
            continue
        if answer.annotator.isdecimal():
            numbers[answer.annotator] = answer.location
        elif "@" in answer.annotator:
            addresses[answer.annotator] = answer.location
    if numbers and addresses:
        number, location = next(iter(numbers.items()))
        address, other_location = next(iter(addresses.items()))
        raise UserError(
            f"{location}: annotator {number!r} may be {address!r} of {other_location}; export both in one form, such"
            " as Label Studio's JSON"
        )


def select_latest_answers(
    answers: Iterable[PlatformAnswer],
) -> tuple[list[PlatformAnswer], list[PlatformAnswer]]:
    """Keep one answer of each annotator to each task.

    A record that comes twice with the same content is one record. Of two answers of an annotator,
    the one counts that replaces the other, or the later one.

    Returns:
        The answers, among them all that are skipped already; and those that a later one replaces.

    Raises:
        UserError: Two answers of an annotator do not say which one is later.
    """
    answers_by_person: dict[tuple[str, str], list[PlatformAnswer]] = defaultdict(list)
    selected: list[PlatformAnswer] = []
    for answer in _drop_repeated_records(answers):
        if answer.reason:
            selected.append(answer)
        else:
            answers_by_person[answer.task, answer.annotator].append(answer)
    replaced: list[PlatformAnswer] = []
    for answers_of_person in answers_by_person.values():
        latest = _find_latest(answers_of_person)
        selected.append(latest)
        for answer in answers_of_person:
            if answer is not latest:
                replaced.append(replace(answer, answer="", reason=REPLACED))
    return selected, replaced


def _drop_repeated_records(answers: Iterable[PlatformAnswer]) -> list[PlatformAnswer]:
    """Keep each record once, in its latest state.

    Raises:
        UserError: A record comes with two contents, and neither is later.
    """
    unnamed: list[PlatformAnswer] = []
    # Platforms, and servers of one platform, may give two tasks the same id.
    records: dict[tuple[str, str, str], PlatformAnswer] = {}
    for answer in answers:
        if not answer.record:
            unnamed.append(answer)
            continue
        key = (answer.task, answer.annotator, answer.record)
        first = records.setdefault(key, answer)
        if (first.answer, first.reason) != (answer.answer, answer.reason):
            records[key] = _find_latest([first, answer])
    return [*records.values(), *unnamed]


def _find_latest(answers: Sequence[PlatformAnswer]) -> PlatformAnswer:
    """Return the answer that replaces the others, or the one of the latest time.

    Raises:
        UserError: Neither a reference nor the times say which one it is.
    """
    replaced = {answer.replaces for answer in answers if answer.replaces}
    remaining = [answer for answer in answers if answer.record not in replaced]
    if len(remaining) == 1:
        return remaining[0]
    times = [answer.time for answer in remaining if answer.time is not None]
    if len(times) == len(remaining) and times:
        latest = max(times)
        if times.count(latest) == 1:
            return remaining[times.index(latest)]
    first, second = answers[:2]
    raise UserError(
        f"{second.location}: annotator {second.annotator!r} answered task {second.task!r}"
        f" twice, before at {first.location}; remove one of the answers"
    )
