"""Plain tables of how the benchmark was built: the funnel, the oracle's verdicts, the blind audit, CV-Probes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from waltz.core.files import parquet
from waltz.core.schema import AUDIT, CONDITIONS, FUNNEL, ORACLE, PROBE_CAPTIONS, STATISTICS, Layout
from waltz.reporting.page.plain_tables import PlainTable, Row, format_number, format_share
from waltz.reporting.tables.paper_values import read_paper_values


def read_construction_tables(files: Mapping[str, str]) -> list[PlainTable]:
    """Read the tables of how the benchmark of a study was built.

    Args:
        files: Parquet files by name: `funnel`, `statistics` (of validation), `oracle`, `audit`, and the thesis's Table
            A.2 as CSV (`printed`) of a study that builds instruments; `probes`, `probe_captions` and `probe_oracle` of
            one that builds CV-Probes. Oracle and audit may be missing.
    """

    def read_rows(name: str, layout: Layout) -> list[dict[str, Any]]:
        return parquet.read_rows(files[name], layout) if name in files else []

    tables = []
    if "funnel" in files:
        statistics = read_rows("statistics", STATISTICS)
        distances = {row["dataset"]: row["value"] for row in statistics if row["metric"] == "js"}
        paper_values = read_paper_values(files["printed"]).values()
        paper = {cell.key[2]: float(cell.value) for cell in paper_values if cell.key[0] == "js" and cell.value}
        tables.append(make_funnel_table(read_rows("funnel", FUNNEL), distances, paper))
    if "oracle" in files:
        tables.append(make_oracle_table(read_rows("oracle", ORACLE)))
    if "audit" in files:
        tables.append(make_audit_table(read_rows("audit", AUDIT)))
    if "probes" in files:
        items, captions = read_rows("probes", CONDITIONS), read_rows("probe_captions", PROBE_CAPTIONS)
        tables.append(make_conditions_table(items, captions, read_rows("probe_oracle", ORACLE)))
    return tables


def make_funnel_table(
    rows: Sequence[Row], distances: Mapping[str, float | None], paper_distances: Mapping[str, float]
) -> PlainTable:
    """Return the table of candidates that remain after each step, with one row for each instrument.

    Args:
        distances: Jensen-Shannon distance of each instrument's items; None where there are none.
        paper_distances: The thesis's distance of each instrument.
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
        "Candidates that remain after each step. JS is the Jensen–Shannon distance between the exchanged words in"
        " captions and in foils of the items (0: no word reveals a foil), with that of the released instrument.",
        ("instrument", *steps, "JS", "JS in the thesis"),
        tuple(
            (
                name,
                *(f"{counts[name, step]['count']:,}" for step in steps),
                format_number(distances.get(name), 3),
                format_number(paper_distances.get(name), 3),
            )
            for name in names
        ),
        tuple(remarks),
    )


def make_oracle_table(rows: Sequence[Row]) -> PlainTable:
    """Return the table of the oracle's shares, with one row for each group of candidates and remarks on the filters."""
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    shares = {(row["instrument"], row["candidates"], row["metric"]): row for row in rows}
    names = list(dict.fromkeys((row["instrument"], row["candidates"]) for row in rows))
    names_with_candidates = [name for name in names if shares[(*name, metrics[0])]["n"]]
    instruments = dict.fromkeys(instrument for instrument, _ in names_with_candidates)
    return PlainTable(
        "oracle",
        "Verdicts of the scenes' oracle",
        "Percent, with intervals. Captions true and foils false are shares of those that the oracle decides."
        " “grammatical” and “contradicting” are the attested candidates that pass that one filter, “filtered” those"
        " that pass all.",
        ("instrument", "candidates", "n", *(metric.replace("_", " ") for metric in metrics)),
        tuple(
            (
                *name,
                f"{shares[(*name, 'foils_decided')]['n']:,}",
                *(format_share(shares[(*name, metric)]) for metric in metrics),
            )
            for name in names_with_candidates
        ),
        tuple(sentence for instrument in instruments for sentence in _describe_filter_effects(instrument, shares)),
    )


def _describe_filter_effects(instrument: str, shares: Mapping[tuple[str, str, str], Row]) -> Iterable[str]:
    """Yield a sentence for each filter: whether it raises its share."""
    for group, metric, filter_name in (
        ("contradicting", "foils_false", "the entailment filter"),
        ("grammatical", "foils_in_grammar", "the grammaticality filter"),
    ):
        before, after = shares[instrument, "attested", metric], shares[instrument, group, metric]
        if before["value"] is None or after["value"] is None:
            continue
        change = f"{before['value']:.1f} to {after['value']:.1f} %"
        verb = "raises" if after["value"] > before["value"] else "does not raise"
        low, high = after["ci_low"], before["ci_high"]
        remark = "" if low is not None and high is not None and low > high else " (the intervals overlap)"
        yield f"{instrument}: {filter_name} {verb} {metric.replace('_', ' ')}: {change}{remark}"


def make_audit_table(rows: Sequence[Row]) -> PlainTable:
    """Return the table of how often judges of text alone prefer the caption, with one row for each instrument."""
    judges = list(dict.fromkeys(row["judge"] for row in rows))
    shares = {(row["instrument"], row["judge"]): row for row in rows}
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
                str(max(shares[name, judge]["n"] for judge in judges if (name, judge) in shares)),
                *(format_share(shares[name, judge]) if (name, judge) in shares else "" for judge in judges),
            )
            for name in names
        ),
        tuple(f"{row['instrument']}: {row['warning']}" for row in rows if row["warning"]),
    )


def make_conditions_table(items: Sequence[Row], captions: Sequence[Row], shares: Sequence[Row]) -> PlainTable:
    """Return the table of CV-Probes, with one row for each form and condition.

    Args:
        shares: Rows of the oracle layout; empty without an oracle.
    """
    counts = Counter((row["form"], row["condition"], row["match"]) for row in items)
    shares_by_metric = {(row["candidates"], row["metric"]): row for row in shares}
    metrics = {"decided": "decided", "as_expected": "as expected"} if shares_by_metric else {}
    oracle = (
        " The oracle's shares are percent, with intervals, the second of what it decides; it also decided which"
        " plain captions its stills show, so that -img-cap holds by construction."
        if shares_by_metric
        else ""
    )
    return PlainTable(
        "cv-probes",
        "CV-Probes",
        "Items of the four conditions: an image with the action (+img) or without it (-img), with a caption that"
        f" names the action (+cap) or does not (-cap).{oracle}",
        ("form", "condition", "items", "expected", *metrics.values()),
        tuple(
            (
                form,
                condition,
                f"{count:,}",
                "true" if match else "false",
                *(format_share(shares_by_metric[f"{form} {condition}", metric]) for metric in metrics),
            )
            for (form, condition, match), count in counts.items()
        ),
        tuple(_count_captions(kind, captions) for kind in dict.fromkeys(row["kind"] for row in captions)),
    )


def _count_captions(kind: str, captions: Sequence[Row]) -> str:
    """Return a sentence that counts the captions of a kind, with the reasons why some are not used."""
    of_kind = [row for row in captions if row["kind"] == kind]
    rejected = Counter(row["rejected"] for row in of_kind if row["rejected"])
    not_simplified = Counter(row["not_simplified"] for row in of_kind if not row["rejected"] and row["not_simplified"])
    parts = [f"{len(of_kind):,} in all", f"{len(of_kind) - rejected.total():,} used"]
    parts += [f"{count:,} {reason}" for reason, count in rejected.most_common()]
    parts += [f"{count:,} not simplified: {reason}" for reason, count in not_simplified.most_common()]
    return f"{kind} captions: {'; '.join(parts)}"
