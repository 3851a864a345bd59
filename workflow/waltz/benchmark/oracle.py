"""What the scenes' oracle says about candidates: are captions true, foils false, sentences inside the grammar."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from waltz.benchmark.funnel import has_passed
from waltz.core.intervals import Measure, Resampling, compute_mean
from waltz.scenes.oracle.truth import in_grammar, truth
from waltz.scenes.world.graph import Graph

Row = Mapping[str, Any]


def build_candidate_groups(grammaticality: float | None) -> dict[str, Callable[[Row], bool]]:
    """The groups of candidates that the report compares: before, after each filter alone, after all, and the items.

    Args:
        grammaticality: Lowest grammaticality that the study keeps.
    """

    def attested(row: Row) -> bool:
        return has_passed(row, "attested")

    def grammatical(row: Row) -> bool:
        return attested(row) and row["grammaticality"] is not None and row["grammaticality"] >= (grammaticality or 0)

    def contradicting(row: Row) -> bool:
        contradiction = row["nli_contradiction"]
        return (
            attested(row)
            and contradiction is not None
            and contradiction > max(row["nli_entailment"], row["nli_neutral"])
        )

    return {
        "attested": attested,
        "grammatical": grammatical,
        "contradicting": contradicting,
        "filtered": lambda row: has_passed(row, "ranked"),
        "items": lambda row: bool(row["kept"]),
    }


def compute_oracle_shares(
    instrument: str,
    rows: Sequence[Row],
    graph_of: Callable[[str], Graph],
    groups: Mapping[str, Callable[[Row], bool]],
    *,
    resamples: int,
    confidence: float,
    seed: int,
) -> list[dict[str, Any]]:
    """Shares among several groups of an instrument's candidates.

    Args:
        instrument: Name of the instrument.
        rows: Rows of the filtered layout.
        graph_of: The scene of an image.
        groups: By name, which candidates belong to a group.
        resamples: Bootstrap resamples.
        confidence: Coverage of the intervals, a share.
        seed: Seed of the bootstrap.
    Returns:
        For each group, in percent: `captions_true` and `foils_false` among those that the oracle decides,
        `captions_decided`, `foils_decided` and `foils_in_grammar` among all; n is what a share is taken over.
    """
    verdicts: dict[tuple[str, str], str] = {}
    grammar: dict[str, bool] = {}

    def verdict(image: str, text: str) -> str:
        if (image, text) not in verdicts:
            verdicts[image, text] = truth(graph_of(image), text)
        return verdicts[image, text]

    found = []
    for group, belongs in groups.items():
        members = [row for row in rows if belongs(row)]
        hits: dict[str, list[tuple[bool, str]]] = {}
        for side, right in (("caption", "true"), ("foil", "false")):
            told = [(verdict(row["image"], row[side]), row["image"]) for row in members]
            hits[f"{side}s_decided"] = [(said != "unknown", image) for said, image in told]
            hits[f"{side}s_{right}"] = [(said == right, image) for said, image in told if said != "unknown"]
        for row in members:
            if row["foil"] not in grammar:
                grammar[row["foil"]] = in_grammar(row["foil"])
        hits["foils_in_grammar"] = [(grammar[row["foil"]], row["image"]) for row in members]
        for metric, pairs in hits.items():
            found.append(
                {
                    "instrument": instrument,
                    "candidates": group,
                    "metric": metric,
                    **vars(_share(pairs, f"{instrument}:{group}:{metric}", resamples, confidence, seed)),
                }
            )
    return found


def compute_condition_shares(
    rows: Sequence[Row], graph_of: Callable[[str], Graph], *, resamples: int, confidence: float, seed: int
) -> list[dict[str, Any]]:
    """Whether CV-Probes' captions are true of their images where they shall be, and false where they shall not.

    Args:
        rows: Rows of the layout `CONDITIONS`.
        graph_of: The scene of an image.
        resamples: Bootstrap resamples over the images with an action.
        confidence: Coverage of the intervals, a share.
        seed: Seed of the bootstrap.
    Returns:
        For each form and condition, in percent: `decided` among all items, `as_expected` among those that the oracle
        decides; n is what a share is taken over.
    """
    found = []
    for form, condition in dict.fromkeys((row["form"], row["condition"]) for row in rows):
        group = f"{form} {condition}"
        members = [row for row in rows if (row["form"], row["condition"]) == (form, condition)]
        told = [(truth(graph_of(row["image"]), row["caption"]), row) for row in members]
        hits = {
            "decided": [(said != "unknown", row["group"]) for said, row in told],
            "as_expected": [
                ((said == "true") == row["match"], row["group"]) for said, row in told if said != "unknown"
            ],
        }
        for metric, pairs in hits.items():
            share = _share(pairs, f"cv-probes:{group}:{metric}", resamples, confidence, seed)
            found.append({"instrument": "cv-probes", "candidates": group, "metric": metric, **vars(share)})
    return found


def answer_checks(
    pairs: Iterable[tuple[str, str]], graph_of: Callable[[str], Graph]
) -> dict[tuple[str, str], list[str]]:
    """The oracle in the place of the people who check whether captions describe images.

    Args:
        pairs: Images and captions.
        graph_of: The scene of an image.
    Returns:
        By image and caption `yes` or `no`; no answer where the scene does not decide it.
    """
    says = {"true": ["yes"], "false": ["no"], "unknown": []}
    return {(image, caption): says[truth(graph_of(image), caption)] for image, caption in dict.fromkeys(pairs)}


def _share(pairs: Sequence[tuple[bool, str]], label: str, resamples: int, confidence: float, seed: int) -> Measure:
    if not pairs:
        return Measure(None, 0, reason="there is no such candidate")
    percent, images = [100.0 * hit for hit, _ in pairs], [image for _, image in pairs]
    return compute_mean(percent, images, label, Resampling(resamples, confidence, seed))
