"""How well encoders tell captions from foils, and from which modality their scores come, as plain tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from waltz.core import parquet
from waltz.core.schema import COMPARISONS, METRICS, SHARES
from waltz.evaluation.metrics import METRICS as PAIRED
from waltz.reporting.construction import PlainTable, Row, share_text

SIGNIFICANT = 0.05
HEADINGS = {
    "acc_r": "acc_r",
    "acc": "acc",
    "p_c": "p_c",
    "p_f": "p_f",
    "min_pc_pf": "min(p_c, p_f)",
    "auroc": "AUROC",
}


@dataclass(frozen=True)
class Multimodality:
    """Files about encoders' scores and what they come from.

    Attributes:
        metrics: Parquet of the metrics of all models.
        comparisons: Parquet of the paired comparisons.
        shares: Parquet of the shares of text, where the study attributes.
        attributed: Parquet of the metrics that come with attribution.
    """

    metrics: str
    comparisons: str
    shares: str | None
    attributed: str | None


def multimodality_tables(files: Multimodality) -> list[PlainTable]:
    """All tables about encoders that a study has numbers for."""
    metrics = parquet.read(files.metrics, METRICS).to_pylist()
    tables = [
        *metrics_tables([row for row in metrics if row["metric"] in PAIRED and ":" not in row["dataset"]]),
        *answer_tables([row for row in metrics if row["metric"] == "accuracy" and ":" not in row["dataset"]]),
        *probes_tables([row for row in metrics if ":" in row["dataset"]]),
        *comparison_tables(parquet.read(files.comparisons, COMPARISONS).to_pylist()),
    ]
    if files.shares is not None and files.attributed is not None:
        tables += share_tables(parquet.read(files.shares, SHARES).to_pylist())
        attributed = parquet.read(files.attributed, METRICS).to_pylist()
        tables += companion_tables(attributed)
        tables += verb_tables([row for row in attributed if row["dataset"].startswith("cv-probes:")])
    return tables


def metrics_tables(rows: Sequence[Row]) -> list[PlainTable]:
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
                    *(_short(cells.get(metric)) for metric in HEADINGS),
                )
                for (dataset, model), cells in _by(_in_turn(of), ("dataset", "model"), "metric").items()
            ),
            tuple(_reasons(of)),
            profile=profile,
        )
        for profile, of in _groups(rows, "profile").items()
    ]


def answer_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """Accuracy of answers, a row a profile, data set and model."""
    if not rows:
        return []
    return [
        PlainTable(
            "answers",
            "Questions answered",
            "Percent of answers that are the gold one, with intervals over images.",
            ("profile", "data set", "model", "n", "accuracy"),
            tuple(
                (row["profile"], row["dataset"], row["model"], str(row["n"]), row["reason"] or _short(row))
                for row in rows
            ),
        )
    ]


def probes_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """CV-Probes: a table a profile, a row a form and model, a column a condition."""
    tables = []
    for profile, of in _groups(rows, "profile").items():
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
                    (form, model, *(_short(cells.get((form, model, *column))) for column in columns))
                    for form, model in dict.fromkeys((row["setting"], row["model"]) for row in of)
                ),
                tuple(_reasons(of)),
                profile=profile,
            )
        )
    return tables


def comparison_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """Pairs of models that differ in acc_r beyond chance, a table a profile."""
    tables = []
    for profile, of in _groups([row for row in rows if row["metric"] == "acc_r"], "profile").items():
        told = [row for row in of if row["p_holm"] is not None and row["p_holm"] <= SIGNIFICANT]
        tables.append(
            PlainTable(
                f"comparisons-{profile}",
                f"Models that differ in acc_r, profile {profile}",
                f"{len(told)} of {len(of)} paired comparisons (McNemar's exact test on the items that both scored) have"
                f" p ≤ {SIGNIFICANT} after Holm's correction over this table.",
                ("data set", "model a", "model b", "a − b", "p, corrected", "n"),
                tuple(
                    (
                        row["dataset"],
                        row["model_a"],
                        row["model_b"],
                        f"{row['difference']:+.1f} [{row['ci_low']:+.1f}, {row['ci_high']:+.1f}]",
                        f"{row['p_holm']:.2g}",
                        str(row["n"]),
                    )
                    for row in told
                ),
                profile=profile,
            )
        )
    return tables


def share_tables(rows: Sequence[Row]) -> list[PlainTable]:
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
                    _short(row),
                    _number(row["sd"], 1),
                    _number(row["standard_error"], 2),
                    row["mm_skew"] or "",
                    _number(row["rho"], 2),
                )
                for row in _in_turn(of)
            ),
            tuple(
                f"{row['dataset']}, {row['model']}, {row['role']}: {entry['count']} without a T-SHAP: {entry['reason']}"
                for row in of
                for entry in row["missing"]
            ),
            profile=profile,
        )
        for profile, of in _groups(rows, "profile").items()
    ]


def companion_tables(rows: Sequence[Row]) -> list[PlainTable]:
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
                (dataset, model, *(_short(cells.get((dataset, model, *column))) for column in columns))
                for dataset, model in dict.fromkeys((row["dataset"], row["model"]) for row in told)
            ),
        )
    ]


def verb_tables(rows: Sequence[Row]) -> list[PlainTable]:
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
                    *(_short(cells.get(metric), 3 if metric == "verb_shap" else 1) for metric in metrics),
                )
                for (model, dataset, said), cells in _by(of, ("model", "dataset", "setting"), "metric").items()
                if max(cell["n"] for cell in cells.values())
            ),
            profile=profile,
        )
        for profile, of in _groups(rows, "profile").items()
    ]


def _in_turn(rows: Sequence[Row]) -> list[Row]:
    """Rows data set by data set, so that models stand below each other."""
    return [row for of in _groups(rows, "dataset").values() for row in of]


def _groups(rows: Sequence[Row], key: str) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    return groups


def _by(rows: Sequence[Row], keys: Sequence[str], column: str) -> dict[tuple[str, ...], dict[str, Row]]:
    found: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), {})[row[column]] = row
    return found


def _reasons(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Each reason for empty cells once, with the models that have it."""
    models: dict[str, list[str]] = {}
    for row in rows:
        if row["reason"]:
            known = models.setdefault(str(row["reason"]), [])
            if row["model"] not in known:
                known.append(str(row["model"]))
    return [f"{', '.join(of)}: {reason}" for reason, of in models.items()]


def _short(row: Row | None, places: int = 1) -> str:
    """A cell with its interval; a dash where its reason stands below the table."""
    if row is None:
        return ""
    if row["value"] is None:
        return "–"
    if places == 1:
        return share_text(row) if row["ci_low"] is not None else f"{row['value']:.1f}"
    return f"{row['value']:.{places}f} [{row['ci_low']:.{places}f}, {row['ci_high']:.{places}f}]"


def _number(value: float | None, places: int) -> str:
    return "" if value is None else f"{value:.{places}f}"
