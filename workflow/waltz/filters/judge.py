"""All filters of an instrument over its candidates, one after the other; each text is read once.

What asks models is imported where it is used: most instruments have no filter, and torch takes seconds to import.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waltz.core.errors import UserError
from waltz.filters.ranking import READS_WORSE, WORDED_WORSE, worse_captions, worse_wordings
from waltz.filters.verdicts import Thresholds, judged

if TYPE_CHECKING:
    from waltz.models.batches import ProgressCallback
    from waltz.models.text.causal import CausalModel
    from waltz.models.text.classifier import Classifier
    from waltz.models.text.masked import MaskedModel

TOKENS = 2048
"""Most tokens in one forward pass of the ranking model."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Judges:
    """The models that filters ask; those that no filter of the instrument asks are None.

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


def judge(
    candidates: Sequence[Mapping[str, Any]],
    judges: Judges,
    filters: Sequence[str],
    grammaticality: float | None,
    stored: Path,
    done: "ProgressCallback",
) -> tuple[Rows, Rows]:
    """Scores and verdicts of every candidate that its instrument's rules can use.

    Args:
        candidates: Rows of the candidates layout.
        judges: The models that `filters` ask.
        filters: Which of `grammaticality`, `contradiction`, `ranking`.
        grammaticality: Lowest grammaticality of a foil that is kept.
        stored: Folder of finished batches.
        done: Told how many texts another batch finished.
    Returns:
        Rows of the filtered layout, and the candidates whose verdict hangs on the last digits.
    """
    usable = [row for row in candidates if row["rejected"] is None]
    asks_grammar, asks_nli = "grammaticality" in filters, "contradiction" in filters
    scores = _grammaticality({row["foil"] for row in usable}, judges, stored, done) if asks_grammar else None
    inferences = None
    if asks_nli:
        from waltz.filters.nli import infer

        assert judges.nli is not None
        inferences = infer([(row["caption"], row["foil"]) for row in usable], judges.nli, stored, done)
    rows, close = judged(candidates, Thresholds(grammaticality if asks_grammar else None, asks_nli), scores, inferences)
    unranked = {"caption_grammaticality": None, "caption_perplexity": None}
    rows = [{**row, **unranked} for row in rows]
    return (_ranked(rows, judges, stored, done) if "ranking" in filters else rows), close


def _grammaticality(texts: set[str], judges: Judges, stored: Path, done: "ProgressCallback") -> dict[str, float]:
    from waltz.filters.gruen import score_texts

    assert judges.likelihood is not None
    assert judges.acceptability is not None
    return score_texts(sorted(texts), judges.likelihood, judges.acceptability, stored, done)


def _ranked(rows: Rows, judges: Judges, stored: Path, done: "ProgressCallback") -> Rows:
    """The kept candidates with scores of their texts; only the best caption of an image stays, and of the foils that
    make one exchange in it the best worded."""
    from waltz.models.text.causal import compute_mean_log_likelihoods

    assert judges.ranking is not None
    kept = [row for row in rows if row["kept"]]
    captions = sorted({row["caption"] for row in kept})
    scores = _grammaticality({row[side] for row in kept for side in ("caption", "foil")}, judges, stored, done)
    likelihoods = compute_mean_log_likelihoods(captions, judges.ranking, TOKENS, stored, done)
    for row in kept:
        likelihood = likelihoods[row["caption"]]
        if likelihood.value is None:
            raise UserError(f"{row['item_id']}: its caption cannot be ranked: {likelihood.error}")
        row["grammaticality"] = scores[row["foil"]]
        row["caption_grammaticality"] = scores[row["caption"]]
        row["caption_perplexity"] = math.exp(-likelihood.value)
    for reason, worse in ((READS_WORSE, worse_captions), (WORDED_WORSE, worse_wordings)):
        lost = worse([row for row in rows if row["kept"]])
        rows = [{**row, "kept": False, "rejected": reason} if row["item_id"] in lost else row for row in rows]
    return rows
