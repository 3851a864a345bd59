"""What the records of attributions have in common for encoders and decoders: their values, the
cache of results, and the counts of a run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from waltz.attribution.engine import Attribution
from waltz.attribution.item_selection import SampleSettings
from waltz.attribution.prompt_attribution import PromptSettings
from waltz.attribution.shapley.estimate import AttributionSettings, to_null
from waltz.core.errors import UserError
from waltz.core.files import result_cache
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.jobs.records import show_progress
from waltz.core.records import from_row, to_row
from waltz.core.sampling import derive_seed
from waltz.core.schema import AttributionRecord, StoredSpan
from waltz.fidelity import get_fidelity
from waltz.models.games import pack_values, unpack_values
from waltz.sources.images import ImageSource, open_images

Content = Mapping[str, Any]
"""Everything that decides stored values, under the names that it has in the keys of stored results.
"""
ADDED_COLUMNS = {"t_shap_corrected": None}
"""Columns that rows lack which an earlier version stored, with their value."""
NAME_COLUMNS = (
    "item_id",
    "role",
    "profile",
    "setting",
    "image",
    "text",
    "explained",
)
"""Columns that name a text; the other columns of an attribution are its values."""


@dataclass(frozen=True, kw_only=True)
class StepSettings(SampleSettings):
    """Hold the settings of a step that attributes items of data sets, as a study states them.

    Attributes:
        estimation: Fields of `AttributionSettings`, by profile.
        value: The explained value of a decoder's token, for `equations`: a key of
            `continuations.OUTCOMES`; None takes its probability.
    """

    estimation: Mapping[str, Mapping[str, Any]]
    value: str | None = None

    def build_settings(self, profiles: Iterable[str]) -> list[AttributionSettings]:
        """Return the settings of the estimation in some profiles."""
        return [
            AttributionSettings(
                get_fidelity(profile), seed=self.seed, **self.estimation[profile]
            )
            for profile in profiles
        ]


Settings = TypeVar("Settings", AttributionSettings, PromptSettings)


def set_item_seed(settings: Settings, dataset: str, item_id: str) -> Settings:
    """Return the settings with the seed of one item: its own, or that of the run in `published`.

    All texts of an item have the same seed: caption and foil, or an answer and its explanation, are
    compared on the same draws.

    Args:
        settings: Settings with the seed of the run.
        dataset: Name of the data set in the study.
    """
    if settings.fidelity.estimator_seed == "run":
        return settings
    return replace(settings, seed=derive_seed(dataset, item_id, settings.seed))


Item = TypeVar("Item")
AttributeItems = Callable[
    [AttributionSettings, Sequence[Item], ImageSource, Callable[[int], object]],
    list[AttributionRecord],
]
"""Function that attributes items with some settings; it calls its last argument with 1 after each
item.
"""


def attribute_selected_items(
    model: str,
    dataset: DatasetFiles,
    selected: Mapping[AttributionSettings, Sequence[Item]],
    attribute: AttributeItems[Item],
    facts: Mapping[str, object],
) -> DatasetResult:
    """Attribute the selected items of a data set, and return their records with counts for the run
    record.

    Args:
        model: Name of the model.
        selected: The items for the settings of each profile.
        facts: Further facts of the run record.
    """
    total = sum(len(items) for items in selected.values())
    records: list[AttributionRecord] = []
    with (
        open_images(dataset.images) as images,
        show_progress(total, "item", f"{model} {dataset.name}") as bar,
    ):
        for settings, items in selected.items():
            records += attribute(settings, items, images, bar.update)
    return DatasetResult(
        dataset, {"rows": records}, total, {**facts, **count_attributions(records)}
    )


def add_values(
    record: AttributionRecord, attribution: Attribution
) -> AttributionRecord:
    """Return a record that names a text with the values of the text's attribution.

    Text players come before patches, even if the game has another order. NaN becomes null, and the
    reason stays. The score is null if several outputs are explained.
    """
    estimate, t_shap = attribution.estimate, attribution.t_shap
    return replace(
        record,
        score=attribution.score if len(estimate.value) == 1 else None,
        tokens=list(attribution.tokens),
        spans=[StoredSpan(span["start"], span["end"]) for span in attribution.spans],
        grid=attribution.grid,
        phi=attribution.phi_text_first.tolist(),
        base_value=estimate.base_value.tolist(),
        value=estimate.value.tolist(),
        t_shap=to_null(t_shap.value),
        t_shap_se=to_null(t_shap.standard_error),
        t_shap_corrected=to_null(t_shap.corrected),
        reason=t_shap.reason,
        estimator=attribution.estimator,
        requested=estimate.requested,
        evaluated=attribution.evaluated,
        residual=estimate.residual,
        without_text=_to_list(attribution.without_text),
        without_image=_to_list(attribution.without_image),
        seed=attribution.seed,
    )


def _to_list(values: np.ndarray | None) -> list[float] | None:
    if values is None:
        return None
    numbers: list[float] = values.tolist()
    return numbers


def add_error(
    records: Sequence[AttributionRecord], error: UserError
) -> list[AttributionRecord]:
    """Return records with the error that prevented their attributions."""
    return [replace(record, error=str(error)) for record in records]


def load_or_attribute(
    folder: Path,
    key: Content,
    records: Sequence[AttributionRecord],
    attribute: Callable[[], list[AttributionRecord]],
) -> list[AttributionRecord]:
    """Return records with the values of their attributions, from the cache of results if they are
    stored there.

    Args:
        key: Everything that decides the values.
        records: Records that name the texts, without values.
        attribute: Function that returns the records with their values.
    """
    rows = result_cache.load_or_compute_json(
        folder, key, lambda: [to_row(record) for record in attribute()]
    )
    attributed = []
    for record, row in zip(records, rows, strict=True):
        # Another item with the same image and texts may have stored the values under its names.
        names = {column: getattr(record, column) for column in NAME_COLUMNS}
        attributed.append(
            from_row({**ADDED_COLUMNS, **row, **names}, AttributionRecord)
        )
    return attributed


def count_attributions(records: Sequence[AttributionRecord]) -> dict[str, int]:
    """Count the evaluations, the errors and the missing T-SHAP values of a data set, for its run
    record.
    """
    counts = {
        "requested": 0,
        "evaluated": 0,
        "rows_with_error": 0,
        "rows_without_t_shap": 0,
    }
    for record in records:
        counts["requested"] += record.requested or 0
        counts["evaluated"] += record.evaluated or 0
        counts["rows_with_error"] += record.error is not None
        counts["rows_without_t_shap"] += record.t_shap is None
    return counts


def build_coalitions_key(content: Content, settings: AttributionSettings) -> Content:
    """Return the key under which the values of an item's coalitions are stored: its content and
    some settings.

    The estimator is part of the key, because values that are computed in other batches can differ
    in their last digits, and each estimator requests its coalitions in other batches. The number of
    evaluations is not part of the key, so that a run with more evaluations continues where a run
    with fewer ended.
    """
    return {
        **content,
        "profile": settings.profile,
        "estimator": settings.estimator,
        "seed": settings.seed,
        "grid": settings.grid,
    }


@contextmanager
def keep_coalitions(
    folder: Path, content: Content, games: int
) -> Iterator[list[dict[bytes, np.ndarray]]]:
    """Yield the stored values of each game, by coalition, and store the values again when the block
    ends.

    The block adds the values that it computes.

    Args:
        content: Everything that decides the values; see `build_coalitions_key`.
        games: Number of games, whose values are stored one by one.
    """
    key = result_cache.compute_key(**content)
    known_values: list[dict[bytes, np.ndarray]] = []
    for game in range(games):
        packed = result_cache.load(folder, f"{key}-{game}")
        known_values.append({} if packed is None else unpack_values(packed))
    yield known_values
    # This part is reached only if the block raised no error.
    for game, values in enumerate(known_values):
        if values:
            result_cache.save(folder, f"{key}-{game}", pack_values(values))
