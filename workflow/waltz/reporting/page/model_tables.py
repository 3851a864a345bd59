"""Tables of the page about models: their accuracy, their answers, and the modalities and players
behind these.
"""

from collections.abc import Callable, Mapping, Sequence

from waltz.core.files import parquet
from waltz.core.schema import COMPARISONS, METRICS, SHARES
from waltz.evaluation.metrics.pair_metrics import METRICS as PAIR_METRICS
from waltz.evaluation.metrics.pair_metrics import NOT_APPLICABLE
from waltz.evaluation.settings import ALIGNMENT, PAIRWISE, PERPLEXITY, SINGLE
from waltz.fidelity import get_fidelity
from waltz.reporting.page.page_tables import (
    PageTable,
    Row,
    build_cell,
    build_text_cell,
    group_rows,
    select_cells,
)
from waltz.reporting.tables.declarations import PAGE_TABLES

SIGNIFICANCE_LEVEL = 0.05
SCORE_SETTINGS = ("", ALIGNMENT, PERPLEXITY)
"""Settings of models that score texts without a prompt; all other settings are those of decoders.
"""
EDIT_SETTINGS = {
    "edits": "all",
    "edits:flipping": "that change the answer",
    "edits:keeping": "that keep it",
}
"""Name of each group of counterfactual edits by their effect, by the prefix of the group's metrics.
"""
CLAIM_VERDICTS = {1.0: "supported", 0.0: "refuted", None: "undecided"}


def read_model_tables(files: Mapping[str, str]) -> list[PageTable]:
    """Return the tables of encoders' scores and decoders' answers that a study has numbers for.

    Args:
        files: Parquet files by name. A study with scores has `metrics` (of all models) and
            `comparisons`; a study with attribution has `shares` and `attributed` (companion
            measures); a study with tests has `tested` (metrics of stage consistency).
    """
    if "metrics" not in files:
        return []
    metrics = parquet.read_rows(files["metrics"], METRICS)
    # Data sets of CV-Probes have a condition behind a colon.
    of_probes = [row for row in metrics if ":" in row["dataset"]]
    of_items = [row for row in metrics if ":" not in row["dataset"]]
    of_pairs = [row for row in of_items if row["metric"] in PAIR_METRICS]
    of_scores = [row for row in of_pairs if row["setting"] in SCORE_SETTINGS]
    of_prompts = [row for row in of_pairs if row["setting"] not in SCORE_SETTINGS]
    tables = [
        *_make_by_profile(make_metrics_table, of_scores),
        *_make_by_profile(make_decoder_table, of_prompts),
        *make_answer_tables([row for row in of_items if row["metric"] == "accuracy"]),
        *_make_by_profile(make_cv_probes_table, of_probes),
        *_make_by_profile(
            make_comparison_table, parquet.read_rows(files["comparisons"], COMPARISONS)
        ),
    ]
    if "shares" in files:
        companions = parquet.read_rows(files["attributed"], METRICS)
        verbs = [row for row in companions if row["dataset"].startswith("cv-probes:")]
        tables += _make_by_profile(
            make_share_table, parquet.read_rows(files["shares"], SHARES)
        )
        tables += make_companion_tables(companions)
        tables += _make_by_profile(make_verb_table, verbs)
    if "tested" in files:
        tables += make_edit_tables(parquet.read_rows(files["tested"], METRICS))
    return tables


def _make_by_profile(
    make_table: Callable[[Sequence[Row], str], PageTable], rows: Sequence[Row]
) -> list[PageTable]:
    """Return one table for each profile in the rows, made by a function of its rows and its name."""
    return [
        make_table(profile_rows, profile)
        for profile, profile_rows in group_rows(rows, "profile").items()
    ]


def make_metrics_table(rows: Sequence[Row], profile: str) -> PageTable:
    """Return the metrics of scores in one profile: a row for each metric and model, a column for
    each data set.
    """
    declaration = PAGE_TABLES["metrics"]
    # A metric that does not apply to a model has no row; a missing number has one, with its reason.
    applicable = [row for row in rows if row["reason"] != NOT_APPLICABLE]
    # Profiles differ in how the pairwise accuracy of the paper counts ties.
    verdict = (
        "right (Eq. 3.1)"
        if get_fidelity(profile).tied_pair_is_right
        else "wrong (released code)"
    )
    fact = f"In the paper a tie is {verdict}."
    return PageTable(
        declaration, select_cells(declaration, applicable), profile, fact=fact
    )


def make_decoder_table(rows: Sequence[Row], profile: str) -> PageTable:
    """Return the accuracy of decoders on captions and foils in one profile."""
    declaration = PAGE_TABLES["decoders"]
    applicable = [row for row in rows if row["reason"] != NOT_APPLICABLE]
    return PageTable(declaration, select_cells(declaration, applicable), profile)


def make_answer_tables(rows: Sequence[Row]) -> list[PageTable]:
    """Return one table with the accuracy of answers and labels; no table without rows."""
    declaration = PAGE_TABLES["answers"]
    return [PageTable(declaration, select_cells(declaration, rows))] if rows else []


def make_cv_probes_table(rows: Sequence[Row], profile: str) -> PageTable:
    """Return the numbers on CV-Probes in one profile: a row for each form and model, a column for
    each condition.
    """
    declaration = PAGE_TABLES["probes"]
    cells = [build_cell(declaration, row["metric"], row) for row in rows]
    return PageTable(declaration, cells, profile)


def make_comparison_table(rows: Sequence[Row], profile: str) -> PageTable:
    """Return the pairs of models whose acc_r differs significantly, in one profile."""
    declaration = PAGE_TABLES["comparisons"]
    # All comparisons are counted in the note; only significant ones get rows.
    compared = [row for row in rows if row["metric"] == "acc_r"]
    significant = [
        row
        for row in compared
        if row["p_holm"] is not None and row["p_holm"] <= SIGNIFICANCE_LEVEL
    ]
    cells = []
    for row in significant:
        interval = ""
        if row["ci_low"] is not None and row["ci_high"] is not None:
            interval = f" [{row['ci_low']:+.1f}, {row['ci_high']:+.1f}]"
        texts = {
            "a − b": f"{row['difference']:+.1f}{interval}",
            "p, corrected": f"{row['p_holm']:.2g}",
            "n": str(row["n"]),
        }
        models = f"{row['model_a']} − {row['model_b']}"
        cells += [
            build_text_cell(declaration, name, text, row, model=models)
            for name, text in texts.items()
        ]
    fact = (
        f"{len(significant)} of {len(compared)} paired comparisons (McNemar's exact test on the items that both scored,"
        " those of an image together, a tie better than wrong and worse than right)"
        f" have p ≤ {SIGNIFICANCE_LEVEL} after Holm's correction. {SINGLE}: from the scores of each text; {PAIRWISE}:"
        " from the decoders' choices between two texts."
    )
    return PageTable(declaration, cells, profile, fact=fact)


def make_share_table(rows: Sequence[Row], profile: str) -> PageTable:
    """Return T-SHAP in one profile: a row for each number, model, role and setting, a column for
    each data set.

    Remarks below the table say how many texts of each row have no T-SHAP, and why.
    """
    declaration = PAGE_TABLES["shares"]
    cells = []
    remarks = []
    for row in rows:
        setting = f"{row['role']}, {row['setting']}"
        cells.append(build_cell(declaration, "t_shap", row, setting=setting))
        further = {
            "t_shap_sd": row["sd"],
            "standard_error": row["standard_error"],
            "rho": row["rho"],
        }
        for metric, value in further.items():
            if value is not None:
                # These numbers have no interval, so the interval of T-SHAP must not stay in the
                # row.
                number = {
                    **row,
                    "value": value,
                    "ci_low": None,
                    "ci_high": None,
                    "images": None,
                    "reason": None,
                }
                cells.append(build_cell(declaration, metric, number, setting=setting))
        if row["mm_skew"]:
            cells.append(
                build_text_cell(
                    declaration, "mm_skew", row["mm_skew"], row, setting=setting
                )
            )
        for entry in row["missing"]:
            remarks.append(
                f"{row['dataset']}, {row['model']}, {setting}: {entry['count']} without a T-SHAP: {entry['reason']}"
            )
    return PageTable(declaration, cells, profile, tuple(remarks))


def make_companion_tables(rows: Sequence[Row]) -> list[PageTable]:
    """Return one table of accuracy without one modality, EMAP and perceptual score; no table
    without numbers.
    """
    declaration = PAGE_TABLES["companions"]
    # Encoders have companion measures in this profile alone, whatever profiles the study has.
    cells = select_cells(
        declaration, [row for row in rows if row["profile"] == "equations"]
    )
    return [PageTable(declaration, cells)] if cells else []


def make_verb_table(rows: Sequence[Row], profile: str) -> PageTable:
    """Return the contribution of the verb on CV-Probes in one profile."""
    declaration = PAGE_TABLES["verbs"]
    # Condition and prediction without any item have no row.
    largest_n: dict[tuple[str, str, str], int] = {}
    for row in rows:
        position = (row["model"], row["dataset"], row["setting"])
        largest_n[position] = max(row["n"], largest_n.get(position, 0))
    measured = [
        row
        for row in rows
        if largest_n[row["model"], row["dataset"], row["setting"]] > 0
    ]
    cells = []
    for model, dataset, setting in dict.fromkeys(
        (row["model"], row["dataset"], row["setting"]) for row in measured
    ):
        names = {"model": model, "dataset": dataset, "setting": setting}
        cells.append(
            build_text_cell(
                declaration, "n", str(largest_n[model, dataset, setting]), {}, **names
            )
        )
    return PageTable(
        declaration, [*cells, *select_cells(declaration, measured)], profile
    )


def make_edit_tables(rows: Sequence[Row]) -> list[PageTable]:
    """Return one table of the changes of contributions by counterfactual edits; no table without
    edits.

    Args:
        rows: Rows of the layout `METRICS` of stage consistency.
    """
    declaration = PAGE_TABLES["edits"]
    parts: dict[tuple[str, str, str, str], dict[str, Row]] = {}
    for row in rows:
        # `edits:flipping:answer` is the shift of answers by edits that change the answer.
        prefix, _, part = row["metric"].rpartition(":")
        if prefix in EDIT_SETTINGS:
            position = (row["profile"], row["model"], row["dataset"], prefix)
            parts.setdefault(position, {})[part] = row
    datasets = list(dict.fromkeys(dataset for _, _, dataset, _ in parts))
    prefixes = list(EDIT_SETTINGS)

    def rank(position: tuple[str, str, str, str]) -> tuple[str, str, int, int]:
        profile, model, dataset, prefix = position
        return profile, model, datasets.index(dataset), prefixes.index(prefix)

    cells = []
    for position in sorted(parts, key=rank):
        numbers = parts[position]
        setting = EDIT_SETTINGS[position[-1]]
        # n and the names of the cell are the same in all parts of a position.
        difference = numbers["difference"]
        if not difference["n"]:
            continue
        cells.append(
            build_text_cell(
                declaration, "n", str(difference["n"]), difference, setting=setting
            )
        )
        for part in ("answer", "explanation", "difference"):
            cells.append(build_cell(declaration, part, numbers[part], setting=setting))
        claim = CLAIM_VERDICTS[numbers["claim"]["value"]]
        cells.append(
            build_text_cell(declaration, "claim", claim, difference, setting=setting)
        )
    return [PageTable(declaration, cells)] if cells else []
