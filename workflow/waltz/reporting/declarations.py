"""The tables: what each one shows, and which of our models a printed name stands for."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Declaration:
    """One table, joined to print by the names of `resources/published`.

    Attributes:
        id: Id of the published table.
        title: What it shows, in one line.
        metrics: Metrics of ours, in order, with their headings.
        rows: Fields that name a row: of metric, model, dataset, setting.
        columns: Field that names a column.
        aliases: Registry model that a printed model id means in this table.
        notes: What a reader must know.
    """

    id: str
    title: str
    metrics: Mapping[str, str]
    rows: tuple[str, ...]
    columns: str
    aliases: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


VALIDATION = Declaration(
    id="thesis-A.2",
    title="Manual validation of each instrument",
    metrics={
        "instances": "items",
        "valid": "valid",
        "valid_percent": "valid, %",
        "unanimous": "unanimous",
        "unanimous_percent": "unanimous, %",
        "lexical_items": "lexical items",
        "js": "JS",
        "js_valid": "JS, valid",
        "alpha": "α",
        "alpha_valid": "α, valid",
    },
    rows=("dataset",),
    columns="metric",
    notes=(
        "JS is the Jensen–Shannon distance (base 2, square root) between the lexical items of captions and of foils.",
        "In profile `published` the overall unanimous share is taken over the valid items, as in print;"
        " in `equations` over all items, as in each row.",
    ),
)

PAIRWISE = Declaration(
    id="thesis-3.4",
    title="Pairwise ranking accuracy on VALSE",
    metrics={"acc_r": "acc_r", "acc": "acc", "min_pc_pf": "min(p_c, p_f)", "auroc": "AUROC × 100"},
    rows=("metric", "model"),
    columns="dataset",
    aliases={"gpt1": "gpt1", "gpt2": "gpt2-large"},
    notes=(
        "A language model's score of a text is minus its log perplexity; it sees no image.",
        "The average weighs each data set the same.",
    ),
)

TABLES = {table.id: table for table in (VALIDATION, PAIRWISE)}
