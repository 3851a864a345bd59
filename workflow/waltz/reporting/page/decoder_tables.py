"""What decoders say of captions, foils and questions, as plain tables."""

from collections.abc import Sequence

from waltz.evaluation.metrics.scored_pairs import NOT_APPLICABLE
from waltz.reporting.page.construction_tables import PlainTable, Row
from waltz.reporting.page.grouping import HEADINGS, count_reasons, format_measure, group_rows, pivot_rows, sort_rows

EDIT_SETTINGS = {"edits": "all", "edits:flipping": "that change the answer", "edits:keeping": "that keep it"}
"""What counterfactual edits do, by what begins their metrics."""
CLAIM_VERDICTS = {1.0: "supported", 0.0: "refuted", None: "undecided"}


def make_decoder_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """What decoders say of captions and foils, a table a profile, a row a data set, model and way of asking."""
    return [
        PlainTable(
            f"decoders-{profile}",
            f"Captions and foils told apart by decoders, profile {profile}",
            "Percent, with intervals over images. pairwise: asked which of the two describes the image (acc_r: it says"
            " the caption); single: asked of each text whether it does (p_c: yes to captions, p_f: no to foils; acc is"
            " their mean); -after-cot: after a chain of thought. The others ask nothing and rank the texts by a score.",
            ("data set", "model", "asked", "n", *HEADINGS.values()),
            tuple(
                (
                    dataset,
                    model,
                    setting,
                    str(max(cell["n"] for cell in cells.values())),
                    *(format_measure(cells.get(metric)) for metric in HEADINGS),
                )
                for (dataset, model, setting), cells in pivot_rows(
                    sort_rows(of), ("dataset", "model", "setting"), "metric"
                ).items()
            ),
            tuple(count_reasons([row for row in of if row["reason"] != NOT_APPLICABLE])),
        )
        for profile, of in group_rows(rows, "profile").items()
    ]


def make_answer_tables(rows: Sequence[Row]) -> list[PlainTable]:
    """Accuracy of answers and of labels, a row a profile, data set, model and way of asking."""
    if not rows:
        return []
    return [
        PlainTable(
            "answers",
            "Questions answered",
            "Percent of answers that are the gold one, with intervals over images (over items of text tasks). choice: a"
            " label is chosen; answering: the model answers in words; -after-cot: after a chain of thought.",
            ("profile", "data set", "model", "asked", "n", "accuracy"),
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
    """What counterfactual edits move of contributions, a row a profile, model, data set and kind of edit.

    Args:
        rows: Rows of the layout `METRICS` of stage consistency.
    """
    told = [
        {**row, "begins": begins, "told": row["metric"].removeprefix(f"{begins}:")}
        for begins in EDIT_SETTINGS
        for row in rows
        if row["metric"].rpartition(":")[0] == begins
    ]
    cells = pivot_rows(sort_rows(told), ("profile", "model", "dataset", "begins"), "told")
    shown = {names: of for names, of in cells.items() if of["difference"]["n"]}
    if not shown:
        return []
    return [
        PlainTable(
            "edits",
            "Contributions before and after counterfactual edits",
            "Cosine distance that an inserted word moves the contributions of all other players, to the answer and to"
            " the explanation of it, with intervals over images or items; the difference is explanation less answer."
            " The printed claim, that answers' contributions stay and explanations' change, is supported where the"
            " interval of the difference lies above 0.05, refuted where it lies below.",
            ("profile", "model", "data set", "edits", "n", "answer", "explanation", "difference", "claim"),
            tuple(
                (
                    profile,
                    model,
                    dataset,
                    EDIT_SETTINGS[begins],
                    str(of["difference"]["n"]),
                    *(format_measure(of[side], 2) for side in ("answer", "explanation", "difference")),
                    CLAIM_VERDICTS[of["claim"]["value"]],
                )
                for (profile, model, dataset, begins), of in sorted(shown.items(), key=lambda item: item[0][:2])
            ),
        )
    ]
