"""Scores of texts and images by an alignment encoder: caption and foil of an item, and the
conditions of CV-Probes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.jobs.records import show_progress
from waltz.core.records import read_records
from waltz.core.rounding import compute_logit_rounding
from waltz.core.schema import EvaluationRecord, ItemRecord, ProbeRecord
from waltz.evaluation.items import list_texts, select_items
from waltz.evaluation.predictions import (
    compute_match_probability,
    predict_pair_text,
    predict_probe_text,
)
from waltz.evaluation.settings import (
    ALIGNMENT,
    EXPECTED_PREDICTION,
    RIGHT_PREDICTION,
    ScoringSettings,
)
from waltz.evaluation.valse_script import (
    build_valse_records,
    cut_text,
    is_scored_by_valse_script,
)
from waltz.fidelity import Fidelity, get_fidelity
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.encoders.alignment import (
    PairScore,
    compute_pair_scores,
    select_log_odds_and_match_logit,
    select_logit,
)
from waltz.models.encoders.encoder import Encoder
from waltz.models.regions import load_image_or_regions
from waltz.sources.images import ImageSource, load_image, open_images


def score_items(
    encoder: Encoder,
    items: Sequence[ItemRecord | ProbeRecord],
    images: ImageSource,
    profiles: Sequence[str],
    stored: Path | None = None,
    done: ProgressCallback = ignore_progress,
) -> list[EvaluationRecord]:
    """Return a record for each text of each item, in each profile.

    The profiles share the logits and differ in the prediction. A text that the model cannot read,
    or whose image cannot be opened, has a record with an error. A model without a probability of a
    match has no predictions. Pairs that VALSE's script scores have records of its rules as well, in
    setting `valse-script`.

    Args:
        encoder: A loaded encoder.
        items: Items of a benchmark, with caption and foil, or of CV-Probes, with one caption each.
        images: Images by name.
        profiles: Names of the profiles.
        stored: File of finished blocks; None stores nothing.
        done: Called with the number of distinct pairs of image and text in each finished block.
    """
    rules = list(map(get_fidelity, profiles))
    pairs = [(item.image, text) for item in items for _, text in list_texts(item)]
    of_script = []
    if any(fidelity.valse_script for fidelity in rules):
        of_script = list(filter(partial(is_scored_by_valse_script, encoder), items))
    for item in of_script:
        for _, text in list_texts(item):
            pairs.append((item.image, cut_text(encoder, text)))
    # Each distinct image and text is scored once, for all profiles.
    scores = compute_pair_scores(
        encoder,
        pairs,
        lambda name: load_image_or_regions(
            encoder, name, lambda: load_image(images, name)
        ),
        stored,
        done,
        select_log_odds_and_match_logit if of_script else select_logit,
    )
    records = []
    for fidelity in rules:
        for item in items:
            for role, text in list_texts(item):
                score = scores[item.image, text]
                records.append(
                    build_alignment_record(item, role, score, encoder, fidelity)
                )
        if fidelity.valse_script:
            for item in of_script:
                records += build_valse_records(item, scores, encoder, fidelity)
    return records


def build_alignment_record(
    item: ItemRecord | ProbeRecord,
    role: str,
    pair: PairScore,
    encoder: Encoder,
    fidelity: Fidelity,
) -> EvaluationRecord:
    """Return the record of a text, with the score and the prediction of the encoder.

    Args:
        item: The item of the text.
        role: Role of the text in the item.
        pair: Score of the item's image and the text.
        encoder: The encoder, which states whether the sigmoid of its logit is a probability of a
            match.
        fidelity: The rules of the prediction.
    """
    rounding = probability = prediction = is_correct = None
    if pair.logit is not None:
        rounding = compute_logit_rounding(pair.logit, encoder.spec.dtype)
    if pair.logit is not None and encoder.probability:
        probability = compute_match_probability(pair.logit, fidelity)
        # In CV-Probes a caption may not match its image, so that the item states what is right.
        if isinstance(item, ProbeRecord):
            expected = EXPECTED_PREDICTION[item.match]
            prediction = predict_probe_text(pair.logit, probability, fidelity)
        else:
            expected = RIGHT_PREDICTION[role]
            prediction = predict_pair_text(pair.logit, probability, fidelity)
        is_correct = prediction == expected
    return EvaluationRecord(
        item_id=item.item_id,
        role=role,
        profile=fidelity.name,
        setting=ALIGNMENT,
        image=item.image,
        score=pair.logit,
        rounding=rounding,
        tokens=pair.tokens,
        probability=probability,
        prediction=prediction,
        correct=is_correct,
        error=pair.error,
    )


def count_unscored(records: Iterable[EvaluationRecord]) -> dict[str, object]:
    """Count the texts without a score, summed over the profiles, and list the most frequent errors."""
    errors = Counter(record.error for record in records if record.error is not None)
    return {"unscored_texts": errors.total(), "errors": dict(errors.most_common(10))}


def score_datasets(
    encoder: Encoder,
    datasets: Iterable[DatasetFiles],
    cache: Path,
    settings: ScoringSettings,
) -> Iterator[DatasetResult]:
    """Score captions and foils, and the captions of CV-Probes, with one encoder.

    Args:
        encoder: A loaded encoder.
        datasets: Files of the data sets.
        cache: File of finished blocks.
        settings: Profiles and items.
    Yields:
        For each data set, rows of the evaluation layout under the name `scores`.
    """
    for dataset in datasets:
        items: Sequence[ItemRecord | ProbeRecord]
        # CV-Probes has another layout, and all its items are scored.
        if "condition" in parquet.read_schema(dataset.rows).names:
            items = list(read_records(dataset.rows, ProbeRecord))
        else:
            benchmark = list(read_records(dataset.rows, ItemRecord))
            items = select_items(
                benchmark, settings.scored, settings.sample, settings.seed
            )
        profiles = dataset.select_profiles(settings.profiles)
        n_texts = sum(len(list_texts(item)) for item in items)
        label = f"{encoder.spec.name} {dataset.name}"
        with (
            open_images(dataset.images) as images,
            show_progress(n_texts, "text", label) as bar,
        ):
            records = score_items(encoder, items, images, profiles, cache, bar.update)
        facts = count_unscored(records)
        yield DatasetResult(dataset, {"scores": records}, len(items), facts)
