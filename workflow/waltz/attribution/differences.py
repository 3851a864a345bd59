"""Paired differences of T-SHAP: of captions and their foils (thesis 4.4.4), and of two models."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import combinations, starmap

import pandas as pd

from waltz.attribution.verbs import NO_IMAGE
from waltz.core.files.group_files import Run
from waltz.core.intervals import Resampling
from waltz.core.schema import ComparisonRecord, DifferenceRecord
from waltz.evaluation.metrics.paired_differences import (
    ClusteredNumber,
    DifferenceKey,
    ItemNumbers,
    PairedItem,
    build_difference_records,
    compare_item_numbers,
)
from waltz.evaluation.settings import ALIGNMENT, ALL_DATA_SETS, PAIRWISE
from waltz.fidelity import get_fidelity

CAPTION_LESS_FOIL = "t_shap_caption_less_foil"
"""T-SHAP of captions less T-SHAP of the foils of the same items."""
CAPTION_LESS_MISMATCHED = "t_shap_caption_less_mismatched"
"""T-SHAP of captions less T-SHAP of texts of other images."""
METRIC_OF_ROLE = {"foil": CAPTION_LESS_FOIL, "mismatched": CAPTION_LESS_MISMATCHED}
"""Metric by the role of the second text."""


def build_foil_differences(
    attributions: Mapping[Run, pd.DataFrame], resampling: Resampling
) -> list[DifferenceRecord]:
    """Build the records of T-SHAP of captions less T-SHAP of foils, and of texts of other images.

    Args:
        attributions: Frame of the columns `SHARE_COLUMNS` for each model and data set.
    Returns:
        Records as of `build_difference_records`; none for settings whose prompts show both texts,
        and for data sets without foils.
    """
    items: defaultdict[DifferenceKey, dict[str, list[PairedItem]]] = defaultdict(dict)
    for (model, dataset), frame in attributions.items():
        for names, group in frame.groupby(["profile", "setting"], sort=False):
            profile, setting = map(str, names)
            captions = group[group["role"] == "caption"]
            # A data set has foils, texts of other images, or neither.
            for role, metric in METRIC_OF_ROLE.items():
                foils = group[group["role"] == role]
                if not captions.empty and not foils.empty:
                    key = DifferenceKey(model, profile, setting, metric)
                    items[key][dataset] = _pair_texts(dataset, captions, foils)
    return build_difference_records(items, resampling, bounds={})


def compare_shares(
    attributions: Mapping[Run, pd.DataFrame], profile: str, resampling: Resampling
) -> list[ComparisonRecord]:
    """Compare T-SHAP of the captions of each pair of models, on each data set and over all.

    Args:
        attributions: Frame of the columns `SHARE_COLUMNS` for each model and data set.
        profile: The profile whose attributions are compared.
    Returns:
        Comparisons without Holm's correction, in the order of the models; those over several data
        sets have the data set `ALL_DATA_SETS`.
    """
    shares: dict[Run, ItemNumbers] = {}
    datasets_of_model: dict[str, list[str]] = {}
    for (model, dataset), frame in attributions.items():
        shares[model, dataset] = _list_caption_shares(frame, profile)
        datasets_of_model.setdefault(model, []).append(dataset)
    comparisons: list[ComparisonRecord] = []
    for model_a, model_b in combinations(datasets_of_model, 2):
        names = ComparisonRecord(
            profile=profile,
            dataset=ALL_DATA_SETS,
            setting="",
            metric="t_shap",
            model_a=model_a,
            model_b=model_b,
            n=0,
        )
        datasets = datasets_of_model[model_a]
        for dataset in datasets:
            comparison = compare_item_numbers(names, [dataset], shares, resampling)
            comparisons.append(comparison)
        if len(datasets) > 1:
            pooled = compare_item_numbers(names, datasets, shares, resampling)
            comparisons.append(pooled)
    return comparisons


def _list_caption_shares(frame: pd.DataFrame, profile: str) -> ItemNumbers:
    """Return T-SHAP of the captions in percent; of decoders, that of the choice between both texts."""
    is_shown = (
        (frame["role"] == "caption")
        & (frame["profile"] == profile)
        & frame["setting"].isin([ALIGNMENT, PAIRWISE])
    )
    captions = frame[is_shown].dropna(subset=["t_shap"])
    if captions.empty:
        return {}
    shares = _list_shares(captions)
    numbers = zip(
        shares["image"].fillna(NO_IMAGE),
        shares["share"],
        shares["error"],
        shares["draws"],
        strict=True,
    )
    return dict(zip(shares["item_id"], starmap(ClusteredNumber, numbers), strict=True))


def _pair_texts(
    dataset: str, captions: pd.DataFrame, foils: pd.DataFrame
) -> list[PairedItem]:
    """Return T-SHAP of the caption and of the foil of each item, in percent."""
    # One row for each item that has a caption or a foil; the columns of the foil have the suffix.
    pairs = _list_shares(captions).merge(
        _list_shares(foils), on="item_id", how="outer", suffixes=("", "_foil")
    )
    images = pairs["image"].fillna(pairs["image_foil"]).fillna(NO_IMAGE)
    # An undefined T-SHAP is NaN here, and None in a pair.
    optional_shares = pairs[["share", "share_foil"]].astype(object)
    optional_shares = optional_shares.where(optional_shares.notna(), None)
    return [
        PairedItem(item_id, dataset, *numbers)
        for item_id, *numbers in zip(
            pairs["item_id"],
            images,
            optional_shares["share"],
            optional_shares["share_foil"],
            pairs["error"].fillna(0.0),
            pairs["error_foil"].fillna(0.0),
            pairs["draws"].fillna(""),
            pairs["draws_foil"].fillna(""),
            strict=True,
        )
    ]


def _list_shares(frame: pd.DataFrame) -> pd.DataFrame:
    """Return T-SHAP of each text in percent (`share`), its standard error if the estimator draws with
    the seed of the run (`error`, else 0), and the name of its draws (`draws`).

    Args:
        frame: Rows of one profile, at least one.
    """
    # Without a standard error a number counts as exact.
    error = 100 * frame["t_shap_se"].astype(float).fillna(0.0)
    if get_fidelity(str(frame["profile"].iat[0])).estimator_seed != "run":
        error = 0 * error
    return frame[["item_id", "image"]].assign(
        share=100 * frame["t_shap"].astype(float),
        error=error,
        # As many coalitions are those of as many players.
        draws=frame["requested"].astype(str),
    )
