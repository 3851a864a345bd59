"""Selection of the items to attribute."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from waltz.attribution.published import PUBLISHED_PROBES, select_published_sample
from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetSettings
from waltz.core.layout import Row
from waltz.core.records import read_records
from waltz.core.sampling import sample_at_most
from waltz.core.schema import PROBE_CONDITIONS, ItemRecord, ProbeRecord
from waltz.evaluation.items import select_items
from waltz.evaluation.prompting.questions import assign_orders
from waltz.evaluation.vqa import VqaItem, select_vqa_items
from waltz.fidelity import Fidelity

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
) -> Sequence[ItemRecord | ProbeRecord]:
    """Select the items of a data set whose scores are attributed.

    `equations` takes a seeded sample of the items that are scored. `published` takes the valid
    items among the items that the released scripts draw. From CV-Probes, both take complete groups
    of simplified captions; `published` takes as many groups as the paper, unless the study gives a
    number.

    Args:
        file: Parquet of the benchmark or of CV-Probes.
    """
    n, seed = settings.sample, settings.seed
    # Only CV-Probes has a column `condition`.
    if "condition" in parquet.read_schema(file).names:
        if n is None and fidelity.sampling == "released":
            n = PUBLISHED_PROBES
        return select_probes(list(read_records(file, ProbeRecord)), n, seed)
    benchmark = list(read_records(file, ItemRecord))
    return _select_attributed_pairs(benchmark, fidelity, settings)


def _select_attributed_pairs(
    benchmark: Sequence[ItemRecord], fidelity: Fidelity, settings: SampleSettings
) -> list[ItemRecord]:
    """Select the pairs of caption and foil that are attributed; see `select_attributed_items`."""
    if fidelity.sampling == "released":
        # The released scripts draw from all items, and skip the invalid ones afterwards.
        items = list(benchmark)
        is_valid = [item.valid is not False for item in items]
        ids = select_published_sample(
            [item.item_id for item in items], is_valid, settings.sample
        )
    else:
        items = select_items(
            benchmark, settings.scored, settings.scored_sample, settings.seed
        )
        ids = sample_at_most(
            [item.item_id for item in items], settings.sample, settings.seed
        )
    items_by_id = {item.item_id: item for item in items}
    return [items_by_id[item_id] for item_id in ids]


def select_probes(
    items: Sequence[ProbeRecord], n: int | None, seed: int
) -> list[ProbeRecord]:
    """Return the items of a seeded sample of groups, one for each of the four conditions.

    All conditions then have the same actions. A group is an image with an action. Groups that lack
    a condition are not drawn; if a condition has several simplified captions, the first is used.

    Args:
        items: Items of CV-Probes in the order of its file; items that are not simplified are skipped.
        n: Number of groups; None, or a larger number than there are, takes all groups.
    """
    # The first caption of each condition, by group.
    groups: dict[str, dict[str, ProbeRecord]] = defaultdict(dict)
    for item in items:
        if item.form == ATTRIBUTED_FORM:
            groups[item.group].setdefault(item.condition, item)
    complete_groups = [
        group
        for group, captions in groups.items()
        if len(captions) == len(PROBE_CONDITIONS)
    ]
    selected = []
    for group in sample_at_most(complete_groups, n, seed):
        selected += [groups[group][condition] for condition in PROBE_CONDITIONS]
    return selected


def select_attributed_questions(
    rows: Sequence[Row],
    dataset: str,
    entry: DatasetSettings,
    fidelity: Fidelity,
    settings: SampleSettings,
) -> list[VqaItem]:
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
    questions, _ = select_vqa_items(dataset, rows, entry["size"], seed, choice)
    if choice and fidelity.sampling == "released":
        # `choice` names a published draw, in whose order the questions are.
        return questions[:n]
    questions_by_id = {question.item_id: question for question in questions}
    sampled_ids = sample_at_most(list(questions_by_id), n, seed)
    return [questions_by_id[item_id] for item_id in sampled_ids]


def select_decoder_items(
    file: str | Path,
    dataset: str,
    fidelity: Fidelity,
    settings: SampleSettings,
) -> tuple[list[ItemRecord], dict[str, bool]]:
    """Select the items of a data set for which the answers of a decoder are attributed, with the
    order of captions.

    `equations` takes the items that are attributed for encoders. `published` takes the first valid
    items in file order, as the released scripts for decoders do. The orders are the same as in the
    evaluation.

    Args:
        file: Parquet of the benchmark.
        settings: Size of the sample (100 in the paper), and the seed of samples and orders.
    Returns:
        The items; and for each item id, whether the caption is the first option.
    """
    benchmark = list(read_records(file, ItemRecord))
    # Orders are assigned over all scored items, so that a sample has the same orders as the
    # evaluation.
    orders = assign_orders(
        select_items(benchmark, settings.scored, None, settings.seed),
        dataset,
        fidelity,
        settings.seed,
    )
    if fidelity.sampling == "released":
        valid = select_items(benchmark, "valid", None, settings.seed)
        return valid[: settings.sample], orders
    return _select_attributed_pairs(benchmark, fidelity, settings), orders
