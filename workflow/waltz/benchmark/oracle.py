"""Shares of candidates that the oracle of the scenes confirms: true captions, false foils, sentences of the grammar."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from waltz.benchmark.statistics import compute_share, has_passed
from waltz.core.intervals import Resampling
from waltz.scenes.graph import Graph
from waltz.scenes.oracle import decide_truth, is_in_grammar

Row = Mapping[str, Any]
Hits = Mapping[str, Sequence[tuple[bool, str]]]
"""Hits and images by metric."""


def build_candidate_groups(grammaticality: float | None) -> dict[str, Callable[[Row], bool]]:
    """Return the groups of candidates that the report compares, as predicates by name.

    The groups are the candidates before all filters, after each filter alone (with the study's lowest grammaticality),
    after all filters, and the items.
    """

    def is_attested(row: Row) -> bool:
        return has_passed(row, "attested")

    def is_grammatical(row: Row) -> bool:
        score = row["grammaticality"]
        return is_attested(row) and score is not None and score >= (grammaticality or 0)

    def is_contradiction(row: Row) -> bool:
        score = row["nli_contradiction"]
        return is_attested(row) and score is not None and score > max(row["nli_entailment"], row["nli_neutral"])

    return {
        "attested": is_attested,
        "grammatical": is_grammatical,
        "contradicting": is_contradiction,
        "filtered": lambda row: has_passed(row, "ranked"),
        "items": lambda row: bool(row["kept"]),
    }


def compute_oracle_shares(
    instrument: str,
    rows: Sequence[Row],
    get_graph: Callable[[str], Graph],
    groups: Mapping[str, Callable[[Row], bool]],
    resampling: Resampling,
) -> list[dict[str, Any]]:
    """Compute the oracle's shares for several groups of an instrument's candidates.

    Args:
        rows: Rows of the filtered layout.
        groups: Predicates by name; each says which candidates belong to the group.
    Returns:
        For each group, in percent: `captions_true` and `foils_false` among those that the oracle decides,
        `captions_decided`, `foils_decided` and `foils_in_grammar` among all; n is the size of the denominator.
    """
    get_verdict = cache(lambda image, text: decide_truth(get_graph(image), text))
    check_grammar = cache(is_in_grammar)
    shares = []
    for group, belongs in groups.items():
        members = [row for row in rows if belongs(row)]
        hits: dict[str, list[tuple[bool, str]]] = {}
        for side, expected in (("caption", "true"), ("foil", "false")):
            verdicts = [(get_verdict(row["image"], row[side]), row["image"]) for row in members]
            decided = [(verdict, image) for verdict, image in verdicts if verdict != "unknown"]
            hits[f"{side}s_decided"] = [(verdict != "unknown", image) for verdict, image in verdicts]
            hits[f"{side}s_{expected}"] = [(verdict == expected, image) for verdict, image in decided]
        hits["foils_in_grammar"] = [(check_grammar(row["foil"]), row["image"]) for row in members]
        shares += _build_share_rows(instrument, group, hits, resampling)
    return shares


def compute_condition_shares(
    rows: Sequence[Row], get_graph: Callable[[str], Graph], resampling: Resampling
) -> list[dict[str, Any]]:
    """Compute how often captions of CV-Probes are true of their images exactly where their condition requires it.

    Args:
        resampling: Bootstrap of the images with an action.
    Returns:
        For each form and condition, in percent: `decided` among all items, `as_expected` among those that the oracle
        decides; n is the size of the denominator.
    """
    shares = []
    for form, condition in dict.fromkeys((row["form"], row["condition"]) for row in rows):
        members = [row for row in rows if (row["form"], row["condition"]) == (form, condition)]
        verdicts = [(decide_truth(get_graph(row["image"]), row["caption"]), row) for row in members]
        decided = [(verdict, row) for verdict, row in verdicts if verdict != "unknown"]
        hits = {
            "decided": [(verdict != "unknown", row["group"]) for verdict, row in verdicts],
            "as_expected": [((verdict == "true") == row["match"], row["group"]) for verdict, row in decided],
        }
        shares += _build_share_rows("cv-probes", f"{form} {condition}", hits, resampling)
    return shares


def _build_share_rows(instrument: str, group: str, hits: Hits, resampling: Resampling) -> list[dict[str, Any]]:
    rows = []
    for metric, pairs in hits.items():
        label = f"{instrument}:{group}:{metric}"
        values, images = [hit for hit, _ in pairs], [image for _, image in pairs]
        share = compute_share(values, images, label, resampling, "there is no such candidate")
        rows.append({"instrument": instrument, "candidates": group, "metric": metric, **vars(share)})
    return rows


def answer_checks(
    pairs: Iterable[tuple[str, str]], get_graph: Callable[[str], Graph]
) -> dict[tuple[str, str], list[str]]:
    """Return the oracle's answers in place of people who check whether captions describe images.

    Returns:
        By image and caption `yes` or `no`; no answer where the scene does not decide it.
    """
    answers = {"true": ["yes"], "false": ["no"], "unknown": []}
    return {
        (image, caption): answers[decide_truth(get_graph(image), caption)] for image, caption in dict.fromkeys(pairs)
    }
