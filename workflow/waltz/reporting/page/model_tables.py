"""Plain tables of models: their accuracy and answers, and the modalities and players that these depend on."""

import math
from collections.abc import Callable, Mapping, Sequence

from waltz.core.files import parquet
from waltz.core.schema import COMPARISONS, METRICS, SHARES
from waltz.evaluation.metrics.pair_metrics import METRICS as PAIR_METRICS
from waltz.evaluation.metrics.pair_metrics import NOT_APPLICABLE
from waltz.evaluation.settings import ALIGNMENT, PAIRWISE, PERPLEXITY, SINGLE
from waltz.fidelity import get_fidelity
from waltz.reporting.page.plain_tables import (
    HEADINGS,
    PlainTable,
    Row,
    format_interval,
    format_measure,
    format_number,
    group_rows,
    label_datasets,
    list_reasons,
    pivot_cells,
    pivot_rows,
    sort_rows,
)

SIGNIFICANCE_LEVEL = 0.05
SCORE_SETTINGS = ("", ALIGNMENT, PERPLEXITY)
"""Settings of models that score texts without a prompt; the others are those of decoders."""
COMPANIONS = {
    ("without text", "acc_r"): "acc_r without text",
    ("without image", "acc_r"): "acc_r without image",
    ("pairs", "emap_model"): "acc_r",
    ("pairs", "emap"): "EMAP",
    ("pairs", "perceptual_text"): "perceptual score, text",
    ("pairs", "perceptual_image"): "perceptual score, image",
    ("without text", "accuracy"): "accuracy of answers without text",
    ("without image", "accuracy"): "accuracy of answers without image",
    ("answering", "perceptual_text"): "perceptual score of answers, text",
    ("answering", "perceptual_image"): "perceptual score of answers, image",
}
"""Headings of companion measures, by setting and metric."""
EDIT_SETTINGS = {"edits": "all", "edits:flipping": "that change the answer", "edits:keeping": "that keep it"}
"""Effect of counterfactual edits, by the prefix of their metrics."""
COSINE_RANGE = 2.0
"""Distance of the smallest and largest cosine distance."""
CLAIM_VERDICTS = {1.0: "supported", 0.0: "refuted", None: "undecided"}


def read_model_tables(files: Mapping[str, str]) -> list[PlainTable]:
    """Read the tables of encoders' scores and decoders' answers that a study has numbers for.

    Args:
        files: Parquet files `metrics` (of all models) and `comparisons`; `shares` and `attributed` (companion measures)
            of a study with attribution; `tested` (metrics of stage consistency) of a study with tests.
    """
    if "metrics" not in files:
        return []
    metrics = parquet.read_rows(files["metrics"], METRICS)
    pairs = [row for row in metrics if row["metric"] in PAIR_METRICS and ":" not in row["dataset"]]
    tables = [
        *_make_by_profile(make_metrics_table, [row for row in pairs if row["setting"] in SCORE_SETTINGS]),
        *_make_by_profile(make_decoder_table, [row for row in pairs if row["setting"] not in SCORE_SETTINGS]),
        *make_answer_tables([row for row in metrics if row["metric"] == "accuracy" and ":" not in row["dataset"]]),
        *_make_by_profile(make_cv_probes_table, [row for row in metrics if ":" in row["dataset"]]),
        *_make_by_profile(make_comparison_table, parquet.read_rows(files["comparisons"], COMPARISONS)),
    ]
    if "shares" in files:
        companions = parquet.read_rows(files["attributed"], METRICS)
        verbs = [row for row in companions if row["dataset"].startswith("cv-probes:")]
        tables += _make_by_profile(make_share_table, parquet.read_rows(files["shares"], SHARES))
        tables += make_companion_tables(companions)
        tables += _make_by_profile(make_verb_table, verbs)
    if "tested" in files:
        tables += make_edit_tables(parquet.read_rows(files["tested"], METRICS))
    return tables


def _make_by_profile(make_table: Callable[[Sequence[Row], str], PlainTable], rows: Sequence[Row]) -> list[PlainTable]:
    """Return one table for each profile."""
    return [make_table(group, profile) for profile, group in group_rows(rows, "profile").items()]


def make_metrics_table(rows: Sequence[Row], profile: str) -> PlainTable:
    """Return the table of metrics in one profile: a row for each metric and model, a column for each data set."""
    return PlainTable(
        f"metrics-{profile}",
        f"Accuracy on captions and foils, profile {profile}",
        "Percent, with intervals over images. acc_r: the caption scores above its foil"
        f" ({'or as high' if get_fidelity(profile).tied_pair_is_right else 'a tie is wrong'}; ties: items whose two"
        " scores are equal). p_c, p_f: captions accepted as a match, foils rejected; acc is their mean. AUROC: over all"
        " captions and foils of the data set.",
        *_pivot_metrics(rows),
        tuple(list_reasons(rows)),
        profile,
        is_grouped=True,
    )


def make_decoder_table(rows: Sequence[Row], profile: str) -> PlainTable:
    """Return the table of decoders' accuracy on captions and foils in one profile."""
    return PlainTable(
        f"decoders-{profile}",
        f"Accuracy of decoders on captions and foils, profile {profile}",
        "Percent, with intervals over images. pairwise: the prompt asks which text describes the image (acc_r: the"
        " answer is the caption); single: it asks of each text whether it does (p_c: yes to captions, p_f: no to"
        " foils; acc is their mean); -after-cot: after a chain of thought. The others rank the texts by a score.",
        *_pivot_metrics(rows),
        tuple(list_reasons([row for row in rows if row["reason"] != NOT_APPLICABLE])),
        profile,
        is_grouped=True,
    )


def _pivot_metrics(rows: Sequence[Row]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the header and the rows of metrics of captions and foils, with a column for each data set."""
    labels = label_datasets(rows)
    measured = [row for row in rows if row["reason"] != NOT_APPLICABLE]
    columns, body = pivot_cells(
        ((HEADINGS[metric], row["model"], row["setting"]), labels[row["dataset"]], format_measure(row))
        for metric in HEADINGS
        for row in measured
        if row["metric"] == metric
    )
    return ("metric", "model", "setting", *columns), body


def make_answer_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """Return the table of the accuracy of answers and labels; none without rows."""
    if not rows:
        return []
    labels = label_datasets(rows)
    columns, body = pivot_cells(
        (
            (row["profile"], row["model"], row["setting"]),
            labels[row["dataset"]],
            row["reason"] or format_measure(row),
        )
        for row in rows
    )
    return [
        PlainTable(
            "answers",
            "Questions answered",
            "Percent of answers that are the gold one, with intervals over images (over items of text tasks). choice:"
            " the model chooses a label; answering: it answers in words; -after-cot: after a chain of thought.",
            ("profile", "model", "setting", *columns),
            body,
        )
    ]


def make_cv_probes_table(rows: Sequence[Row], profile: str) -> PlainTable:
    """Return the table of CV-Probes in one profile: a row for each form and model, a column for each condition."""
    cells = {(row["setting"], row["model"], row["dataset"].partition(":")[2], row["metric"]): row for row in rows}
    columns = list(dict.fromkeys((condition, metric) for _, _, condition, metric in cells))
    return PlainTable(
        f"probes-{profile}",
        f"CV-Probes, profile {profile}",
        "Percent right. With a match probability: p(match) above p(no match) on +img+cap, +img-cap and"
        " -img-cap, below it on -img+cap, and the harmonic mean of the four. The last two compare scores and"
        " need none.",
        ("form", "model", *(f"{condition} {metric}" for condition, metric in columns)),
        tuple(
            (form, model, *(format_measure(cells.get((form, model, *column))) for column in columns))
            for form, model in dict.fromkeys((row["setting"], row["model"]) for row in rows)
        ),
        tuple(list_reasons(rows)),
        profile,
    )


def make_comparison_table(rows: Sequence[Row], profile: str) -> PlainTable:
    """Return the table of the pairs of models whose acc_r differs significantly, in one profile."""
    rows = [row for row in rows if row["metric"] == "acc_r"]
    significant = [row for row in rows if row["p_holm"] is not None and row["p_holm"] <= SIGNIFICANCE_LEVEL]
    return PlainTable(
        f"comparisons-{profile}",
        f"Models that differ in acc_r, profile {profile}",
        f"{len(significant)} of {len(rows)} paired comparisons (McNemar's exact test, items that both scored)"
        f" have p ≤ {SIGNIFICANCE_LEVEL} after Holm's correction over all of one setting. {SINGLE}: from the"
        f" scores of each text; {PAIRWISE}: from the decoders' choices between two texts.",
        ("data set", "setting", "model a", "model b", "a − b", "p, corrected", "n"),
        tuple(
            (
                *(row[name] for name in ("dataset", "setting", "model_a", "model_b")),
                f"{row['difference']:+.1f}{format_interval(row, '+.1f')}",
                f"{row['p_holm']:.2g}",
                str(row["n"]),
            )
            for row in significant
        ),
        profile=profile,
    )


def make_share_table(rows: Sequence[Row], profile: str) -> PlainTable:
    """Return the table of T-SHAP in one profile: a row for each number, model, role and setting.

    Columns are data sets.
    """
    labels = label_datasets(rows)
    numbers: dict[str, Callable[[Row], str]] = {
        "T-SHAP": format_measure,
        "± over items": lambda row: format_number(row["sd"], 1),
        "± of an item": lambda row: format_number(row["standard_error"], 2),
        "leans to": lambda row: row["mm_skew"] or "",
        "ρ": lambda row: format_number(row["rho"], 2),
    }
    columns, body = pivot_cells(
        ((name, *(row[key] for key in ("model", "role", "setting"))), labels[row["dataset"]], show(row))
        for name, show in numbers.items()
        for row in rows
    )
    return PlainTable(
        f"shares-{profile}",
        f"T-SHAP, profile {profile}",
        "Text's share of the Shapley values' magnitude, in percent, with intervals over images; “± over items” is the"
        " spread over items, “± of an item” the standard error of one item's share from sampling coalitions. ρ is"
        " Spearman's correlation with correctness.",
        ("number", "model", "role", "setting", *columns),
        body,
        tuple(
            f"{row['dataset']}, {row['model']}, {row['role']}, {row['setting']}: {entry['count']} without a T-SHAP:"
            f" {entry['reason']}"
            for row in rows
            for entry in row["missing"]
        ),
        profile,
        is_grouped=True,
    )


def make_companion_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """Return the table of accuracy without one modality, EMAP and perceptual score; none without rows."""
    measured = [row for row in rows if (row["setting"], row["metric"]) in COMPANIONS and row["profile"] == "equations"]
    if not measured:
        return []
    labels = label_datasets(measured)
    columns, body = pivot_cells(
        ((heading, row["model"]), labels[row["dataset"]], format_measure(row))
        for key, heading in COMPANIONS.items()
        for row in measured
        if (row["setting"], row["metric"]) == key
    )
    return [
        PlainTable(
            "companions",
            "Accuracy without one modality, profile equations",
            "Percent. Without text or image: all of its players masked. EMAP: the sum of a function of the text and one"
            " of the image that is nearest to the scores. Perceptual score: accuracy lost where a modality is permuted"
            " among the items, in points.",
            ("number", "model", *columns),
            body,
            is_grouped=True,
        )
    ]


def make_verb_table(rows: Sequence[Row], profile: str) -> PlainTable:
    """Return the table of the verb's contribution on CV-Probes in one profile."""
    shown = {"verb_shap": (3, math.inf), "verb_share": (1, 100.0), "t_shap_overall": (1, 100.0)}
    cells = pivot_rows(rows, ("model", "dataset", "setting"), "metric")
    return PlainTable(
        f"verbs-{profile}",
        f"CV-Probes: the verb, profile {profile}",
        "Shapley values of the verb's word pieces: their signed sum, in the unit of the score, and their magnitude"
        " in percent of all text tokens', by condition and by the model's prediction.",
        ("model", "condition", "prediction", "n", "verb, signed", "verb, % of text", "T-SHAP, %"),
        tuple(
            (
                model,
                dataset.partition(":")[2],
                prediction,
                str(n),
                *(format_measure(metrics.get(name), places, scale) for name, (places, scale) in shown.items()),
            )
            for (model, dataset, prediction), metrics in cells.items()
            if (n := max(cell["n"] for cell in metrics.values()))
        ),
        profile=profile,
    )


def make_edit_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """Return the table of how counterfactual edits change contributions; none without edits.

    Args:
        rows: Rows of the layout `METRICS` of stage consistency.
    """
    edit_rows = [
        {**row, "prefix": prefix, "part": part}
        for row in rows
        for prefix, _, part in [row["metric"].rpartition(":")]
        if prefix in EDIT_SETTINGS
    ]
    edit_rows.sort(key=lambda row: list(EDIT_SETTINGS).index(row["prefix"]))
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
                    *names[:3],
                    EDIT_SETTINGS[names[3]],
                    str(parts["difference"]["n"]),
                    *(format_measure(parts[side], 2, COSINE_RANGE) for side in ("answer", "explanation", "difference")),
                    CLAIM_VERDICTS[parts["claim"]["value"]],
                )
                for names, parts in sorted(measured.items(), key=lambda item: item[0][:2])
            ),
        )
    ]
