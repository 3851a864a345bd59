"""How well models tell captions from foils and answer, and from which modality scores come, as plain tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from waltz.core.files import parquet
from waltz.core.schema import COMPARISONS, METRICS, SHARES
from waltz.evaluation.metrics.pair_metrics import METRICS as PAIRED
from waltz.evaluation.metrics.scored_pairs import ALIGNMENT, PAIRWISE, PERPLEXITY, SINGLE
from waltz.reporting.page.construction_tables import PlainTable, Row, format_interval
from waltz.reporting.page.decoder_tables import make_answer_tables, make_decoder_tables, make_edit_tables
from waltz.reporting.page.grouping import (
    HEADINGS,
    count_reasons,
    format_measure,
    format_number,
    group_rows,
    pivot_rows,
    sort_rows,
)

SIGNIFICANT = 0.05
SCORE_SETTINGS = ("", ALIGNMENT, PERPLEXITY)
"""Settings of models that score texts without being asked; the others are decoders'."""


@dataclass(frozen=True)
class ModalityFiles:
    """Files about models' scores and answers, and what they come from.

    Attributes:
        metrics: Parquet of the metrics of all models.
        comparisons: Parquet of the paired comparisons.
        shares: Parquet of the shares of text, where the study attributes.
        attributed: Parquet of the metrics that come with attribution.
        consistency: Parquet of the metrics of self-consistency tests and CC-SHAP, where the study compares edits.
    """

    metrics: str
    comparisons: str
    shares: str | None
    attributed: str | None
    consistency: str | None = None


def make_modality_tables(files: ModalityFiles) -> list[PlainTable]:
    """All tables about encoders' scores and decoders' answers that a study has numbers for."""
    metrics = parquet.read(files.metrics, METRICS).to_pylist()
    paired = [row for row in metrics if row["metric"] in PAIRED and ":" not in row["dataset"]]
    tables = [
        *make_metrics_tables([row for row in paired if row["setting"] in SCORE_SETTINGS]),
        *make_decoder_tables([row for row in paired if row["setting"] not in SCORE_SETTINGS]),
        *make_answer_tables([row for row in metrics if row["metric"] == "accuracy" and ":" not in row["dataset"]]),
        *make_cv_probes_tables([row for row in metrics if ":" in row["dataset"]]),
        *make_comparison_tables(parquet.read(files.comparisons, COMPARISONS).to_pylist()),
    ]
    if files.shares is not None and files.attributed is not None:
        tables += make_share_tables(parquet.read(files.shares, SHARES).to_pylist())
        attributed = parquet.read(files.attributed, METRICS).to_pylist()
        tables += make_companion_tables(attributed)
        tables += make_verb_tables([row for row in attributed if row["dataset"].startswith("cv-probes:")])
    if files.consistency is not None:
        tables += make_edit_tables(parquet.read(files.consistency, METRICS).to_pylist())
    return tables


def make_metrics_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """A table a profile, a row a data set and model."""
    return [
        PlainTable(
            f"metrics-{profile}",
            f"Captions and foils told apart, profile {profile}",
            "Percent, with intervals over images. acc_r: the caption scores above its foil. p_c, p_f: captions taken"
            " for a match, foils for none; acc is their mean. AUROC: over all captions and foils of the data set.",
            ("data set", "model", "n", *HEADINGS.values()),
            tuple(
                (
                    dataset,
                    model,
                    str(max(cell["n"] for cell in cells.values())),
                    *(format_measure(cells.get(metric)) for metric in HEADINGS),
                )
                for (dataset, model), cells in pivot_rows(sort_rows(of), ("dataset", "model"), "metric").items()
            ),
            tuple(count_reasons(of)),
            profile=profile,
        )
        for profile, of in group_rows(rows, "profile").items()
    ]


def make_cv_probes_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """CV-Probes: a table a profile, a row a form and model, a column a condition."""
    tables = []
    for profile, of in group_rows(rows, "profile").items():
        columns = list(dict.fromkeys((row["dataset"].partition(":")[2], row["metric"]) for row in of))
        cells = {(row["setting"], row["model"], row["dataset"].partition(":")[2], row["metric"]): row for row in of}
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
                    for form, model in dict.fromkeys((row["setting"], row["model"]) for row in of)
                ),
                tuple(count_reasons(of)),
                profile=profile,
            )
        )
    return tables


def make_comparison_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """Pairs of models that differ in acc_r beyond chance, a table a profile."""
    tables = []
    for profile, of in group_rows([row for row in rows if row["metric"] == "acc_r"], "profile").items():
        told = [row for row in of if row["p_holm"] is not None and row["p_holm"] <= SIGNIFICANT]
        tables.append(
            PlainTable(
                f"comparisons-{profile}",
                f"Models that differ in acc_r, profile {profile}",
                f"{len(told)} of {len(of)} paired comparisons (McNemar's exact test on the items that both scored) have"
                f" p ≤ {SIGNIFICANT} after Holm's correction over all of one setting. {SINGLE}: what models make of"
                f" each text; {PAIRWISE}: which of the two decoders choose.",
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
                    for row in told
                ),
                profile=profile,
            )
        )
    return tables


def make_share_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """T-SHAP, a table a profile, a row a data set, model and role."""
    return [
        PlainTable(
            f"shares-{profile}",
            f"T-SHAP, profile {profile}",
            "Text's share of the Shapley values' magnitude, in percent, with intervals over images; ± is the spread"
            " over items, “per item” the standard error of one item's share that sampling coalitions leaves. ρ is"
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
                for row in sort_rows(of)
            ),
            tuple(
                f"{row['dataset']}, {row['model']}, {row['role']}: {entry['count']} without a T-SHAP: {entry['reason']}"
                for row in of
                for entry in row["missing"]
            ),
            profile=profile,
        )
        for profile, of in group_rows(rows, "profile").items()
    ]


def make_companion_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """Accuracy without one modality, EMAP and perceptual score, a row a data set and model."""
    names = {
        ("without text", "acc_r"): "acc_r without text",
        ("without image", "acc_r"): "acc_r without image",
        ("pairs", "emap_model"): "acc_r",
        ("pairs", "emap"): "EMAP",
        ("pairs", "perceptual_text"): "perceptual score, text",
        ("pairs", "perceptual_image"): "perceptual score, image",
    }
    told = [row for row in rows if (row["setting"], row["metric"]) in names and row["profile"] == "equations"]
    cells = {(row["dataset"], row["model"], row["setting"], row["metric"]): row for row in told}
    columns = [key for key in names if any((row["setting"], row["metric"]) == key for row in told)]
    if not told:
        return []
    return [
        PlainTable(
            "companions",
            "Modalities taken away, profile equations",
            "Percent. Without text or image: all of its players masked. EMAP: the sum of a function of the text and one"
            " of the image that is nearest to the scores. Perceptual score: accuracy lost where a modality is dealt out"
            " among the items, in points.",
            ("data set", "model", *(names[column] for column in columns)),
            tuple(
                (dataset, model, *(format_measure(cells.get((dataset, model, *column))) for column in columns))
                for dataset, model in dict.fromkeys((row["dataset"], row["model"]) for row in told)
            ),
        )
    ]


def make_verb_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """What the verb contributes on CV-Probes, a table a profile, a row a model, condition and answer."""
    metrics = {"verb_shap": "verb, signed", "verb_share": "verb, % of text", "t_shap_overall": "T-SHAP, %"}
    return [
        PlainTable(
            f"verbs-{profile}",
            f"CV-Probes: the verb, profile {profile}",
            "Shapley values of the verb's word pieces: their signed sum, in the unit of the score, and their magnitude"
            " in percent of all text tokens', by condition and by what the model says.",
            ("model", "condition", "said", "n", *metrics.values()),
            tuple(
                (
                    model,
                    dataset.partition(":")[2],
                    said,
                    str(max(cell["n"] for cell in cells.values())),
                    *(format_measure(cells.get(metric), 3 if metric == "verb_shap" else 1) for metric in metrics),
                )
                for (model, dataset, said), cells in pivot_rows(of, ("model", "dataset", "setting"), "metric").items()
                if max(cell["n"] for cell in cells.values())
            ),
            profile=profile,
        )
        for profile, of in group_rows(rows, "profile").items()
    ]
