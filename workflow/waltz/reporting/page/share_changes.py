"""Sentences about the share of text in answers and in their explanations (thesis 5.6.2)."""

from collections.abc import Callable, Iterable, Sequence

from waltz.consistency.differences import (
    COT_LESS_POST_HOC,
    EXPLANATION_LESS_ANSWER,
    READS_NO_IMAGE,
)
from waltz.consistency.metrics import COT, POST_HOC
from waltz.core.schema import DifferenceRecord
from waltz.evaluation.settings import ALL_DATA_SETS
from waltz.reporting.page.findings import MOST_NAMES, is_small_measure
from waltz.reporting.tables.declaration import COMPARED_PROFILE

STEPS = {
    (EXPLANATION_LESS_ANSWER, POST_HOC): "from answer to post-hoc explanation",
    (EXPLANATION_LESS_ANSWER, COT): "from answer to chain of thought",
    (COT_LESS_POST_HOC, COT): "from post-hoc explanation to chain of thought",
}
"""Words for each metric and setting."""
FALLS, RISES, OPEN, SMALL = "falls", "rises", "open", "too few items"
TOO_FEW = (
    "Too few items to say how text's share differs between answers and explanations"
)
NO_IMAGES = (
    "Text's share is not compared between answers and explanations: the models read no image, so that it is 100 % of"
    " both."
)


def describe_share_changes(
    records: Sequence[DifferenceRecord], confidence: float
) -> list[str]:
    """Return sentences that say by how much text's share differs between answers and explanations.

    The numbers are those of the profile that is compared with the papers, if there are any, over
    all data sets of a model. A change counts as told if its interval leaves out 0 and its test
    rejects at 1 - `confidence`.

    Args:
        records: Paired differences of answers and explanations.
        confidence: Coverage of the intervals, a share.
    """
    profiles = {record.profile for record in records}
    profile = min(profiles, default="")
    if COMPARED_PROFILE in profiles:
        profile = COMPARED_PROFILE

    # A sentence for each step that some model has.
    sentences = []
    for (metric, setting), step in STEPS.items():
        changes = _select_changes(records, profile, metric, setting)
        if changes:
            sentences.append(_describe_step(step, changes, confidence))
    reasons = {record.measure.reason for record in records}
    if not sentences and READS_NO_IMAGE in reasons:
        return [NO_IMAGES]
    # Too few items are said once for all steps.
    return list(dict.fromkeys(sentences))


def _select_changes(
    records: Sequence[DifferenceRecord], profile: str, metric: str, setting: str
) -> list[DifferenceRecord]:
    """Return the record of each model over all its data sets, or over its only one."""
    changes: dict[str, DifferenceRecord] = {}
    for record in records:
        names = (record.profile, record.metric, record.setting)
        if names != (profile, metric, setting) or record.measure.value is None:
            continue
        # A difference over all data sets takes the place of those on single ones.
        if record.dataset == ALL_DATA_SETS or record.model not in changes:
            changes[record.model] = record
    # By size, so that the first and the last of many models are the smallest and largest change.
    return sorted(changes.values(), key=lambda record: abs(record.measure.value or 0.0))


def _describe_step(
    step: str, changes: Sequence[DifferenceRecord], confidence: float
) -> str:
    """Return the sentence about one step, such as from answer to explanation."""
    groups: dict[str, list[DifferenceRecord]] = {}
    for change in changes:
        # Models of one judgment share a clause.
        groups.setdefault(_judge_change(change, confidence), []).append(change)
    # A sentence about too few items alone has no other clause.
    if set(groups) == {SMALL}:
        names = _join_names(map(_format_n, groups[SMALL]))
        return f"{TOO_FEW}: {names}."

    clauses = []
    for judgement, (words, describe) in CLAUSES.items():
        if judgement in groups:
            names = _join_names(map(describe, groups[judgement]))
            clauses.append(f"{words} {names}")
    return f"{step.capitalize()}, text's share {'; '.join(clauses)}."


def _judge_change(change: DifferenceRecord, confidence: float) -> str:
    """Return whether text's share falls or rises, or why that cannot be told: a key of `CLAUSES`."""
    measure = change.measure
    if is_small_measure(measure):
        return SMALL
    if measure.ci_low is None or measure.ci_high is None or change.p_holm is None:
        return OPEN
    # Interval and test have to agree.
    if change.p_holm > 1 - confidence:
        return OPEN
    if measure.ci_high < 0:
        return FALLS
    if measure.ci_low > 0:
        return RISES
    return OPEN


def _format_size(change: DifferenceRecord) -> str:
    """Return a change without its sign, with interval and model."""
    measure = change.measure
    # Both ends have the sign of the change; the end that is nearer to 0 comes first.
    ends = sorted((abs(measure.ci_low or 0.0), abs(measure.ci_high or 0.0)))
    size = abs(measure.value or 0.0)
    return f"{size:.1f} points [{ends[0]:.1f}, {ends[1]:.1f}] ({change.model})"


def _format_signed(change: DifferenceRecord) -> str:
    """Return the model of a change that cannot be told, with its number and interval."""
    measure = change.measure
    interval = ""
    if measure.ci_low is not None and measure.ci_high is not None:
        interval = f" [{measure.ci_low:+.1f}, {measure.ci_high:+.1f}]"
    return f"{change.model} ({measure.value:+.1f} points{interval})"


def _format_n(change: DifferenceRecord) -> str:
    return f"{change.model} (n = {change.measure.n})"


def _join_names(names: Iterable[str]) -> str:
    """Return names with `and`; of many names, their number with the first and the last."""
    *first_names, last = names
    if not first_names:
        return last
    # Of many models, the smallest and the largest change stand for the range.
    if len(first_names) >= MOST_NAMES:
        return f"{first_names[0]} to {last}, {len(first_names) + 1} models"
    return f"{', '.join(first_names)} and {last}"


CLAUSES: dict[str, tuple[str, Callable[[DifferenceRecord], str]]] = {
    FALLS: ("falls by", _format_size),
    RISES: ("rises by", _format_size),
    OPEN: ("may be unchanged for", _format_signed),
    SMALL: ("has too few items for", _format_n),
}
"""Words of each judgment, and the function that describes its models, in the order of a sentence."""
