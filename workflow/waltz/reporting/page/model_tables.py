"""Tables of the page about models: their accuracy, their answers, and the modalities and players
behind these.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pandas as pd

from waltz.consistency.metrics import CC_SHAP_METRICS, SHARED
from waltz.consistency.seed_reliability import (
    RELIABILITY,
    RELIABILITY_MEAN,
    SEEDS_NEEDED,
)
from waltz.core.records import read_frame
from waltz.core.schema import ComparisonRecord, MetricRecord, ShareRecord
from waltz.core.variance_components import TARGET
from waltz.evaluation.metrics.pair_metrics import METRICS as PAIR_METRICS
from waltz.evaluation.metrics.pair_metrics import NOT_APPLICABLE
from waltz.evaluation.settings import (
    ALIGNMENT,
    ALL_DATA_SETS,
    PAIRWISE,
    PERPLEXITY,
    SINGLE,
    VALSE_SCRIPT,
)
from waltz.fidelity import get_fidelity
from waltz.reporting.page.model_differences import SIGNIFICANCE_LEVEL
from waltz.reporting.page.page_tables import (
    PageTable,
    build_page_cells,
    build_text_cells,
    select_cells,
)
from waltz.reporting.tables.cells import Cell
from waltz.reporting.tables.declaration import Declaration
from waltz.reporting.tables.declarations import PAGE_TABLES

SCORE_SETTINGS = ("", ALIGNMENT, PERPLEXITY)
"""Settings of models that score texts without a prompt; all other settings belong to decoders."""
EDIT_SETTINGS = {
    "edits": "all",
    "edits:flipping": "that change the answer",
    "edits:keeping": "that keep it",
}
"""Name of each group of counterfactual edits by their effect, by the prefix of the group's metrics.
"""
CLAIM_VERDICTS = {1.0: "supported", 0.0: "refuted"}
"""Verdict about the claim of the thesis by its value; without a value it is `undecided`."""
TIE_VERDICTS = {True: "right (Eq. 3.1)", False: "wrong (released code)"}
"""Verdict about a tie in the paper's accuracy, by `Fidelity.tied_pair_is_right`."""
SHARE_STATISTICS = {
    "player_share": "player_share",
    "t_shap_sd": "sd",
    "standard_error": "standard_error",
    "rho": "rho",
}
"""Column of each statistic of T-SHAP that has no interval, by its metric in the table."""

SEED_METRICS = {
    RELIABILITY: "reliability of one seed",
    RELIABILITY_MEAN: "reliability of the mean over seeds",
    SEEDS_NEEDED: f"seeds for {TARGET:g}",
}
"""Name of each number about seeds in the table, by the suffix of its metric."""
SEED_MEASURES = {
    **dict.fromkeys(CC_SHAP_METRICS.values(), "CC-SHAP"),
    "t_shap_prediction": "T-SHAP of the answer",
    "t_shap_explanation": "T-SHAP of the explanation",
}
"""Name of each measure whose seeds are compared, by its metric."""


def read_model_tables(files: Mapping[str, str]) -> list[PageTable]:
    """Return the tables of encoders' scores and decoders' answers that a study has numbers for.

    Args:
        files: Parquet files by name. A study with scores has `metrics` (of all models) and
            `comparisons`; a study with attribution has `shares` and `attributed` (companion
            measures); a study with tests has `tested` (metrics of stage consistency).
    """
    if "metrics" not in files:
        return []
    metrics = read_frame(files["metrics"], MetricRecord)
    comparisons = read_frame(files["comparisons"], ComparisonRecord)
    # Data sets of CV-Probes have a condition behind a colon.
    is_of_probes = metrics["dataset"].str.contains(":")
    of_items = metrics[~is_of_probes]
    of_pairs = of_items[of_items["metric"].isin(PAIR_METRICS)]
    # Tables 3.4 and A.1 show the scores by VALSE's script.
    of_pairs = of_pairs[of_pairs["setting"] != VALSE_SCRIPT]
    comparisons = comparisons[comparisons["setting"] != VALSE_SCRIPT]
    is_score = of_pairs["setting"].isin(SCORE_SETTINGS)
    tables = [
        *_make_by_profile(make_metrics_table, of_pairs[is_score]),
        *_make_by_profile(make_decoder_table, of_pairs[~is_score]),
        *make_answer_tables(of_items[of_items["metric"] == "accuracy"]),
        *_make_by_profile(make_cv_probes_table, metrics[is_of_probes]),
        *_make_by_profile(make_comparison_table, comparisons),
    ]
    if "shares" in files:
        shares = read_frame(files["shares"], ShareRecord)
        companions = read_frame(files["attributed"], MetricRecord)
        is_of_verbs = companions["dataset"].str.startswith("cv-probes:")
        tables += _make_by_profile(make_share_table, shares)
        tables += make_companion_tables(companions)
        tables += _make_by_profile(make_verb_table, companions[is_of_verbs])
    if "tested" in files:
        tested = read_frame(files["tested"], MetricRecord)
        tables += _make_by_profile(make_seed_table, select_seed_rows(tested))
        tables += make_edit_tables(tested)
    return tables


def _make_by_profile(
    make_table: Callable[[pd.DataFrame], PageTable], rows: pd.DataFrame
) -> list[PageTable]:
    """Return one table for each profile in the rows, made by a function of the profile's rows."""
    tables = []
    for profile, profile_rows in rows.groupby("profile", sort=False):
        tables.append(replace(make_table(profile_rows), profile=str(profile)))
    return tables


def make_metrics_table(rows: pd.DataFrame) -> PageTable:
    """Return the metrics of scores: a row for each metric and model, a column for
    each data set.

    A metric that does not apply to a model has no row, and a remark names the model.

    Args:
        rows: Frame of `MetricRecord`, in one profile.
    """
    declaration = PAGE_TABLES["metrics"]
    is_applicable = rows["reason"] != NOT_APPLICABLE
    cells = select_cells(declaration, rows[is_applicable])
    models = rows.loc[~is_applicable, "model"].unique()
    remarks = (f"{', '.join(models)}: {NOT_APPLICABLE}",) if len(models) else ()
    # Profiles differ in how the pairwise accuracy of the paper counts ties.
    fidelity = get_fidelity(str(rows["profile"].iat[0]))
    fact = f"In the paper a tie is {TIE_VERDICTS[fidelity.tied_pair_is_right]}."
    return PageTable(declaration, cells, remarks=remarks, fact=fact)


def make_decoder_table(rows: pd.DataFrame) -> PageTable:
    """Return the accuracy of decoders on captions and foils."""
    declaration = PAGE_TABLES["decoders"]
    is_applicable = rows["reason"] != NOT_APPLICABLE
    return PageTable(declaration, select_cells(declaration, rows[is_applicable]))


def make_answer_tables(rows: pd.DataFrame) -> list[PageTable]:
    """Return one table with the accuracy of answers and labels; no table without rows."""
    declaration = PAGE_TABLES["answers"]
    return _make_unless_empty(declaration, select_cells(declaration, rows))


def _make_unless_empty(declaration: Declaration, cells: list[Cell]) -> list[PageTable]:
    """Return one table of all profiles; no table without cells."""
    return [PageTable(declaration, cells)] if cells else []


def make_cv_probes_table(rows: pd.DataFrame) -> PageTable:
    """Return the numbers on CV-Probes: a row for each form and model, a column for
    each condition.
    """
    declaration = PAGE_TABLES["probes"]
    return PageTable(declaration, build_page_cells(declaration, rows))


def make_comparison_table(rows: pd.DataFrame) -> PageTable:
    """Return the differences of pairs of models in acc_r: over all data sets, and on single data sets
    if they are significant.

    Args:
        rows: Frame of `ComparisonRecord`.
    """
    declaration = PAGE_TABLES["comparisons"]
    compared = rows[rows["metric"] == "acc_r"]
    is_overall = compared["dataset"] == ALL_DATA_SETS
    overall, single = compared[is_overall], compared[~is_overall]
    # All comparisons on single data sets are counted in the note; only significant ones get rows.
    significant = single[single["p_holm"] <= SIGNIFICANCE_LEVEL]
    shown = pd.concat([overall.dropna(subset="difference"), significant])
    names = shown.assign(model=shown["model_a"] + " − " + shown["model_b"])
    low = shown["ci_low"].map(" [{:+.1f}, ".format)
    high = shown["ci_high"].map("{:+.1f}]".format)
    has_interval = shown[["ci_low", "ci_high"]].notna().all(axis=1)
    differences = shown["difference"].map("{:+.1f}".format)
    texts = {
        "a − b": differences + (low + high).where(has_interval, ""),
        "p, corrected": shown["p_holm"].map("{:.2g}".format),
        "n": shown["n"].astype(str),
    }
    cells = []
    for metric, column in texts.items():
        cells += build_text_cells(declaration, names, metric, column)
    fact = (
        f"{len(significant)} of {len(single)} paired comparisons (t test over images on the items that both scored,"
        " a tie better than wrong and worse than right)"
        f" have p ≤ {SIGNIFICANCE_LEVEL} after Holm's correction. {SINGLE}: from the scores of each text; {PAIRWISE}:"
        " from the decoders' choices between two texts."
    )
    if not overall.empty:
        fact += (
            f" {ALL_DATA_SETS}: the mean difference, each data set with the same weight, of every pair of models that"
            " share several; p is corrected over these rows alone."
        )
    return PageTable(declaration, cells, fact=fact)


def make_share_table(rows: pd.DataFrame) -> PageTable:
    """Return T-SHAP: a row for each number, model, role and setting, a column for
    each data set.

    Remarks below the table say how many texts of each row have no T-SHAP, and why.

    Args:
        rows: Frame of `ShareRecord`.
    """
    declaration = PAGE_TABLES["shares"]
    rows = rows.assign(setting=rows["role"] + ", " + rows["setting"])
    cells = build_page_cells(declaration, rows.assign(metric="t_shap"))
    names = rows[["profile", "model", "dataset", "setting", "n"]]
    for metric, column in SHARE_STATISTICS.items():
        # The interval of T-SHAP is not an interval of its deviation, error or correlation.
        statistic = names.assign(metric=metric, value=rows[column])
        cells += build_page_cells(declaration, statistic.dropna(subset="value"))
    excess = names.assign(
        metric="t_shap_excess",
        value=rows["excess"],
        ci_low=rows["excess_low"],
        ci_high=rows["excess_high"],
    )
    cells += build_page_cells(declaration, excess.dropna(subset="value"))
    skewed = rows.dropna(subset="mm_skew")
    cells += build_text_cells(declaration, skewed, "mm_skew", skewed["mm_skew"])

    labels = rows["dataset"] + ", " + rows["model"] + ", " + rows["setting"]
    missing = rows["missing"].set_axis(labels).explode().dropna()
    remarks = [
        f"{label}: {entry['count']} without a T-SHAP: {entry['reason']}"
        for label, entry in missing.items()
    ]
    return PageTable(declaration, cells, remarks=tuple(remarks))


def make_companion_tables(rows: pd.DataFrame) -> list[PageTable]:
    """Return one table of accuracy without one modality, EMAP and perceptual score; no table
    without numbers.
    """
    declaration = PAGE_TABLES["companions"]
    # Companion measures of encoders exist in this profile only, even if the study has others.
    of_profile = rows[rows["profile"] == "equations"]
    return _make_unless_empty(declaration, select_cells(declaration, of_profile))


def make_verb_table(rows: pd.DataFrame) -> PageTable:
    """Return the contribution of the verb on CV-Probes."""
    declaration = PAGE_TABLES["verbs"]
    names = ["model", "dataset", "setting"]
    # n of a row is the largest of its metrics; condition and prediction without any item have no
    # row.
    largest_n = rows.groupby(names, sort=False)["n"].transform("max")
    measured = rows[largest_n > 0]
    first = measured.drop_duplicates(names)
    cells = build_text_cells(declaration, first, "n", largest_n.astype(str))
    cells += select_cells(declaration, measured)
    return PageTable(declaration, cells)


def select_seed_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows about the reliability of seeds, under their names in the table; none with a
    single seed.

    Args:
        rows: Frame of `MetricRecord` of stage consistency.
    """
    # `cc_shap_cot:reliability` is a number about the seeds of `cc_shap_cot`.
    parts = rows["metric"].str.extract("^(?P<measure>[^:]+)(?P<suffix>:[^:]+)$")
    measures = parts["measure"].str.removesuffix(SHARED).map(SEED_MEASURES)
    seeds = rows.assign(
        metric=parts["suffix"].map(SEED_METRICS),
        setting=measures + ", " + rows["setting"],
    )
    return seeds.dropna(subset=["metric", "setting"])


def make_seed_table(rows: pd.DataFrame) -> PageTable:
    """Return the reliability of seeds: a row for each number, model and measure, a column for each
    data set.

    Args:
        rows: Rows as of `select_seed_rows`, in one profile.
    """
    declaration = PAGE_TABLES["seeds"]
    # Rows come by number, then in the order of the file.
    order = pd.Categorical(rows["metric"], list(SEED_METRICS.values()))
    cells = build_page_cells(
        declaration, rows.assign(order=order).sort_values("order", kind="stable")
    )
    return PageTable(declaration, cells)


def make_edit_tables(rows: pd.DataFrame) -> list[PageTable]:
    """Return one table of the changes of contributions by counterfactual edits; no table without
    edits.

    Args:
        rows: Frame of `MetricRecord` of stage consistency.
    """
    declaration = PAGE_TABLES["edits"]
    # `edits:flipping:answer` is the shift of answers by edits that change the answer.
    parts = rows["metric"].str.extract("^(?P<setting>.+):(?P<metric>[^:]+)$")
    edits = rows.assign(metric=parts["metric"], setting=parts["setting"])
    # Further metrics of edits, such as the shares of inserted words, are not shown.
    is_shown = edits["metric"].isin(declaration.sources)
    edits = edits[is_shown & edits["setting"].isin(EDIT_SETTINGS)]
    # Data sets are sorted as they appear, kinds of edits as in `EDIT_SETTINGS`.
    datasets = pd.Categorical(edits["dataset"], edits["dataset"].unique())
    settings = pd.Categorical(edits["setting"], list(EDIT_SETTINGS))
    edits = edits.assign(
        dataset=datasets, setting=settings.rename_categories(EDIT_SETTINGS)
    )
    names = ["profile", "model", "dataset", "setting"]
    edits = edits[edits["n"] > 0].sort_values(names, kind="stable")

    is_claim = edits["metric"] == "claim"
    claims = edits["value"].map(CLAIM_VERDICTS).fillna("undecided")
    counts = edits.drop_duplicates(names)
    cells = [
        *build_text_cells(declaration, counts[names], "n", counts["n"].astype(str)),
        *build_page_cells(declaration, edits[~is_claim]),
        *build_text_cells(declaration, edits.loc[is_claim, names], "claim", claims),
    ]
    return _make_unless_empty(declaration, cells)
