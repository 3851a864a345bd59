"""Plain tables of decoders' answers on captions, foils and questions, and of their contributions after edits."""

from collections.abc import Sequence

from waltz.evaluation.metrics.scored_pairs import NOT_APPLICABLE
from waltz.reporting.page.plain_tables import (
    HEADINGS,
    PlainTable,
    Row,
    format_measure,
    group_rows,
    list_reasons,
    pivot_rows,
    sort_rows,
)

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
