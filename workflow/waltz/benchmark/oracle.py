"""Shares of candidates that the oracle of the scenes confirms: true captions, and false,
well-formed foils.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from waltz.benchmark.statistics import compute_share, has_passed
from waltz.benchmark.votes import ItemVotes
from waltz.core.intervals import Resampling
from waltz.core.schema import FilteredRecord, OracleRecord, ProbeRecord
from waltz.scenes.graph import Graph
from waltz.scenes.oracle import cast_vote, decide_truth, is_in_grammar

METRICS = (
    "captions_decided",
    "captions_true",
    "foils_decided",
    "foils_false",
    "foils_in_grammar",
)
"""Names of the shares, in order."""
VOTES = 3
"""Number of people that the oracle stands for: its vote counts as three."""

Hits = Mapping[str, Sequence[tuple[bool, str]]]
"""By metric, one pair for each candidate: whether it is a hit, and its image."""


def build_candidate_groups(
    grammaticality: float | None,
) -> dict[str, Callable[[FilteredRecord], bool]]:
    """Return the groups of candidates that the report compares: by name, a predicate that selects
    the candidates.

    The groups are the candidates before all filters, after each filter alone (with the study's
    lowest grammaticality), after all filters, and the items.
    """

    def is_attested(row: FilteredRecord) -> bool:
        return has_passed(row.rejected, "attested")

    def is_grammatical(row: FilteredRecord) -> bool:
        score = row.grammaticality
        if score is None or not is_attested(row):
            return False
        return score >= (grammaticality or 0)

    def is_contradiction(row: FilteredRecord) -> bool:
        entailment, neutral = row.nli_entailment, row.nli_neutral
        score = row.nli_contradiction
        # The inference model gives all three probabilities, or none.
        if score is None or entailment is None or neutral is None:
            return False
        return is_attested(row) and score > max(entailment, neutral)

    return {
        "attested": is_attested,
        "grammatical": is_grammatical,
        "contradicting": is_contradiction,
        "filtered": lambda row: has_passed(row.rejected, "ranked"),
        "items": lambda row: row.kept,
    }


def compute_oracle_shares(
    instrument: str,
    rows: Sequence[FilteredRecord],
    get_graph: Callable[[str], Graph],
    groups: Mapping[str, Callable[[FilteredRecord], bool]],
    resampling: Resampling,
) -> list[OracleRecord]:
    """Compute for each group of candidates how often the oracle confirms captions and foils.

    Args:
        rows: Candidates with the scores of their filters.
        groups: Predicates by name; each says which candidates belong to the group.
    Returns:
        Shares in percent. `captions_true` and `foils_false` are shares of the texts that
        the oracle decides; `captions_decided`, `foils_decided` and `foils_in_grammar` are shares of
        all. n is the denominator.
    """
    # Groups overlap and texts repeat, so verdicts are cached.
    get_verdict = cache(lambda image, text: decide_truth(get_graph(image), text))
    check_grammar = cache(is_in_grammar)
    shares = []
    for group, is_member in groups.items():
        hits: dict[str, list[tuple[bool, str]]] = {metric: [] for metric in METRICS}
        for row in filter(is_member, rows):
            for text_role, text, expected in (
                ("caption", row.caption, "true"),
                ("foil", row.foil, "false"),
            ):
                verdict = get_verdict(row.image, text)
                is_decided = verdict != "unknown"
                hits[f"{text_role}s_decided"].append((is_decided, row.image))
                # Truth is measured only among texts that the oracle can decide.
                if is_decided:
                    is_expected = verdict == expected
                    hits[f"{text_role}s_{expected}"].append((is_expected, row.image))
            hits["foils_in_grammar"].append((check_grammar(row.foil), row.image))
        shares += _build_share_records(instrument, group, hits, resampling)
    return shares


def compute_condition_shares(
    items: Sequence[ProbeRecord],
    get_graph: Callable[[str], Graph],
    resampling: Resampling,
) -> list[OracleRecord]:
    """Compute how often captions of CV-Probes are true of their images exactly where their
    condition requires it.

    Args:
        resampling: Bootstrap of the images with an action.
    Returns:
        Shares in percent, for each form and condition: `decided` is a share of all items,
        `as_expected` a share of the items that the oracle decides. n is the denominator.
    """
    items_by_condition: dict[tuple[str, str], list[ProbeRecord]] = {}
    for item in items:
        items_by_condition.setdefault((item.form, item.condition), []).append(item)

    shares = []
    for (form, condition), members in items_by_condition.items():
        decided: list[tuple[bool, str]] = []
        as_expected: list[tuple[bool, str]] = []
        for item in members:
            verdict = decide_truth(get_graph(item.image), item.caption)
            is_decided = verdict != "unknown"
            # The group is the image with the action: all items made from it are resampled together.
            decided.append((is_decided, item.group))
            if is_decided:
                is_true = verdict == "true"
                as_expected.append((is_true == item.match, item.group))
        hits = {"decided": decided, "as_expected": as_expected}
        shares += _build_share_records(
            "cv-probes", f"{form} {condition}", hits, resampling
        )
    return shares


def _build_share_records(
    instrument: str, group: str, hits: Hits, resampling: Resampling
) -> list[OracleRecord]:
    """Return one record for each metric, with the share of hits in percent and its interval."""
    records = []
    for metric, pairs in hits.items():
        label = f"{instrument}:{group}:{metric}"
        values = [hit for hit, _ in pairs]
        images = [image for _, image in pairs]
        share = compute_share(
            values, images, label, resampling, "there is no such candidate"
        )
        records.append(
            OracleRecord(
                instrument=instrument, candidates=group, metric=metric, measure=share
            )
        )
    return records


def cast_votes(
    candidates: Iterable[FilteredRecord],
    get_graph: Callable[[str], Graph],
    valid_votes: int,
) -> dict[str, ItemVotes]:
    """Let the oracle vote on candidates, in place of people; return the votes by item id.

    Args:
        valid_votes: Lowest number of votes for the caption that makes an item valid.
    """
    votes = {}
    for candidate in candidates:
        graph = get_graph(candidate.image)
        vote = cast_vote(graph, candidate.caption, candidate.foil)
        counts = Counter({vote: VOTES})
        votes[candidate.item_id] = ItemVotes(
            caption=counts["caption"],
            foil=counts["foil"],
            other=VOTES - counts["caption"] - counts["foil"],
            valid=counts["caption"] >= valid_votes,
        )
    return votes


def answer_checks(
    pairs: Iterable[tuple[str, str]], get_graph: Callable[[str], Graph]
) -> dict[tuple[str, str], list[str]]:
    """Let the oracle check whether captions describe images, in place of people.

    Returns:
        By image and caption a list with `yes` or `no`; the list is empty where the scene does not
        decide it.
    """
    answers_by_verdict = {"true": ["yes"], "false": ["no"], "unknown": []}
    answers = {}
    for image, caption in dict.fromkeys(pairs):
        verdict = decide_truth(get_graph(image), caption)
        answers[image, caption] = answers_by_verdict[verdict]
    return answers
