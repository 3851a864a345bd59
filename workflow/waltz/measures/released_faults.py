"""Deviations of the released code from the definitions, switched on one by one: their effect on T-SHAP and CC-SHAP."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from waltz.consistency.cc_shap.rows import explain_datasets
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import Resampling
from waltz.fidelity import EQUATIONS, PROFILES, PUBLISHED
from waltz.measures.rows import Row, average, build_row
from waltz.models.decoders.decoder import Decoder

MEASUREMENT = "released_faults"
QUANTITIES = {"cc_shap": "value", "t_shap_answer": "t_shap_answer", "t_shap_explanation": "t_shap_explanation"}
"""Column of the layout `CC_SHAP` of each quantity."""
SWITCHES = {
    "first step only": ("first_step_only",),
    "weak outputs kept": ("drops_weak_outputs",),
    "outputs by magnitude": ("output_weights",),
    "suffix by count": ("shared_players", "ratio_total"),
    "end token explained": ("keeps_end_token",),
    "special tokens play": ("special_tokens_play",),
}
"""Fields of `Fidelity` that are set as in the released code; the others stay those of `equations`."""
Values = dict[tuple[str, str, str], dict[str, float]]
"""Quantities of an item, in percent but for CC-SHAP, by data set, item and kind of explanation."""


@contextmanager
def switch_on(fields: Sequence[str]) -> Iterator[None]:
    """Let profile `equations` follow the released code in some fields, within the block."""
    changes: dict[str, Any] = {field: getattr(PUBLISHED, field) for field in fields}
    PROFILES["equations"] = replace(EQUATIONS, **changes)
    try:
        yield
    finally:
        PROFILES["equations"] = EQUATIONS


def compute_cc_shap_values(
    decoder: Decoder, datasets: Sequence[DatasetFiles], sample: int, permutations: int, tokens: int, seed: int
) -> tuple[Values, list[Row]]:
    """Return CC-SHAP and T-SHAP of answers and explanations of each item, and their rows with the data set.

    Args:
        sample: Number of items a data set.
        permutations: Permutations of a prompt's players, each with its reverse.
        tokens: Most tokens of an explanation.
    """
    found: Values = {}
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:  # stored results know profiles by their names alone
        for result in explain_datasets(
            decoder,
            datasets,
            ["equations"],
            Path(folder) / "stored.sqlite",
            sample=sample,
            seed=seed,
            seeds=[seed],
            cc_shap={"permutations": permutations},
            tokens={"explanation": tokens},
            shard=slice(None),
        ):
            for row in result.tables["rows"]:
                rows.append({"dataset": result.dataset.name, **row})
                scale = {"cc_shap": 1.0}
                found[result.dataset.name, row["item_id"], row["kind"]] = {
                    quantity: scale.get(quantity, 100.0) * row[column]
                    for quantity, column in QUANTITIES.items()
                    if row.get(column) is not None
                }
    return found, rows


def measure_released_faults(
    decoders: Sequence[Decoder],
    datasets: Sequence[DatasetFiles],
    *,
    sample: int,
    permutations: int,
    tokens: int,
    seed: int,
    how: Resampling,
) -> list[Row]:
    """Return what each switch does to CC-SHAP and T-SHAP of decoders: means, and differences of the same items.

    Arguments as of `compute_cc_shap_values`.
    """
    rows: list[Row] = []
    for decoder in decoders:
        plain, _ = compute_cc_shap_values(decoder, datasets, sample, permutations, tokens, seed)
        rows += compare_values(decoder.spec.name, "none", plain, plain, how)
        for name, fields in SWITCHES.items():
            with switch_on(fields):
                switched, _ = compute_cc_shap_values(decoder, datasets, sample, permutations, tokens, seed)
            rows += compare_values(decoder.spec.name, name, plain, switched, how)
    return rows


def compare_values(model: str, name: str, plain: Values, switched: Values, how: Resampling) -> list[Row]:
    """Return the mean of each quantity with a switch on, and its mean difference and absolute difference to none.

    Items that lack a quantity on either side are left out of the differences.
    """
    rows = []
    for quantity in QUANTITIES:
        keys = [key for key in switched if quantity in switched[key]]
        both = [key for key in keys if quantity in plain.get(key, {})]
        steps = [switched[key][quantity] - plain[key][quantity] for key in both]
        for label, values, of in (
            (quantity, [switched[key][quantity] for key in keys], keys),
            (f"{quantity}_difference", steps, both),
            (f"{quantity}_absolute_difference", [abs(step) for step in steps], both),
        ):
            clusters = [f"{dataset}/{item}" for dataset, item, _ in of]
            measure = average(values, clusters, model, how)
            rows.append(build_row(MEASUREMENT, label, measure, model=model, factor="fault", level=name))
    return rows
