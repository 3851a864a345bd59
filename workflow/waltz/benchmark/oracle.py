"""Shares of candidates that the oracle of the scenes confirms: true captions, false foils, sentences of the grammar."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from waltz.benchmark.statistics import has_passed
from waltz.core.intervals import Measure, Resampling, compute_mean
from waltz.scenes.graph import Graph
from waltz.scenes.oracle import decide_truth, is_in_grammar

Row = Mapping[str, Any]


def build_candidate_groups(grammaticality: float | None) -> dict[str, Callable[[Row], bool]]:
    """Return the groups of candidates that the report compares, as predicates by name.

    The groups are the candidates before all filters, after each filter alone, after all filters, and the items.

    Args:
        grammaticality: Lowest grammaticality that the study keeps.
    """

    def is_attested(row: Row) -> bool:
        return has_passed(row, "attested")

    def is_grammatical(row: Row) -> bool:
        return is_attested(row) and row["grammaticality"] is not None and row["grammaticality"] >= (grammaticality or 0)

    def is_contradiction(row: Row) -> bool:
        contradiction = row["nli_contradiction"]
        return (
            is_attested(row)
            and contradiction is not None
            and contradiction > max(row["nli_entailment"], row["nli_neutral"])
        )

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
    *,
    resamples: int,
    confidence: float,
    seed: int,
) -> list[dict[str, Any]]:
    """Compute the oracle's shares for several groups of an instrument's candidates.

    Args:
        instrument: Name of the instrument.
        rows: Rows of the filtered layout.
        get_graph: Returns the scene of an image.
        groups: Predicates by name; each says which candidates belong to the group.
        resamples: Bootstrap resamples.
        confidence: Coverage of the intervals, a share.
        seed: Seed of the bootstrap.
    Returns:
        For each group, in percent: `captions_true` and `foils_false` among those that the oracle decides,
        `captions_decided`, `foils_decided` and `foils_in_grammar` among all; n is the size of the denominator.
    """
    verdict_cache: dict[tuple[str, str], str] = {}
    grammar_cache: dict[str, bool] = {}

    def get_verdict(image: str, text: str) -> str:
        if (image, text) not in verdict_cache:
            verdict_cache[image, text] = decide_truth(get_graph(image), text)
        return verdict_cache[image, text]

    shares = []
    for group, belongs in groups.items():
        members = [row for row in rows if belongs(row)]
        hits: dict[str, list[tuple[bool, str]]] = {}
        for side, expected in (("caption", "true"), ("foil", "false")):
            verdicts = [(get_verdict(row["image"], row[side]), row["image"]) for row in members]
            decided = [(verdict, image) for verdict, image in verdicts if verdict != "unknown"]
            hits[f"{side}s_decided"] = [(verdict != "unknown", image) for verdict, image in verdicts]
            hits[f"{side}s_{expected}"] = [(verdict == expected, image) for verdict, image in decided]
        for row in members:
            if row["foil"] not in grammar_cache:
                grammar_cache[row["foil"]] = is_in_grammar(row["foil"])
        hits["foils_in_grammar"] = [(grammar_cache[row["foil"]], row["image"]) for row in members]
        for metric, pairs in hits.items():
            share = _compute_share(pairs, f"{instrument}:{group}:{metric}", resamples, confidence, seed)
            shares.append({"instrument": instrument, "candidates": group, "metric": metric, **vars(share)})
    return shares


def compute_condition_shares(
    rows: Sequence[Row], get_graph: Callable[[str], Graph], *, resamples: int, confidence: float, seed: int
) -> list[dict[str, Any]]:
    """Compute how often captions of CV-Probes are true of their images exactly where their condition requires it.

    Args:
        rows: Rows of the layout `CONDITIONS`.
        get_graph: Returns the scene of an image.
        resamples: Bootstrap resamples over the images with an action.
        confidence: Coverage of the intervals, a share.
        seed: Seed of the bootstrap.
    Returns:
        For each form and condition, in percent: `decided` among all items, `as_expected` among those that the oracle
        decides; n is the size of the denominator.
    """
    shares = []
    for form, condition in dict.fromkeys((row["form"], row["condition"]) for row in rows):
        group = f"{form} {condition}"
        members = [row for row in rows if (row["form"], row["condition"]) == (form, condition)]
        verdicts = [(decide_truth(get_graph(row["image"]), row["caption"]), row) for row in members]
        decided = [(verdict, row) for verdict, row in verdicts if verdict != "unknown"]
        hits = {
            "decided": [(verdict != "unknown", row["group"]) for verdict, row in verdicts],
            "as_expected": [((verdict == "true") == row["match"], row["group"]) for verdict, row in decided],
        }
        for metric, pairs in hits.items():
            share = _compute_share(pairs, f"cv-probes:{group}:{metric}", resamples, confidence, seed)
            shares.append({"instrument": "cv-probes", "candidates": group, "metric": metric, **vars(share)})
    return shares


def answer_checks(
    pairs: Iterable[tuple[str, str]], get_graph: Callable[[str], Graph]
) -> dict[tuple[str, str], list[str]]:
    """Return the oracle's answers in place of people who check whether captions describe images.

    Args:
        pairs: Images and captions.
        get_graph: Returns the scene of an image.
    Returns:
        By image and caption `yes` or `no`; no answer where the scene does not decide it.
    """
    answers = {"true": ["yes"], "false": ["no"], "unknown": []}
    return {
        (image, caption): answers[decide_truth(get_graph(image), caption)] for image, caption in dict.fromkeys(pairs)
    }


def _compute_share(
    pairs: Sequence[tuple[bool, str]], label: str, resamples: int, confidence: float, seed: int
) -> Measure:
    if not pairs:
        return Measure(None, 0, reason="there is no such candidate")
    percent, images = [100.0 * hit for hit, _ in pairs], [image for _, image in pairs]
    return compute_mean(percent, images, label, Resampling(resamples, confidence, seed))
