"""The filters of an instrument on its candidates: scores, thresholds, and the selection of the best
of several texts.

Each text is scored once. Modules that need models are imported where they are used: most
instruments have no filter, and torch takes seconds to import.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waltz.core.errors import CONTROL_TOKEN, UserError

if TYPE_CHECKING:
    from waltz.core.devices import Device
    from waltz.filters.nli import Inference
    from waltz.models.batches import ProgressCallback
    from waltz.models.text.causal import CausalModel
    from waltz.models.text.classifier import Classifier
    from waltz.models.text.masked import MaskedModel

RANKING_TOKENS = 2048
"""Highest number of tokens in one forward pass of the ranking model."""
CLOSE = 1e-4
"""Distance from a threshold below which another machine may decide otherwise, since rounding
differs.
"""

UNGRAMMATICAL = "grammaticality below"
NO_CONTRADICTION = "no contradiction"
READS_WORSE = "another caption of the image reads better"
WORDED_WORSE = "another wording of the foil reads better"

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class FilterModels:
    """The models that the filters of an instrument use; a model that no filter uses is None.

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

    @property
    def tokenizers(self) -> list[Any]:
        """Return the tokenizers of the models that are loaded."""
        return [model.tokenizer for model in vars(self).values() if model is not None]


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for the candidates of an instrument.

    Attributes:
        grammaticality: Lowest GRUEN grammaticality that is kept; None where the score is only
            recorded.
        contradiction: True where contradiction must be the most probable relation of caption to
            foil.
    """

    grammaticality: float | None = None
    contradiction: bool = False


def load_filter_models(
    models: Mapping[str, Mapping[str, Any]], device: "Device"
) -> FilterModels:
    """Load the models of the filters.

    Args:
        models: Settings of a `ModelSpec`, by field of `FilterModels`.
    """
    if not models:
        return FilterModels()
    # Imported here: an instrument without filters must not wait for torch.
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
    loaded = {}
    for name, settings in models.items():
        loaded[name] = loaders[name](ModelSpec(**settings), device)
    return FilterModels(**loaded)


def filter_candidates(
    candidates: Sequence[Mapping[str, Any]],
    models: FilterModels,
    filters: Sequence[str],
    grammaticality: float | None,
    cache_file: Path,
    on_progress: "ProgressCallback",
) -> tuple[Rows, Rows]:
    """Score every candidate that the rules of its instrument can use, and decide whether it is
    kept.

    Args:
        candidates: Rows of the candidates layout.
        models: The models that `filters` use.
        filters: Any of `grammaticality`, `contradiction`, `ranking`.
        grammaticality: Lowest grammaticality of a foil that is kept.
        on_progress: Called with the number of texts of each batch.
    Returns:
        Rows of the filtered layout, and the candidates whose verdict depends on the last digits.
    """
    candidates = reject_unreadable(candidates, models)
    usable = [row for row in candidates if row["rejected"] is None]

    # Scores of the active filters, and their thresholds.
    scores = None
    lowest_grammaticality = None
    if "grammaticality" in filters:
        foils = {row["foil"] for row in usable}
        scores = score_grammaticality(foils, models, cache_file, on_progress)
        lowest_grammaticality = grammaticality
    inferences = None
    if "contradiction" in filters:
        from waltz.filters.nli import infer_relations

        assert models.nli is not None
        pairs = [(row["caption"], row["foil"]) for row in usable]
        inferences = infer_relations(pairs, models.nli, cache_file, on_progress)
    thresholds = Thresholds(
        lowest_grammaticality, contradiction="contradiction" in filters
    )

    rows, close = apply_thresholds(candidates, thresholds, scores, inferences)
    # The two columns of the ranking are part of the layout even where no ranking follows.
    rows = [
        {**row, "caption_grammaticality": None, "caption_perplexity": None}
        for row in rows
    ]
    if "ranking" in filters:
        rows = _rank(rows, models, cache_file, on_progress)
    return rows, close


def reject_unreadable(
    candidates: Sequence[Mapping[str, Any]], models: FilterModels
) -> Rows:
    """Return all candidates; those whose caption or foil contains a control token of a model are
    rejected.
    """
    from waltz.models.user_text import select_readable

    texts = (row[text_role] for row in candidates for text_role in ("caption", "foil"))
    readable = set(select_readable(texts, *models.tokenizers))
    rows = []
    for candidate in candidates:
        row = dict(candidate)
        is_readable = row["caption"] in readable and row["foil"] in readable
        # An earlier reason stays: it says more about the rules of the instrument.
        if row["rejected"] is None and not is_readable:
            row["rejected"] = CONTROL_TOKEN
        rows.append(row)
    return rows


def score_grammaticality(
    texts: Iterable[str],
    models: FilterModels,
    cache_file: Path,
    on_progress: "ProgressCallback",
) -> dict[str, float]:
    """Return GRUEN's grammaticality by text; a text that spells a control token of its models has
    no score.
    """
    from waltz.filters.gruen import score_texts
    from waltz.models.user_text import select_readable

    assert models.likelihood is not None
    assert models.acceptability is not None
    readable = select_readable(
        sorted(texts), models.likelihood.tokenizer, models.acceptability.tokenizer
    )
    return score_texts(
        readable, models.likelihood, models.acceptability, cache_file, on_progress
    )


def apply_thresholds(
    rows: Iterable[Mapping[str, Any]],
    thresholds: Thresholds,
    grammaticality: Mapping[str, float] | None = None,
    inferences: "Mapping[tuple[str, str], Inference] | None" = None,
) -> tuple[Rows, Rows]:
    """Return all candidates with scores and verdicts, and the candidates whose scores are very near
    a threshold.

    A candidate that was rejected before keeps its reason. The first filter that rejects gives the
    reason: grammaticality, then contradiction.

    Args:
        rows: Rows of candidates with item_id, caption, foil, rejected.
        grammaticality: Score by foil; None where that filter did not run.
        inferences: Relation of caption to foil, by pair of both; None where that filter did not
            run. A pair that is rejected already may be absent.
    Returns:
        All rows in their order with grammaticality, nli_entailment, nli_neutral, nli_contradiction,
        kept and rejected; and for each filter and undecided candidate nearer than 1e-4 to a
        threshold a dict of item_id, filter, value, threshold.
    """
    judged_rows: Rows = []
    close: Rows = []
    for row in rows:
        score = None if grammaticality is None else grammaticality.get(row["foil"])
        inference = (
            None
            if inferences is None
            else inferences.get((row["caption"], row["foil"]))
        )
        reason = row["rejected"]
        # The first check that fails gives the reason; later ones are not asked.
        for check in _list_checks(thresholds, score, inference):
            if reason is not None:
                break
            if check.value is None:
                raise ValueError(
                    f"{row['item_id']}: no {check.name} for {row['foil']!r}; score every usable candidate"
                )
            # Other hardware can turn such a verdict, so it is reported.
            if abs(check.value - check.threshold) < CLOSE:
                close.append(
                    {
                        "item_id": row["item_id"],
                        "filter": check.name,
                        "value": check.value,
                        "threshold": check.threshold,
                    }
                )
            if not check.passes(check.value):
                reason = check.failure
        judged_rows.append(
            {
                **row,
                "grammaticality": score,
                "nli_entailment": inference.entailment if inference else None,
                "nli_neutral": inference.neutral if inference else None,
                "nli_contradiction": inference.contradiction if inference else None,
                "kept": reason is None,
                "rejected": reason,
            }
        )
    return judged_rows, close


@dataclass(frozen=True, slots=True)
class _Check:
    """A filter with the score of one candidate and the threshold that it must reach.

    Attributes:
        name: Name of the filter.
        value: The candidate's score; None where it has none.
        threshold: Lowest value that passes.
        failure: Why a candidate that does not pass is rejected.
        is_strict: Whether the threshold itself does not pass.
    """

    name: str
    value: float | None
    threshold: float
    failure: str
    is_strict: bool

    def passes(self, value: float) -> bool:
        """Return True where a score is high enough."""
        return value > self.threshold if self.is_strict else value >= self.threshold


def _list_checks(
    thresholds: Thresholds, score: float | None, inference: "Inference | None"
) -> list[_Check]:
    """Return the active filters with the scores of one candidate, in the order in which they apply."""
    checks: list[_Check] = []
    lowest = thresholds.grammaticality
    if lowest is not None:
        failure = f"{UNGRAMMATICAL} {lowest:g}"
        checks.append(_Check("grammaticality", score, lowest, failure, is_strict=False))
    if thresholds.contradiction:
        # At a margin of 0 another relation is as probable as contradiction.
        margin = inference.margin if inference else None
        checks.append(
            _Check("contradiction", margin, 0.0, NO_CONTRADICTION, is_strict=True)
        )
    return checks


def _rank(
    rows: Rows, models: FilterModels, cache_file: Path, on_progress: "ProgressCallback"
) -> Rows:
    """Rank the kept candidates: keep the best caption of each image, and the best wording of each
    exchange.

    All other candidates are rejected. Scores are written into `rows`.
    """
    from waltz.models.text.causal import compute_mean_log_likelihoods

    assert models.ranking is not None
    # Both texts are scored for grammaticality, only captions for perplexity.
    kept_rows = [row for row in rows if row["kept"]]
    captions = {row["caption"] for row in kept_rows}
    foils = {row["foil"] for row in kept_rows}
    scores = score_grammaticality(captions | foils, models, cache_file, on_progress)
    likelihoods = compute_mean_log_likelihoods(
        sorted(captions), models.ranking, RANKING_TOKENS, cache_file, on_progress
    )
    for row in kept_rows:
        likelihood = likelihoods[row["caption"]]
        if likelihood.value is None:
            raise UserError(
                f"{row['item_id']}: its caption cannot be ranked: {likelihood.error}; remove the caption"
            )
        row["grammaticality"] = scores[row["foil"]]
        row["caption_grammaticality"] = scores[row["caption"]]
        row["caption_perplexity"] = math.exp(-likelihood.value)

    # Wordings are compared among the candidates of the best captions only.
    _reject(
        rows, find_worse_captions([row for row in rows if row["kept"]]), READS_WORSE
    )
    _reject(
        rows, find_worse_wordings([row for row in rows if row["kept"]]), WORDED_WORSE
    )
    return rows


def _reject(rows: Rows, item_ids: set[str], reason: str) -> None:
    for row in rows:
        if row["item_id"] in item_ids:
            row["kept"] = False
            row["rejected"] = reason


def select_best_captions(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return for each image its best caption: the ranks by grammaticality and by perplexity have
    the lowest sum.

    Of captions with equal sums the lower perplexity decides, then alphabetical order.

    Args:
        rows: Candidates with image, caption, caption_grammaticality (higher is better) and
            caption_perplexity (lower is better).
    Returns:
        The best caption by image.
    """
    captions: dict[str, dict[str, tuple[float, float]]] = {}
    for row in rows:
        # The sign is reversed so that lower is better in both scores.
        scores = (-row["caption_grammaticality"], row["caption_perplexity"])
        captions.setdefault(row["image"], {})[row["caption"]] = scores
    return {image: _select_best(scores) for image, scores in captions.items()}


def find_worse_captions(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the ids of the candidates whose caption is not the best of its image."""
    best = select_best_captions(rows)
    return {row["item_id"] for row in rows if row["caption"] != best[row["image"]]}


def find_worse_wordings(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the ids of the candidates whose exchange has a more grammatical foil in the same
    caption.

    Of equally grammatical foils the alphabetically first is kept, and of equal texts the lowest
    item id.
    """
    best: dict[tuple[Any, ...], tuple[float, str, str]] = {}
    for row in rows:
        exchange = _get_exchange(row)
        # The least tuple wins: highest score, then letters, then id.
        order = (-row["grammaticality"], row["foil"], row["item_id"])
        if exchange not in best or order < best[exchange]:
            best[exchange] = order
    best_ids = {item_id for _, _, item_id in best.values()}
    return {row["item_id"] for row in rows} - best_ids


def _get_exchange(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the key of wordings that compete: image, caption, and the phrases that are exchanged."""
    return (
        row["image"],
        row["caption"],
        tuple(row["caption_phrases"]),
        tuple(row["foil_phrases"]),
    )


def _select_best(scores: Mapping[str, tuple[float, float]]) -> str:
    """Return the caption whose two ranks have the lowest sum; equal scores have equal ranks.

    Args:
        scores: Grammaticality with reversed sign and perplexity, by caption; lower is better in
            both.
    """
    grammaticality_ranks = _rank_values(
        grammaticality for grammaticality, _ in scores.values()
    )
    perplexity_ranks = _rank_values(perplexity for _, perplexity in scores.values())

    def get_order(caption: str) -> tuple[int, float, str]:
        grammaticality, perplexity = scores[caption]
        rank_sum = grammaticality_ranks[grammaticality] + perplexity_ranks[perplexity]
        return rank_sum, perplexity, caption

    return min(scores, key=get_order)


def _rank_values(values: Iterable[float]) -> dict[float, int]:
    """Return the rank of each distinct value; the lowest value has rank 0."""
    return {value: rank for rank, value in enumerate(sorted(set(values)))}
