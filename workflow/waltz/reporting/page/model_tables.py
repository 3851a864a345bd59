"""Plain tables of models: their accuracy and answers, and the modalities and players that these depend on."""

from collections.abc import Sequence
from dataclasses import dataclass

from waltz.core.files import parquet
from waltz.core.schema import COMPARISONS, METRICS, SHARES
from waltz.evaluation.metrics.pair_metrics import ALIGNMENT, NOT_APPLICABLE, PAIRWISE, PERPLEXITY, SINGLE
from waltz.evaluation.metrics.pair_metrics import METRICS as PAIR_METRICS
from waltz.reporting.page.plain_tables import (
    HEADINGS,
    PlainTable,
    Row,
    format_interval,
    format_measure,
    format_number,
    group_rows,
    list_reasons,
    pivot_rows,
    sort_rows,
)

SIGNIFICANCE_LEVEL = 0.05
SCORE_SETTINGS = ("", ALIGNMENT, PERPLEXITY)
"""Settings of models that score texts without a prompt; the others are those of decoders."""


@dataclass(frozen=True)
class ModalityFiles:
    """Files about models' scores, answers and attributions.

    Attributes:
        metrics: Parquet file of the metrics of all models.
        comparisons: Parquet file of the paired comparisons.
        shares: Parquet file of T-SHAP; None in a study without attribution.
        companions: Parquet file of the companion measures of attribution, or None.
        consistency: Parquet file of the metrics of self-consistency tests and CC-SHAP; None in a study without edits.
    """

    metrics: str
    comparisons: str
    shares: str | None
    companions: str | None
    consistency: str | None = None


def make_modality_tables(files: ModalityFiles) -> list[PlainTable]:
    """Return all tables of encoders' scores and decoders' answers that a study has numbers for."""
    metrics = parquet.read_rows(files.metrics, METRICS)
    pair_rows = [row for row in metrics if row["metric"] in PAIR_METRICS and ":" not in row["dataset"]]
    tables = [
        *make_metrics_tables([row for row in pair_rows if row["setting"] in SCORE_SETTINGS]),
        *make_decoder_tables([row for row in pair_rows if row["setting"] not in SCORE_SETTINGS]),
        *make_answer_tables([row for row in metrics if row["metric"] == "accuracy" and ":" not in row["dataset"]]),
        *make_cv_probes_tables([row for row in metrics if ":" in row["dataset"]]),
        *make_comparison_tables(parquet.read_rows(files.comparisons, COMPARISONS)),
    ]
    if files.shares is not None and files.companions is not None:
        tables += make_share_tables(parquet.read_rows(files.shares, SHARES))
        companions = parquet.read_rows(files.companions, METRICS)
        tables += make_companion_tables(companions)
        tables += make_verb_tables([row for row in companions if row["dataset"].startswith("cv-probes:")])
    if files.consistency is not None:
        tables += make_edit_tables(parquet.read_rows(files.consistency, METRICS))
    return tables


def make_metrics_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """Return one table of metrics for each profile, with one row for each data set and model."""
    return [
        PlainTable(
            f"metrics-{profile}",
            f"Accuracy on captions and foils, profile {profile}",
            "Percent, with intervals over images. acc_r: the caption scores above its foil. p_c, p_f: captions accepted"
            " as a match, foils rejected; acc is their mean. AUROC: over all captions and foils of the data set.",
            ("data set", "model", "n", *HEADINGS.values()),
            tuple(
                (
                    dataset,
                    model,
                    str(max(cell["n"] for cell in cells.values())),
                    *(format_measure(cells.get(metric)) for metric in HEADINGS),
                )
                for (dataset, model), cells in pivot_rows(sort_rows(group), ("dataset", "model"), "metric").items()
            ),
            tuple(list_reasons(group)),
            profile=profile,
        )
        for profile, group in group_rows(rows, "profile").items()
    ]


def make_cv_probes_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """Return one table of CV-Probes for each profile: a row for each form and model, a column for each condition."""
    tables = []
    for profile, group in group_rows(rows, "profile").items():
        columns = list(dict.fromkeys((row["dataset"].partition(":")[2], row["metric"]) for row in group))
        cells = {(row["setting"], row["model"], row["dataset"].partition(":")[2], row["metric"]): row for row in group}
        tables.append(
            PlainTable(
                f"probes-{profile}",
                f"CV-Probes, profile {profile}",
                "Percent right. With a match probability: p(match) above p(no match) on +img+cap, +img-cap and"
                " -img-cap, below it on -img+cap, and the harmonic mean of the four. The last two compare scores and"
                " need none.",
                ("form", "model", *(f"{name} {metric}" for name, metric in columns)),
                tuple(
                    (form, model, *(format_measure(cells.get((form, model, *column))) for column in columns))
                    for form, model in dict.fromkeys((row["setting"], row["model"]) for row in group)
                ),
                tuple(list_reasons(group)),
                profile=profile,
            )
        )
    return tables


def make_comparison_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """Return one table for each profile of the pairs of models whose acc_r differs significantly."""
    tables = []
    for profile, group in group_rows([row for row in rows if row["metric"] == "acc_r"], "profile").items():
        significant = [row for row in group if row["p_holm"] is not None and row["p_holm"] <= SIGNIFICANCE_LEVEL]
        tables.append(
            PlainTable(
                f"comparisons-{profile}",
                f"Models that differ in acc_r, profile {profile}",
                f"{len(significant)} of {len(group)} paired comparisons (McNemar's exact test, items that both scored)"
                f" have p ≤ {SIGNIFICANCE_LEVEL} after Holm's correction over all of one setting. {SINGLE}: from the"
                f" scores of each text; {PAIRWISE}: from the decoders' choices between two texts.",
                ("data set", "setting", "model a", "model b", "a − b", "p, corrected", "n"),
                tuple(
                    (
                        row["dataset"],
                        row["setting"],
                        row["model_a"],
                        row["model_b"],
                        f"{row['difference']:+.1f}{format_interval(row, '+.1f')}",
                        f"{row['p_holm']:.2g}",
                        str(row["n"]),
                    )
                    for row in significant
                ),
                profile=profile,
            )
        )
    return tables


def make_share_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """Return one table of T-SHAP for each profile, with one row for each data set, model and role."""
    return [
        PlainTable(
            f"shares-{profile}",
            f"T-SHAP, profile {profile}",
            "Text's share of the Shapley values' magnitude, in percent, with intervals over images; ± is the spread"
            " over items, “per item” the standard error of one item's share from sampling coalitions. ρ is"
            " Spearman's correlation with correctness.",
            ("data set", "model", "role", "n", "T-SHAP", "±", "per item", "leans to", "ρ"),
            tuple(
                (
                    row["dataset"],
                    row["model"],
                    row["role"],
                    str(row["n"]),
                    format_measure(row),
                    format_number(row["sd"], 1),
                    format_number(row["standard_error"], 2),
                    row["mm_skew"] or "",
                    format_number(row["rho"], 2),
                )
                for row in sort_rows(group)
            ),
            tuple(
                f"{row['dataset']}, {row['model']}, {row['role']}: {entry['count']} without a T-SHAP: {entry['reason']}"
                for row in group
                for entry in row["missing"]
            ),
            profile=profile,
        )
        for profile, group in group_rows(rows, "profile").items()
    ]


def make_companion_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """Return the table of accuracy without one modality, EMAP and perceptual score; none without rows."""
    names = {
        ("without text", "acc_r"): "acc_r without text",
        ("without image", "acc_r"): "acc_r without image",
        ("pairs", "emap_model"): "acc_r",
        ("pairs", "emap"): "EMAP",
        ("pairs", "perceptual_text"): "perceptual score, text",
        ("pairs", "perceptual_image"): "perceptual score, image",
    }
    shown_rows = [row for row in rows if (row["setting"], row["metric"]) in names and row["profile"] == "equations"]
    cells = {(row["dataset"], row["model"], row["setting"], row["metric"]): row for row in shown_rows}
    columns = [key for key in names if any((row["setting"], row["metric"]) == key for row in shown_rows)]
    if not shown_rows:
        return []
    return [
        PlainTable(
            "companions",
            "Accuracy without one modality, profile equations",
            "Percent. Without text or image: all of its players masked. EMAP: the sum of a function of the text and one"
            " of the image that is nearest to the scores. Perceptual score: accuracy lost where a modality is permuted"
            " among the items, in points.",
            ("data set", "model", *(names[column] for column in columns)),
            tuple(
                (dataset, model, *(format_measure(cells.get((dataset, model, *column))) for column in columns))
                for dataset, model in dict.fromkeys((row["dataset"], row["model"]) for row in shown_rows)
            ),
        )
    ]


def make_verb_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """Return one table of the verb's contribution on CV-Probes for each profile."""
    metrics = {"verb_shap": "verb, signed", "verb_share": "verb, % of text", "t_shap_overall": "T-SHAP, %"}
    return [
        PlainTable(
            f"verbs-{profile}",
            f"CV-Probes: the verb, profile {profile}",
            "Shapley values of the verb's word pieces: their signed sum, in the unit of the score, and their magnitude"
            " in percent of all text tokens', by condition and by the model's prediction.",
            ("model", "condition", "prediction", "n", *metrics.values()),
            tuple(
                (
                    model,
                    dataset.partition(":")[2],
                    prediction,
                    str(max(cell["n"] for cell in cells.values())),
                    *(format_measure(cells.get(metric), 3 if metric == "verb_shap" else 1) for metric in metrics),
                )
                for (model, dataset, prediction), cells in pivot_rows(
                    group, ("model", "dataset", "setting"), "metric"
                ).items()
                if max(cell["n"] for cell in cells.values())
            ),
            profile=profile,
        )
        for profile, group in group_rows(rows, "profile").items()
    ]


EDIT_SETTINGS = {"edits": "all", "edits:flipping": "that change the answer", "edits:keeping": "that keep it"}
"""Effect of counterfactual edits, by the prefix of their metrics."""
CLAIM_VERDICTS = {1.0: "supported", 0.0: "refuted", None: "undecided"}


def make_decoder_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """Return one table of decoders' accuracy on captions and foils for each profile."""
    return [
        PlainTable(
            f"decoders-{profile}",
            f"Accuracy of decoders on captions and foils, profile {profile}",
            "Percent, with intervals over images. pairwise: the prompt asks which text describes the image (acc_r: the"
            " answer is the caption); single: it asks of each text whether it does (p_c: yes to captions, p_f: no to"
            " foils; acc is their mean); -after-cot: after a chain of thought. The others rank the texts by a score.",
            ("data set", "model", "prompt", "n", *HEADINGS.values()),
            tuple(
                (
                    dataset,
                    model,
                    setting,
                    str(max(cell["n"] for cell in cells.values())),
                    *(format_measure(cells.get(metric)) for metric in HEADINGS),
                )
                for (dataset, model, setting), cells in pivot_rows(
                    sort_rows(group), ("dataset", "model", "setting"), "metric"
                ).items()
            ),
            tuple(list_reasons([row for row in group if row["reason"] != NOT_APPLICABLE])),
        )
        for profile, group in group_rows(rows, "profile").items()
    ]


def make_answer_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """Return the table of the accuracy of answers and labels; none without rows."""
    if not rows:
        return []
    return [
        PlainTable(
            "answers",
            "Questions answered",
            "Percent of answers that are the gold one, with intervals over images (over items of text tasks). choice:"
            " the model chooses a label; answering: it answers in words; -after-cot: after a chain of thought.",
            ("profile", "data set", "model", "prompt", "n", "accuracy"),
            tuple(
                (
                    row["profile"],
                    row["dataset"],
                    row["model"],
                    row["setting"],
                    str(row["n"]),
                    row["reason"] or format_measure(row),
                )
                for row in rows
            ),
        )
    ]


def make_edit_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """Return the table of how counterfactual edits change contributions; none without edits.

    Args:
        rows: Rows of the layout `METRICS` of stage consistency.
    """
    edit_rows = [
        {**row, "prefix": prefix, "part": row["metric"].removeprefix(f"{prefix}:")}
        for prefix in EDIT_SETTINGS
        for row in rows
        if row["metric"].rpartition(":")[0] == prefix
    ]
    cells = pivot_rows(sort_rows(edit_rows), ("profile", "model", "dataset", "prefix"), "part")
    measured = {names: parts for names, parts in cells.items() if parts["difference"]["n"]}
    if not measured:
        return []
    return [
        PlainTable(
            "edits",
            "Contributions before and after counterfactual edits",
            "Cosine distance between the contributions of all other players before and after a word is inserted, to"
            " the answer and to its explanation, with intervals over images or items; the difference is explanation"
            " minus answer. The claim of the thesis (contributions to answers stay, those to explanations change) is"
            " supported where the interval of the difference lies above 0.05, refuted where it lies below.",
            ("profile", "model", "data set", "edits", "n", "answer", "explanation", "difference", "claim"),
            tuple(
                (
                    profile,
                    model,
                    dataset,
                    EDIT_SETTINGS[prefix],
                    str(parts["difference"]["n"]),
                    *(format_measure(parts[side], 2) for side in ("answer", "explanation", "difference")),
                    CLAIM_VERDICTS[parts["claim"]["value"]],
                )
                for (profile, model, dataset, prefix), parts in sorted(measured.items(), key=lambda item: item[0][:2])
            ),
        )
    ]
