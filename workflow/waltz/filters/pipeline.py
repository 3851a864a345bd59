"""All filters of an instrument over its candidates: scores, verdicts by threshold, and the best of several texts.

Each text is scored once. Modules that need models are imported where they are used: most instruments have no filter,
and torch takes seconds to import.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waltz.core.errors import UserError

if TYPE_CHECKING:
    from waltz.core.devices import Device
    from waltz.filters.nli import Inference
    from waltz.models.batches import ProgressCallback
    from waltz.models.text.causal import CausalModel
    from waltz.models.text.classifier import Classifier
    from waltz.models.text.masked import MaskedModel

RANKING_TOKENS = 2048
"""Most tokens in one forward pass of the ranking model."""
CLOSE = 1e-4
"""Distance from a threshold at which a score may fall on the other side on another machine."""

UNGRAMMATICAL = "grammaticality below"
NO_CONTRADICTION = "no contradiction"
READS_WORSE = "another caption of the image reads better"
WORDED_WORSE = "another wording of the foil reads better"

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class FilterModels:
    """The models that filters use; None for those that no filter of the instrument uses.

    Attributes:
        likelihood: Masked language model of GRUEN.
        acceptability: Classifier of GRUEN.
        nli: Entailment classifier.
        ranking: Causal language model.
    """

    likelihood: "MaskedModel | None" = None
    acceptability: "Classifier | None" = None
    nli: "Classifier | None" = None
    ranking: "CausalModel | None" = None


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for the candidates of an instrument.

    Attributes:
        grammaticality: Lowest GRUEN grammaticality that is kept; None where the score is only recorded.
        contradiction: True where contradiction must be the most probable relation of caption to foil.
    """

    grammaticality: float | None = None
    contradiction: bool = False


def load_filter_models(models: Mapping[str, Mapping[str, Any]], device: "Device") -> FilterModels:
    """Load models, given as the settings of a `ModelSpec` by the fields of `FilterModels`."""
    if not models:
        return FilterModels()
    from waltz.model_registry import ModelSpec
    from waltz.models.text.causal import load_causal_model
    from waltz.models.text.classifier import load_classifier
    from waltz.models.text.masked import load_masked_model

    loaders: dict[str, Callable[..., Any]] = {
        "likelihood": load_masked_model,
        "acceptability": load_classifier,
        "nli": load_classifier,
        "ranking": load_causal_model,
    }
    return FilterModels(**{key: loaders[key](ModelSpec(**model), device) for key, model in models.items()})


def filter_candidates(
    candidates: Sequence[Mapping[str, Any]],
    models: FilterModels,
    filters: Sequence[str],
    grammaticality: float | None,
    cache_file: Path,
    on_progress: "ProgressCallback",
) -> tuple[Rows, Rows]:
    """Score and judge every candidate that its instrument's rules can use.

    Args:
        candidates: Rows of the candidates layout.
        models: The models that `filters` use.
        filters: Any of `grammaticality`, `contradiction`, `ranking`.
        grammaticality: Lowest grammaticality of a foil that is kept.
        on_progress: Called with the number of texts of each batch.
    Returns:
        Rows of the filtered layout, and the candidates whose verdict depends on the last digits.
    """
    usable = [row for row in candidates if row["rejected"] is None]
    scores = inferences = None
    if "grammaticality" in filters:
        scores = score_grammaticality({row["foil"] for row in usable}, models, cache_file, on_progress)
    if "contradiction" in filters:
        from waltz.filters.nli import infer_relations

        assert models.nli is not None
        pairs = [(row["caption"], row["foil"]) for row in usable]
        inferences = infer_relations(pairs, models.nli, cache_file, on_progress)
    thresholds = Thresholds(grammaticality if "grammaticality" in filters else None, "contradiction" in filters)
    rows, close = apply_thresholds(candidates, thresholds, scores, inferences)
    rows = [{**row, "caption_grammaticality": None, "caption_perplexity": None} for row in rows]
    return (_rank(rows, models, cache_file, on_progress) if "ranking" in filters else rows), close


def score_grammaticality(
    texts: Iterable[str], models: FilterModels, cache_file: Path, on_progress: "ProgressCallback"
) -> dict[str, float]:
    """Return GRUEN's grammaticality of each text."""
    from waltz.filters.gruen import score_texts

    assert models.likelihood is not None
    assert models.acceptability is not None
    return score_texts(sorted(texts), models.likelihood, models.acceptability, cache_file, on_progress)


def apply_thresholds(
    rows: Iterable[Mapping[str, Any]],
    thresholds: Thresholds,
    grammaticality: Mapping[str, float] | None = None,
    inferences: "Mapping[tuple[str, str], Inference] | None" = None,
) -> tuple[Rows, Rows]:
    """Return candidates with their scores and verdicts, and those whose verdict depends on the last digits.

    A candidate that was rejected before keeps its reason. The first filter that rejects gives the reason:
    grammaticality, then contradiction.

    Args:
        rows: Rows of candidates with item_id, caption, foil, rejected.
        grammaticality: Score by foil; None where that filter did not run.
        inferences: Relation of caption to foil by both; None where that filter did not run. A pair that is
            rejected already may be absent.
    Returns:
        All rows in their order with grammaticality, nli_entailment, nli_neutral, nli_contradiction, kept and
        rejected; and for each filter and undecided candidate nearer than 1e-4 to a threshold a dict of
        item_id, filter, value, threshold.
    """
    judged_rows: Rows = []
    close: Rows = []
    for row in rows:
        score = None if grammaticality is None else grammaticality.get(row["foil"])
        inference = None if inferences is None else inferences.get((row["caption"], row["foil"]))
        reason = row["rejected"]
        for name, value, threshold, failure in _list_checks(thresholds, score, inference):
            if reason is not None:
                break
            if value is None:
                raise ValueError(f"{row['item_id']}: no {name} for {row['foil']!r}")
            if abs(value - threshold) < CLOSE:
                close.append({"item_id": row["item_id"], "filter": name, "value": value, "threshold": threshold})
            if value < threshold or (name == "contradiction" and value == threshold):
                reason = failure
        judged_rows.append(
            {
                **row,
                "grammaticality": score,
                "nli_entailment": None if inference is None else inference.entailment,
                "nli_neutral": None if inference is None else inference.neutral,
                "nli_contradiction": None if inference is None else inference.contradiction,
                "kept": reason is None,
                "rejected": reason,
            }
        )
    return judged_rows, close


def _list_checks(
    thresholds: Thresholds, score: float | None, inference: "Inference | None"
) -> Iterable[tuple[str, float | None, float, str]]:
    """Yield filter, value, threshold and reason of every active filter, in order."""
    if thresholds.grammaticality is not None:
        yield "grammaticality", score, thresholds.grammaticality, f"{UNGRAMMATICAL} {thresholds.grammaticality:g}"
    if thresholds.contradiction:
        yield "contradiction", None if inference is None else inference.margin, 0.0, NO_CONTRADICTION


def _rank(rows: Rows, models: FilterModels, cache_file: Path, on_progress: "ProgressCallback") -> Rows:
    """Score the texts of kept candidates; keep the best caption of an image, and the best wording of each exchange."""
    from waltz.models.text.causal import compute_mean_log_likelihoods

    assert models.ranking is not None
    kept_rows = [row for row in rows if row["kept"]]
    captions = sorted({row["caption"] for row in kept_rows})
    scores = score_grammaticality(
        {row[side] for row in kept_rows for side in ("caption", "foil")}, models, cache_file, on_progress
    )
    likelihoods = compute_mean_log_likelihoods(captions, models.ranking, RANKING_TOKENS, cache_file, on_progress)
    for row in kept_rows:
        likelihood = likelihoods[row["caption"]]
        if likelihood.value is None:
            raise UserError(f"{row['item_id']}: its caption cannot be ranked: {likelihood.error}")
        row["grammaticality"] = scores[row["foil"]]
        row["caption_grammaticality"] = scores[row["caption"]]
        row["caption_perplexity"] = math.exp(-likelihood.value)
    for reason, find_worse in ((READS_WORSE, find_worse_captions), (WORDED_WORSE, find_worse_wordings)):
        worse_ids = find_worse([row for row in rows if row["kept"]])
        rows = [{**row, "kept": False, "rejected": reason} if row["item_id"] in worse_ids else row for row in rows]
    return rows


def select_best_captions(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the caption of each image with the lowest sum of its ranks by grammaticality and by perplexity.

    Equal sums are decided by perplexity, then by the caption's letters.

    Args:
        rows: Candidates with image, caption, caption_grammaticality (higher is better) and caption_perplexity (lower
            is better).
    Returns:
        The best caption by image.
    """
    captions: dict[str, dict[str, tuple[float, float]]] = {}
    for row in rows:
        scores = (-row["caption_grammaticality"], row["caption_perplexity"])
        captions.setdefault(row["image"], {})[row["caption"]] = scores
    return {image: _select_best(scores) for image, scores in captions.items()}


def find_worse_captions(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the ids of the candidates whose caption is not the best of its image."""
    best = select_best_captions(rows)
    return {row["item_id"] for row in rows if row["caption"] != best[row["image"]]}


def find_worse_wordings(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the ids of the candidates that are not the most grammatical of those with the same exchange in a caption.

    Equal ones are decided by the foil's letters, and of equal texts the first is kept.
    """
    best: dict[tuple[Any, ...], tuple[float, str, str]] = {}
    for row in rows:
        key, order = _get_exchange(row), (-row["grammaticality"], row["foil"], row["item_id"])
        best[key] = min(best.get(key, order), order)
    return {row["item_id"] for row in rows if row["item_id"] != best[_get_exchange(row)][2]}


def _get_exchange(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["image"], row["caption"], tuple(row["caption_phrases"]), tuple(row["foil_phrases"])


def _select_best(scores: Mapping[str, tuple[float, float]]) -> str:
    ranks = [
        {value: rank for rank, value in enumerate(sorted({values[index] for values in scores.values()}))}
        for index in (0, 1)
    ]

    def get_order(caption: str) -> tuple[int, float, str]:
        grammaticality, perplexity = scores[caption]
        return ranks[0][grammaticality] + ranks[1][perplexity], perplexity, caption

    return min(scores, key=get_order)
