"""Paired differences of T-SHAP of captions and of their foils (thesis 4.4.4)."""

from collections import defaultdict
from collections.abc import Mapping

import pandas as pd

from waltz.attribution.verbs import NO_IMAGE
from waltz.core.files.group_files import Run
from waltz.core.intervals import Resampling
from waltz.core.schema import DifferenceRecord
from waltz.evaluation.metrics.paired_differences import (
    DifferenceKey,
    PairedItem,
    build_difference_records,
)

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


def _pair_texts(
    dataset: str, captions: pd.DataFrame, foils: pd.DataFrame
) -> list[PairedItem]:
    """Return T-SHAP of the caption and of the foil of each item, in percent."""
    columns = ["item_id", "image", "t_shap"]
    # One row for each item that has a caption or a foil; the columns of the foil have the suffix.
    pairs = captions[columns].merge(
        foils[columns], on="item_id", how="outer", suffixes=("", "_foil")
    )
    images = pairs["image"].fillna(pairs["image_foil"]).fillna(NO_IMAGE)
    # In percent; an undefined T-SHAP is NaN here, and None in a pair.
    shares = 100 * pairs[["t_shap", "t_shap_foil"]].astype(float)
    optional_shares = shares.astype(object).where(shares.notna(), None)
    return [
        PairedItem(item_id, dataset, image, caption, foil)
        for item_id, image, caption, foil in zip(
            pairs["item_id"],
            images,
            optional_shares["t_shap"],
            optional_shares["t_shap_foil"],
            strict=True,
        )
    ]
