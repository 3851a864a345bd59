"""All filters of an instrument over its candidates, one after the other; each text is scored once.

Modules that need models are imported where they are used: most instruments have no filter, and torch takes seconds
to import.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waltz.core.errors import UserError
from waltz.filters.ranking import READS_WORSE, WORDED_WORSE, find_worse_captions, find_worse_wordings
from waltz.filters.verdicts import Thresholds, apply_thresholds

if TYPE_CHECKING:
    from waltz.models.batches import ProgressCallback
    from waltz.models.text.causal import CausalModel
    from waltz.models.text.classifier import Classifier
    from waltz.models.text.masked import MaskedModel

RANKING_TOKENS = 2048
"""Most tokens in one forward pass of the ranking model."""

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


def filter_candidates(
    candidates: Sequence[Mapping[str, Any]],
    models: FilterModels,
    filters: Sequence[str],
    grammaticality: float | None,
    cache_folder: Path,
    on_progress: "ProgressCallback",
) -> tuple[Rows, Rows]:
    """Score and judge every candidate that its instrument's rules can use.

    Args:
        candidates: Rows of the candidates layout.
        models: The models that `filters` use.
        filters: Any of `grammaticality`, `contradiction`, `ranking`.
        grammaticality: Lowest grammaticality of a foil that is kept.
        cache_folder: Folder of cached batches.
        on_progress: Called with the number of texts of each batch.
    Returns:
        Rows of the filtered layout, and the candidates whose verdict depends on the last digits.
    """
    usable = [row for row in candidates if row["rejected"] is None]
    checks_grammar, checks_nli = "grammaticality" in filters, "contradiction" in filters
    scores = (
        _score_grammaticality({row["foil"] for row in usable}, models, cache_folder, on_progress)
        if checks_grammar
        else None
    )
    inferences = None
    if checks_nli:
        from waltz.filters.nli import infer_relations

        assert models.nli is not None
        inferences = infer_relations(
            [(row["caption"], row["foil"]) for row in usable], models.nli, cache_folder, on_progress
        )
    rows, close = apply_thresholds(
        candidates, Thresholds(grammaticality if checks_grammar else None, checks_nli), scores, inferences
    )
    unranked = {"caption_grammaticality": None, "caption_perplexity": None}
    rows = [{**row, **unranked} for row in rows]
    return (_rank(rows, models, cache_folder, on_progress) if "ranking" in filters else rows), close


def _score_grammaticality(
    texts: set[str], models: FilterModels, cache_folder: Path, on_progress: "ProgressCallback"
) -> dict[str, float]:
    from waltz.filters.gruen import score_texts

    assert models.likelihood is not None
    assert models.acceptability is not None
    return score_texts(sorted(texts), models.likelihood, models.acceptability, cache_folder, on_progress)


def _rank(rows: Rows, models: FilterModels, cache_folder: Path, on_progress: "ProgressCallback") -> Rows:
    """Score the texts of kept candidates; keep the best caption of an image, and the best wording of each exchange."""
    from waltz.models.text.causal import compute_mean_log_likelihoods

    assert models.ranking is not None
    kept_rows = [row for row in rows if row["kept"]]
    captions = sorted({row["caption"] for row in kept_rows})
    scores = _score_grammaticality(
        {row[side] for row in kept_rows for side in ("caption", "foil")}, models, cache_folder, on_progress
    )
    likelihoods = compute_mean_log_likelihoods(captions, models.ranking, RANKING_TOKENS, cache_folder, on_progress)
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
