"""How the benchmark came about, as plain tables: the funnel, the oracle's verdicts, the blind audit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from waltz.core.files import parquet
from waltz.core.schema import AUDIT, FUNNEL, ORACLE, STATISTICS
from waltz.reporting.tables.paper_values import read_paper_values

Row = Mapping[str, Any]


@dataclass(frozen=True)
class PlainTable:
    """A table of texts.

    Attributes:
        id: Anchor on the page.
        title: What it shows.
        note: What a reader must know.
        header: Texts of the header, the first above the names of the rows.
        rows: Texts, as many in each as in the header.
        remarks: Sentences below the table.
        profile: Fidelity profile that all its numbers are of, if one.
    """

    id: str
    title: str
    note: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...] = ()
    profile: str = ""


@dataclass(frozen=True)
class ConstructionFiles:
    """Files that say how the instruments were built.

    Attributes:
        funnel: Parquet of the funnel layout.
        statistics: Parquet of the validation statistics, for the distances.
        printed: The published table A.2.
        oracle: Parquet of the oracle's verdicts, where there is an oracle.
        audit: Parquet of the blind audit, where the study asks for it.
    """

    funnel: str
    statistics: str
    printed: str
    oracle: str | None
    audit: str | None


def make_construction_tables(files: ConstructionFiles) -> list[PlainTable]:
    """The tables of what was built."""
    js = {
        row["dataset"]: row["value"]
        for row in parquet.read(files.statistics, STATISTICS).to_pylist()
        if row["metric"] == "js"
    }
    printed = {
        cell.key[2]: float(cell.value)
        for cell in read_paper_values(files.printed).values()
        if cell.key[0] == "js" and cell.value
    }
    tables = [make_funnel_table(parquet.read(files.funnel, FUNNEL).to_pylist(), js, printed)]
    if files.oracle is not None:
        tables.append(make_oracle_table(parquet.read(files.oracle, ORACLE).to_pylist()))
    if files.audit is not None:
        tables.append(make_audit_table(parquet.read(files.audit, AUDIT).to_pylist()))
    return tables


def make_funnel_table(
    rows: Sequence[Row], balance: Mapping[str, float | None], published: Mapping[str, float]
) -> PlainTable:
    """Candidates left after each step, a row an instrument.

    Args:
        rows: Rows of the funnel layout.
        balance: Jensen-Shannon distance of each instrument's items; None where there are none.
        published: The printed distance of each.
    """
    steps = list(dict.fromkeys(row["step"] for row in rows))
    counts = {(row["instrument"], row["step"]): row for row in rows}
    names = list(dict.fromkeys(row["instrument"] for row in rows))
    remarks = []
    for name in names:
        lost = [f"{entry['count']:,} {entry['reason']}" for step in steps for entry in counts[name, step]["lost"]]
        remarks.append(f"{name}: {'; '.join(lost) if lost else 'nothing lost'}")
    return PlainTable(
        "funnel",
        "From candidates to items",
        "Candidates left after each step. JS is the Jensen–Shannon distance between the words exchanged in captions and"
        " in foils of the items (0: no word betrays a foil), beside the printed one of the released instrument.",
        ("instrument", *steps, "JS", "JS in print"),
        tuple(
            (
                name,
                *(f"{counts[name, step]['count']:,}" for step in steps),
                _format_number(balance.get(name)),
                _format_number(published.get(name)),
            )
            for name in names
        ),
        tuple(remarks),
    )


def make_oracle_table(rows: Sequence[Row]) -> PlainTable:
    """The oracle's shares, a row a group of candidates, with a sentence where a filter does not help."""
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    found = {(row["instrument"], row["candidates"], row["metric"]): row for row in rows}
    names = list(dict.fromkeys((row["instrument"], row["candidates"]) for row in rows))
    shown = [name for name in names if found[(*name, metrics[0])]["n"]]
    instruments = dict.fromkeys(instrument for instrument, _ in shown)
    return PlainTable(
        "oracle",
        "What the scenes' oracle says",
        "Percent, with intervals. Captions true and foils false are shares of those that the oracle decides."
        " “grammatical” and “contradicting” are the attested candidates that pass that one filter, “filtered” those"
        " that pass all.",
        ("instrument", "candidates", "n", *(metric.replace("_", " ") for metric in metrics)),
        tuple(
            (
                *name,
                f"{found[(*name, 'foils_decided')]['n']:,}",
                *(format_share(found[(*name, metric)]) for metric in metrics),
            )
            for name in shown
        ),
        tuple(sentence for instrument in instruments for sentence in describe_filter_effects(instrument, found)),
    )


def describe_filter_effects(instrument: str, found: Mapping[tuple[str, str, str], Row]) -> Iterable[str]:
    """Whether each filter raises the share that it is there to raise."""
    for group, metric, what in (
        ("contradicting", "foils_false", "the entailment filter"),
        ("grammatical", "foils_in_grammar", "the grammaticality filter"),
    ):
        before, after = found[instrument, "attested", metric], found[instrument, group, metric]
        if before["value"] is None or after["value"] is None:
            continue
        change = f"{before['value']:.1f} to {after['value']:.1f} %"
        verb = "raises" if after["value"] > before["value"] else "does not raise"
        ends = after["ci_low"], before["ci_high"]
        apart = "" if None not in ends and ends[0] > ends[1] else " (the intervals overlap)"
        yield f"{instrument}: {what} {verb} {metric.replace('_', ' ')}: {change}{apart}"


def make_audit_table(rows: Sequence[Row]) -> PlainTable:
    """How often judges of text alone prefer the caption, a row an instrument."""
    judges = list(dict.fromkeys(row["judge"] for row in rows))
    found = {(row["instrument"], row["judge"]): row for row in rows}
    names = list(dict.fromkeys(row["instrument"] for row in rows))
    return PlainTable(
        "audit",
        "Blind audit",
        "Percent of pairs in which a judge that sees no image prefers the caption; ties count one half, so 50 is"
        " chance.",
        ("instrument", "n", *judges),
        tuple(
            (
                name,
                str(max(found[name, judge]["n"] for judge in judges if (name, judge) in found)),
                *(format_share(found[name, judge]) if (name, judge) in found else "" for judge in judges),
            )
            for name in names
        ),
        tuple(f"{row['instrument']}: {row['warning']}" for row in rows if row["warning"]),
    )


def format_share(row: Row) -> str:
    """A share with its interval, or why there is none."""
    if row["value"] is None:
        return str(row["reason"])
    return f"{row['value']:.1f}{format_interval(row)}"


def format_interval(row: Row, form: str = ".1f") -> str:
    """The interval behind a number; nothing where it has none."""
    low, high = row["ci_low"], row["ci_high"]
    return "" if low is None or high is None else f" [{low:{form}}, {high:{form}}]"


def _format_number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
