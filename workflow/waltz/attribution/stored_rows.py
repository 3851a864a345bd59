"""What rows of the attribution layout have in common for encoders and decoders: columns, stored
values, counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from waltz.attribution.engine import Attribution
from waltz.attribution.shapley.estimate import AttributionSettings, to_null
from waltz.core.files import result_cache
from waltz.fidelity import get_fidelity
from waltz.models.games import pack_values, unpack_values

Row = dict[str, Any]
Content = Mapping[str, Any]
"""Everything that decides stored values, under the names that it has in the keys of stored results.
"""


@dataclass(frozen=True, kw_only=True)
class StepSettings:
    """Hold the settings of a step that attributes items of data sets, as a study states them.

    Attributes:
        estimation: Fields of `AttributionSettings`, by profile.
        seed: Seed of the samples and of the estimators.
        sample: Number of the scored items that are attributed; None for all.
        scored: Which items are scored: `valid` or `all`.
        scored_sample: Number of items of each data set that are scored; None for all.
        value: The explained value of a decoder's token, for `equations`: a key of
            `continuations.OUTCOMES`; None takes its probability.
    """

    estimation: Mapping[str, Mapping[str, Any]]
    seed: int
    sample: int | None
    scored: str = "all"
    scored_sample: int | None = None
    value: str | None = None

    def build_settings(self, profile: str) -> AttributionSettings:
        """Return the settings of the estimation in a profile."""
        return AttributionSettings(
            get_fidelity(profile), seed=self.seed, **self.estimation[profile]
        )


def build_columns(attribution: Attribution) -> Row:
    """Return the columns of the layout `ATTRIBUTION` for one attribution.

    Text players come before patches, even if the game has another order. NaN becomes null, and the
    reason stays. The score is null if several outputs are explained.
    """
    estimate, t_shap = attribution.estimate, attribution.t_shap
    columns = {
        "score": attribution.score if len(estimate.value) == 1 else None,
        "tokens": list(attribution.tokens),
        "spans": [
            {"start": span["start"], "end": span["end"]} for span in attribution.spans
        ],
        "grid": attribution.grid,
        "phi": attribution.phi_text_first.tolist(),
        "base_value": estimate.base_value.tolist(),
        "value": estimate.value.tolist(),
        "t_shap": to_null(t_shap.value),
        "t_shap_se": to_null(t_shap.standard_error),
        "reason": t_shap.reason,
        "estimator": attribution.estimator,
        "requested": estimate.requested,
        "evaluated": attribution.evaluated,
        "residual": estimate.residual,
        "seed": attribution.seed,
    }
    # Values without a modality are stored only where they were computed.
    if attribution.without_text is not None and attribution.without_image is not None:
        columns["without_text"] = attribution.without_text.tolist()
        columns["without_image"] = attribution.without_image.tolist()
    return columns


def count_outcomes(rows: Sequence[Row]) -> dict[str, int]:
    """Count the evaluations, the errors and the missing T-SHAP values of a data set, for its run
    record.
    """
    counts = {
        "requested": 0,
        "evaluated": 0,
        "rows_with_error": 0,
        "rows_without_t_shap": 0,
    }
    for row in rows:
        counts["requested"] += row.get("requested") or 0
        counts["evaluated"] += row.get("evaluated") or 0
        counts["rows_with_error"] += row.get("error") is not None
        counts["rows_without_t_shap"] += row.get("t_shap") is None
    return counts


def build_coalitions_key(content: Content, settings: AttributionSettings) -> Row:
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
