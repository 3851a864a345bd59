"""Selection of the items to attribute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waltz.attribution.published import PUBLISHED_PROBES, select_published_sample
from waltz.core.files import parquet
from waltz.core.sampling import sample
from waltz.core.schema import BENCHMARK, CONDITIONS, PROBE_CONDITIONS
from waltz.evaluation.items import select_items
from waltz.evaluation.prompting.questions import assign_orders
from waltz.evaluation.vqa import select_questions
from waltz.fidelity import Fidelity

Item = Mapping[str, Any]
SelectedItem = dict[str, Any]
ATTRIBUTED_FORM = "simplified"
"""Form of those captions of CV-Probes that are attributed."""


@dataclass(frozen=True, kw_only=True)
class SampleSettings:
    """Hold the settings by which a study selects the items to attribute.

    Attributes:
        seed: Seed of the samples and of the estimators.
        sample: Number of the scored items that are attributed (of groups for CV-Probes); None for
            all.
        scored: Which items are scored: `valid` or `all`, as in `evaluation.items`.
        scored_sample: Number of items of each data set that are scored; None for all.
    """

    seed: int
    sample: int | None
    scored: str = "all"
    scored_sample: int | None = None


def select_attributed_items(
    file: str | Path, fidelity: Fidelity, settings: SampleSettings
) -> list[SelectedItem]:
    """Select the items of a data set whose scores are attributed.

    `equations` takes a seeded sample of the items that are scored. `published` takes the valid
    items among the items that the released scripts draw. From CV-Probes, both take complete groups
    of simplified captions; `published` takes as many groups as the paper, unless the study gives a
    number.

    Args:
        file: Parquet of the benchmark or of CV-Probes.
    """
    n, seed = settings.sample, settings.seed
    takes_released = fidelity.sampling == "released"
    # Only CV-Probes has a column `condition`.
    if "condition" in parquet.read_schema(file).names:
        if n is None and takes_released:
            n = PUBLISHED_PROBES
        return select_probes(parquet.read_rows(file, CONDITIONS), n, seed)
    benchmark = parquet.read(file, BENCHMARK)
    if takes_released:
        # The released scripts draw from all items, and skip the invalid ones afterwards.
        rows = benchmark.to_pylist()
        is_valid = [row["valid"] is not False for row in rows]
        ids = select_published_sample([row["item_id"] for row in rows], is_valid, n)
    else:
        scored = select_items(benchmark, settings.scored, settings.scored_sample, seed)
        rows = scored.to_pylist()
        ids = _sample_at_most([row["item_id"] for row in rows], n, seed)
    items_by_id = {row["item_id"]: row for row in rows}
    return [items_by_id[item_id] for item_id in ids]


def _sample_at_most(ids: list[str], n: int | None, seed: int) -> list[str]:
    """Return a seeded sample of n ids; all ids if n is None or larger than their number."""
    if n is not None:
        n = min(n, len(ids))
    return sample(ids, n, seed)


def select_probes(
    items: Sequence[Item], n: int | None, seed: int
) -> list[SelectedItem]:
    """Return the rows of a seeded sample of groups, one row for each of the four conditions.

    All conditions then have the same actions. A group is an image with an action. Groups that lack
    a condition are not drawn; if a condition has several simplified captions, the first is used.

    Args:
        items: Rows of CV-Probes in the order of its file; rows that are not simplified are skipped.
        n: Number of groups; None, or a larger number than there are, takes all groups.
    """
    # The first caption of each condition, by group.
    groups: dict[str, dict[str, Item]] = {}
    for item in items:
        if item["form"] == ATTRIBUTED_FORM:
            captions = groups.setdefault(item["group"], {})
            captions.setdefault(item["condition"], item)
    complete_groups = [
        group
        for group, captions in groups.items()
        if captions.keys() >= set(PROBE_CONDITIONS)
    ]
    selected = []
    for group in _sample_at_most(complete_groups, n, seed):
        selected += [dict(groups[group][condition]) for condition in PROBE_CONDITIONS]
    return selected


def select_attributed_questions(
    rows: Sequence[Item],
    dataset: str,
    entry: Item,
    fidelity: Fidelity,
    settings: SampleSettings,
) -> list[SelectedItem]:
    """Select the questions of a data set for which the answers of an encoder are attributed.

    `equations` takes a seeded sample. `published` takes the first questions of the published draw,
    if the study uses that draw.

    Args:
        rows: All rows of a source, of the layout `QUESTIONS`, in file order.
        entry: The data set's entry: size and choice.
    Returns:
        The selected questions, in the order in which the evaluation has them.
    """
    n, seed, choice = settings.sample, settings.seed, entry.get("choice")
    questions, _ = select_questions(dataset, rows, entry["size"], seed, choice)
    takes_released = fidelity.sampling == "released"
    if takes_released and choice:
        # `choice` names a published draw, in whose order the questions are.
        return questions[:n]
    sampled_ids = set(
        _sample_at_most([question["item_id"] for question in questions], n, seed)
    )
    return [question for question in questions if question["item_id"] in sampled_ids]


def select_decoder_items(
    file: str | Path,
    dataset: str,
    fidelity: Fidelity,
    settings: SampleSettings,
) -> tuple[list[SelectedItem], dict[str, bool]]:
    """Select the items of a data set for which the answers of a decoder are attributed, with the
    order of captions.

    `equations` takes the items that are attributed for encoders. `published` takes the first valid
    items in file order, as the released scripts for decoders do. The orders are the same as in the
    evaluation.

    Args:
        file: Parquet of the benchmark.
        settings: Size of the sample (100 in the paper), and the seed of samples and orders.
    Returns:
        Rows of the benchmark; and for each item id, whether the caption is the first option.
    """
    benchmark = parquet.read(file, BENCHMARK)
    # Orders are assigned over all scored items, so that a sample has the same orders as the
    # evaluation.
    orders = assign_orders(
        select_items(benchmark, settings.scored, None, settings.seed).to_pylist(),
        dataset,
        fidelity,
        settings.seed,
    )
    if fidelity.sampling == "released":
        valid = select_items(benchmark, "valid", None, settings.seed).to_pylist()
        return valid[: settings.sample], orders
    return select_attributed_items(file, fidelity, settings), orders
