"""Caption against foil by a language model that reads no image (thesis 3.4, rows GPT1 and GPT2).

Both profiles give a score, minus the natural logarithm of the perplexity, so that higher is better:

- `equations`: minus the mean negative log-likelihood per token, given the start token and all tokens before
  it. Without a start token (GPT-1) the first token has no context and is not scored.
- `published`: the released script. No start token; windows of stride 3, each scored by the mean of its last
  three tokens, the means summed and divided by the number of windows *minus one*. A text of up to three
  tokens divides by zero: its perplexity is infinite.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.jobs.records import show_progress
from waltz.core.records import read_records
from waltz.core.rounding import compute_logit_rounding, is_tied
from waltz.core.schema import EvaluationRecord, ItemRecord
from waltz.evaluation.items import select_items
from waltz.evaluation.settings import PERPLEXITY, LikelihoodSettings
from waltz.fidelity import Fidelity, get_fidelity
from waltz.models.batches import Tokens
from waltz.models.text.causal import (
    CausalModel,
    TextScore,
    compute_mean_log_likelihoods,
    compute_token_losses,
)

STRIDE = 3
"""Number of tokens by which the windows of the released script advance."""


def score_pairs(
    items: Sequence[ItemRecord],
    model: CausalModel,
    profiles: Sequence[str],
    tokens_per_batch: int,
    stored: Path,
    done: Callable[[int], object],
) -> list[EvaluationRecord]:
    """Return a record for caption and foil of each item, in each profile.

    Args:
        items: Items of a benchmark.
        model: A loaded language model.
        profiles: Names of the profiles.
        tokens_per_batch: Maximum number of tokens in one forward pass.
        stored: File of finished batches.
        done: Called with the number of texts in each finished batch.
    """
    records: list[EvaluationRecord] = []
    texts: list[str] = []
    for item in items:
        texts += [item.caption, item.foil]
    for profile in profiles:
        scores = compute_text_scores(
            texts, model, get_fidelity(profile), tokens_per_batch, stored, done
        )
        for item in items:
            caption, foil = scores[item.caption], scores[item.foil]
            prediction = predict_caption(caption, foil, model.spec.dtype)
            is_correct = None if prediction is None else prediction == "caption"
            for role, score in (("caption", caption), ("foil", foil)):
                records.append(
                    EvaluationRecord(
                        item_id=item.item_id,
                        role=role,
                        profile=profile,
                        setting=PERPLEXITY,
                        image=item.image,
                        score=score.value,
                        rounding=_compute_rounding(score, model.spec.dtype),
                        tokens=score.tokens,
                        prediction=prediction,
                        correct=is_correct,
                        error=score.error,
                    )
                )
    return records


def predict_caption(caption: TextScore, foil: TextScore, dtype: str) -> str | None:
    """Predict which text is the caption: `caption` or `foil`, whichever scores higher, or `tie`
    within rounding.

    The prediction is None if a score is missing.

    Args:
        caption: Score of the caption.
        foil: Score of the foil.
        dtype: Precision of the model.
    """
    if caption.value is None or foil.value is None:
        return None
    # The rounding of a difference is the larger rounding of both scores.
    rounding = max(
        compute_logit_rounding(caption.value, dtype),
        compute_logit_rounding(foil.value, dtype),
    )
    if is_tied(caption.value, foil.value, rounding):
        return "tie"
    return "caption" if caption.value > foil.value else "foil"


def _compute_rounding(score: TextScore, dtype: str) -> float | None:
    return None if score.value is None else compute_logit_rounding(score.value, dtype)


def count_ties(records: Sequence[EvaluationRecord]) -> dict[str, int]:
    """Count the ties and the items without a score, summed over the profiles."""
    # Caption and foil have the same prediction, so one record of each pair counts.
    predictions = [record.prediction for record in records if record.role == "caption"]
    return {
        "ties": predictions.count("tie"),
        "unscored_items": predictions.count(None),
    }


def compute_text_scores(
    texts: Sequence[str],
    model: CausalModel,
    fidelity: Fidelity,
    tokens_per_batch: int,
    stored: Path,
    done: Callable[[int], object],
) -> dict[str, TextScore]:
    """Return the score of each distinct text by the rule of a profile.

    Batches depend only on the set of texts and `tokens_per_batch`, so that stored batches are found
    again.
    """
    if fidelity.perplexity == "mean":
        return compute_mean_log_likelihoods(
            texts, model, tokens_per_batch, stored, done
        )
    ids, unreadable = model.tokenize_texts(texts)
    # Caption and foil share the windows before the foiled word; each window is computed once.
    windows: set[Tokens] = set()
    for tokens in ids.values():
        windows.update(_cut_windows(tokens, model.window))
    losses = compute_token_losses(windows, model, tokens_per_batch, stored, done)
    scores = dict(unreadable)
    for text, tokens in ids.items():
        scores[text] = _compute_strided_score(tokens, losses, model.window)
    return scores


def _cut_windows(tokens: Tokens, window: int) -> list[Tokens]:
    """Return the distinct token sequences whose losses the strided windows need.

    A text that fits into the window of the model needs only one sequence.
    """
    return list(
        dict.fromkeys(
            tokens[begin : begin + window]
            for begin, _ in _list_window_spans(len(tokens), window)
        )
    )


def _list_window_spans(length: int, window: int) -> list[tuple[int, int]]:
    """Return the first and the last (exclusive) token of each window of the released script.

    Args:
        length: Number of tokens of the text.
        window: Number of tokens that the model reads at most.
    """
    # A window ends STRIDE tokens after the end of the window before, and is as long as the model
    # reads.
    return [
        (max(first + STRIDE - window, 0), min(first + STRIDE, length))
        for first in range(0, length, STRIDE)
    ]


def _compute_strided_score(
    tokens: Tokens, losses: dict[Tokens, np.ndarray], window: int
) -> TextScore:
    """Return the score of a text by the released script.

    It is minus the sum of the mean losses of all windows, divided by the number of windows minus
    one.
    """
    if not tokens:
        return TextScore(None, 0, "the text is empty")
    spans = _list_window_spans(len(tokens), window)
    if len(spans) == 1:
        return TextScore(-math.inf, len(tokens))  # the script divides by zero
    means = []
    for begin, end in spans:
        # The first token of a window has no context, and only the last STRIDE tokens are not in the
        # window before.
        window_losses = losses[tokens[begin : begin + window]]
        first_scored = max(end - begin - STRIDE, 1)
        scored = window_losses[first_scored : end - begin]
        means.append(math.fsum(scored) / len(scored))
    return TextScore(-math.fsum(means) / (len(spans) - 1), len(tokens))


def score_datasets(
    model: CausalModel,
    datasets: Iterable[DatasetFiles],
    cache: Path,
    settings: LikelihoodSettings,
) -> Iterator[DatasetResult]:
    """Score captions and foils with one language model.

    Args:
        model: A loaded language model.
        datasets: Files of the data sets.
        cache: File of finished batches.
        settings: Profiles, items and size of a batch.
    Yields:
        For each data set, rows of the evaluation layout under the name `scores`.
    """
    for dataset in datasets:
        benchmark = list(read_records(dataset.rows, ItemRecord))
        items = select_items(benchmark, settings.scored, settings.sample, settings.seed)
        profiles = dataset.select_profiles(settings.profiles)
        n_texts = 2 * len(items) * len(profiles)
        with show_progress(n_texts, "text", f"{model.spec.name} {dataset.name}") as bar:
            records = score_pairs(
                items, model, profiles, settings.tokens_per_batch, cache, bar.update
            )
        facts = count_ties(records)
        yield DatasetResult(dataset, {"scores": records}, len(items), facts)
