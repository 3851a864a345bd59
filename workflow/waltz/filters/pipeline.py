"""The filters of an instrument on its candidates: scores, thresholds, and the selection of the best
of several texts.

Each text is scored once. Modules that need models are imported where they are used: most
instruments have no filter, and torch takes seconds to import.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from waltz.core.errors import CONTROL_TOKEN, UserError
from waltz.core.records import extend_record, to_row
from waltz.core.schema import FILTERED, CandidateRecord, FilteredRecord

if TYPE_CHECKING:
    from waltz.core.jobs.devices import Device
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

NO_SCORES: Mapping[str, float] = {}
"""Scores of a filter of grammaticality that did not run."""
NO_INFERENCES: "Mapping[tuple[str, str], Inference]" = {}
"""Scores of a filter of contradiction that did not run."""


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


@dataclass(frozen=True, slots=True)
class CloseVerdict:
    """Score so near a threshold that another machine may decide otherwise.

    Attributes:
        item_id: Name of the candidate.
        filter: Name of the filter.
        value: The candidate's score.
        threshold: The threshold.
    """

    item_id: str
    filter: str
    value: float
    threshold: float


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
    candidates: Iterable[CandidateRecord],
    models: FilterModels,
    filters: Sequence[str],
    grammaticality: float | None,
    cache_file: Path,
    on_progress: "ProgressCallback",
) -> tuple[list[FilteredRecord], list[CloseVerdict]]:
    """Score every candidate that the rules of its instrument can use, and decide whether it is
    kept.

    Args:
        models: The models that `filters` use.
        filters: Any of `grammaticality`, `contradiction`, `ranking`.
        grammaticality: Lowest grammaticality of a foil that is kept.
        on_progress: Called with the number of texts of each batch.
    Returns:
        All candidates in their order, and the verdicts that depend on the last digits.
    """
    # Before any filter, a candidate has no scores and is kept unless the rules reject it.
    unfiltered = [
        extend_record(candidate, FilteredRecord, kept=candidate.rejected is None)
        for candidate in candidates
    ]
    records = reject_unreadable(unfiltered, models)
    usable = [record for record in records if record.kept]

    # Scores of the active filters, and their thresholds.
    scores = NO_SCORES
    lowest_grammaticality = None
    if "grammaticality" in filters:
        foils = {record.foil for record in usable}
        scores = score_grammaticality(foils, models, cache_file, on_progress)
        lowest_grammaticality = grammaticality
    inferences = NO_INFERENCES
    if "contradiction" in filters:
        from waltz.filters.nli import infer_relations

        assert models.nli is not None
        pairs = [(record.caption, record.foil) for record in usable]
        inferences = infer_relations(pairs, models.nli, cache_file, on_progress)
    thresholds = Thresholds(
        lowest_grammaticality, contradiction="contradiction" in filters
    )

    records, close = apply_thresholds(records, thresholds, scores, inferences)
    if "ranking" in filters:
        records = _rank(records, models, cache_file, on_progress)
    return records, close


def reject_unreadable(
    records: Sequence[FilteredRecord], models: FilterModels
) -> list[FilteredRecord]:
    """Return all candidates; those whose caption or foil contains a control token of a model are
    rejected.

    An earlier reason stays: it says more about the rules of the instrument.
    """
    from waltz.models.user_text import select_readable

    texts: list[str] = []
    for record in records:
        texts += (record.caption, record.foil)
    readable = set(select_readable(texts, *models.tokenizers))
    unreadable_ids = {
        record.item_id
        for record in records
        if not readable.issuperset((record.caption, record.foil))
    }
    return _reject(records, unreadable_ids, CONTROL_TOKEN)


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
    records: Iterable[FilteredRecord],
    thresholds: Thresholds,
    grammaticality: Mapping[str, float] = NO_SCORES,
    inferences: "Mapping[tuple[str, str], Inference]" = NO_INFERENCES,
) -> tuple[list[FilteredRecord], list[CloseVerdict]]:
    """Return all candidates with scores and verdicts, and the verdicts on scores that are nearer
    than 1e-4 to a threshold.

    A candidate that was rejected before keeps its reason. The first filter that rejects gives the
    reason: grammaticality, then contradiction.

    Args:
        grammaticality: Score by foil; empty where that filter did not run.
        inferences: Relation of caption to foil, by pair of both; empty where that filter did not
            run. A pair that is rejected already may be absent.
    """
    judged_records: list[FilteredRecord] = []
    close: list[CloseVerdict] = []
    for record in records:
        score = grammaticality.get(record.foil)
        inference = inferences.get((record.caption, record.foil))
        reason = record.rejected
        # The first check that fails gives the reason; later ones are not asked.
        for check in _list_checks(thresholds, score, inference):
            if reason is not None:
                break
            if check.value is None:
                raise ValueError(
                    f"{record.item_id}: no {check.name} for {record.foil!r}; score every usable candidate"
                )
            # Other hardware can turn such a verdict, so it is reported.
            if abs(check.value - check.threshold) < CLOSE:
                close.append(
                    CloseVerdict(
                        record.item_id, check.name, check.value, check.threshold
                    )
                )
            if not check.passes(check.value):
                reason = check.failure
        record = replace(
            record, grammaticality=score, kept=reason is None, rejected=reason
        )
        if inference is not None:
            record = replace(
                record,
                nli_entailment=inference.entailment,
                nli_neutral=inference.neutral,
                nli_contradiction=inference.contradiction,
            )
        judged_records.append(record)
    return judged_records, close


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
    records: Sequence[FilteredRecord],
    models: FilterModels,
    cache_file: Path,
    on_progress: "ProgressCallback",
) -> list[FilteredRecord]:
    """Rank the kept candidates: keep the best caption of each image, and the best wording of each
    exchange. All other candidates are rejected.
    """
    from waltz.models.text.causal import compute_mean_log_likelihoods

    assert models.ranking is not None
    # Both texts are scored for grammaticality, only captions for perplexity.
    candidates = [record for record in records if record.kept]
    captions = {record.caption for record in candidates}
    foils = {record.foil for record in candidates}
    scores = score_grammaticality(captions | foils, models, cache_file, on_progress)
    likelihoods = compute_mean_log_likelihoods(
        sorted(captions), models.ranking, RANKING_TOKENS, cache_file, on_progress
    )
    scored_records: list[FilteredRecord] = []
    for record in records:
        if record.kept:
            likelihood = likelihoods[record.caption]
            if likelihood.value is None:
                raise UserError(
                    f"{record.item_id}: its caption cannot be ranked: {likelihood.error}; remove the caption"
                )
            record = replace(
                record,
                grammaticality=scores[record.foil],
                caption_grammaticality=scores[record.caption],
                caption_perplexity=math.exp(-likelihood.value),
            )
        scored_records.append(record)

    # Wordings are compared among the candidates of the best captions only.
    worse_captions = find_worse_captions(_build_frame(scored_records))
    ranked = _reject(scored_records, worse_captions, READS_WORSE)
    worse_wordings = find_worse_wordings(_build_frame(ranked))
    return _reject(ranked, worse_wordings, WORDED_WORSE)


def _build_frame(records: Iterable[FilteredRecord]) -> pd.DataFrame:
    """Return the kept candidates as a frame."""
    rows = [to_row(record) for record in records if record.kept]
    return pd.DataFrame(rows, columns=FILTERED.schema.names)


def _reject(
    records: Iterable[FilteredRecord], item_ids: set[str], reason: str
) -> list[FilteredRecord]:
    """Return all candidates; those with one of some ids are rejected, unless they already are."""
    judged_records: list[FilteredRecord] = []
    for record in records:
        if record.kept and record.item_id in item_ids:
            record = replace(record, kept=False, rejected=reason)
        judged_records.append(record)
    return judged_records


def select_best_captions(candidates: pd.DataFrame) -> pd.Series:
    """Return for each image its best caption: the ranks by grammaticality and by perplexity have
    the lowest sum.

    Equal scores have equal ranks. Of captions with equal sums the lower perplexity decides, then
    alphabetical order.

    Args:
        candidates: Columns image, caption, caption_grammaticality (higher is better) and
            caption_perplexity (lower is better).
    Returns:
        The best caption by image.
    """
    captions = candidates.drop_duplicates(["image", "caption"])
    images = captions["image"]
    grammaticality = captions["caption_grammaticality"].astype(float)
    perplexity = captions["caption_perplexity"].astype(float)
    # Rank 1 is the best caption of an image.
    rank_sum = (-grammaticality).groupby(images).rank("dense") + perplexity.groupby(
        images
    ).rank("dense")
    ordered = captions.assign(rank_sum=rank_sum).sort_values(
        ["rank_sum", "caption_perplexity", "caption"]
    )
    return ordered.drop_duplicates("image").set_index("image")["caption"]


def find_worse_captions(candidates: pd.DataFrame) -> set[str]:
    """Return the ids of the candidates whose caption is not the best of its image."""
    best = candidates["image"].map(select_best_captions(candidates))
    return set(candidates.loc[candidates["caption"] != best, "item_id"])


def find_worse_wordings(candidates: pd.DataFrame) -> set[str]:
    """Return the ids of the candidates whose exchange has a more grammatical foil in the same
    caption.

    Wordings of an exchange have the same image, caption and exchanged phrases. Of equally
    grammatical foils the alphabetically first is kept, and of equal texts the lowest item id.
    """
    ordered = candidates.sort_values(
        ["grammaticality", "foil", "item_id"], ascending=[False, True, True]
    )
    # Lists cannot be compared as keys.
    exchanges = ordered.assign(
        caption_phrases=ordered["caption_phrases"].map(tuple),
        foil_phrases=ordered["foil_phrases"].map(tuple),
    )
    is_worse = exchanges.duplicated(
        ["image", "caption", "caption_phrases", "foil_phrases"]
    )
    return set(ordered.loc[is_worse, "item_id"])
