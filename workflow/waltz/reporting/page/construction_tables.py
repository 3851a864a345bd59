"""Tables of the page about the construction of the benchmark: the funnel, the oracle, the blind
audit, CV-Probes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from waltz.core.files import parquet
from waltz.core.layout import Layout
from waltz.core.schema import (
    AUDIT,
    CONDITIONS,
    FUNNEL,
    ORACLE,
    PROBE_CAPTIONS,
    STATISTICS,
)
from waltz.reporting.page.page_tables import PageTable, Row, build_cell, build_text_cell
from waltz.reporting.tables.declarations import PAGE_TABLES
from waltz.reporting.tables.paper_values import read_paper_values

FILTER_EFFECTS = (
    ("contradicting", "foils_false", "the entailment filter"),
    ("grammatical", "foils_in_grammar", "the grammaticality filter"),
)
"""For each filter, the group of candidates that pass it, the share that it should raise, and its
name.
"""


def read_construction_tables(files: Mapping[str, str]) -> list[PageTable]:
    """Return the tables about the construction of a study's benchmark.

    Args:
        files: Files by name. A study that builds instruments has the Parquet files `funnel`,
            `statistics` (of validation), `oracle` and `audit`, and the thesis's Table A.2 as CSV
            (`printed`). A study that builds CV-Probes has the Parquet files `probes`,
            `probe_captions` and `probe_oracle`. Oracle and audit may be missing.
    """

    def read_rows(name: str, layout: Layout) -> Sequence[Row]:
        return parquet.read_rows(files[name], layout) if name in files else []

    tables = []
    if "funnel" in files:
        statistics = read_rows("statistics", STATISTICS)
        # The Jensen-Shannon distance between the words of captions and of foils is one of the
        # statistics.
        distances = {
            row["dataset"]: row["value"] for row in statistics if row["metric"] == "js"
        }
        paper_distances = {}
        for paper in read_paper_values(files["printed"]).values():
            metric, _, dataset, _ = paper.key
            if metric == "js" and paper.value:
                paper_distances[dataset] = float(paper.value)
        tables.append(
            make_funnel_table(read_rows("funnel", FUNNEL), distances, paper_distances)
        )
    if "oracle" in files:
        tables.append(make_oracle_table(read_rows("oracle", ORACLE)))
    if "audit" in files:
        tables.append(make_audit_table(read_rows("audit", AUDIT)))
    if "probes" in files:
        items, captions = (
            read_rows("probes", CONDITIONS),
            read_rows("probe_captions", PROBE_CAPTIONS),
        )
        tables.append(
            make_conditions_table(items, captions, read_rows("probe_oracle", ORACLE))
        )
    return tables


def make_funnel_table(
    rows: Sequence[Row],
    distances: Mapping[str, float | None],
    paper_distances: Mapping[str, float],
) -> PageTable:
    """Return the funnel: the number of candidates that remain after each step, with one row for
    each instrument.

    Args:
        rows: Rows of the layout `FUNNEL`.
        distances: Jensen-Shannon distance of each instrument's items; None where an instrument has
            no items.
        paper_distances: Jensen-Shannon distance of each instrument in the thesis.
    """
    declaration = PAGE_TABLES["funnel"]
    steps = list(dict.fromkeys(row["step"] for row in rows))
    counts = {(row["instrument"], row["step"]): row for row in rows}
    cells = []
    remarks = []
    for instrument in dict.fromkeys(row["instrument"] for row in rows):
        # Columns: the steps in their order, then both distances.
        texts = {step: f"{counts[instrument, step]['count']:,}" for step in steps}
        texts["JS"] = _format_distance(distances.get(instrument))
        texts["JS in the thesis"] = _format_distance(paper_distances.get(instrument))
        cells += [
            build_text_cell(declaration, name, text, {}, dataset=instrument)
            for name, text in texts.items()
        ]
        losses = [entry for step in steps for entry in counts[instrument, step]["lost"]]
        lost = "; ".join(f"{entry['count']:,} {entry['reason']}" for entry in losses)
        # Below the table: how many candidates each instrument lost, by reason.
        remarks.append(f"{instrument}: {lost or 'nothing lost'}")
    return PageTable(declaration, cells, remarks=tuple(remarks))


def _format_distance(distance: float | None) -> str:
    return "" if distance is None else f"{distance:.3f}"


def make_oracle_table(rows: Sequence[Row]) -> PageTable:
    """Return the table of the oracle's shares, with one row for each group of candidates.

    A remark on each filter says whether it raises the share that it should raise.

    Args:
        rows: Rows of the layout `ORACLE`.
    """
    declaration = PAGE_TABLES["oracle"]
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    shares = {
        (row["instrument"], row["candidates"], row["metric"]): row for row in rows
    }
    cells = []
    instruments: dict[str, None] = {}
    for instrument, candidates in dict.fromkeys(
        (row["instrument"], row["candidates"]) for row in rows
    ):
        if not shares[instrument, candidates, metrics[0]]["n"]:
            continue  # an instrument without such candidates
        instruments[instrument] = None
        names = {"dataset": instrument, "setting": candidates}
        # The share of decided foils is over all candidates of the group, so its n is their number.
        n_decided = shares[instrument, candidates, "foils_decided"]["n"]
        cells.append(build_text_cell(declaration, "n", f"{n_decided:,}", {}, **names))
        for metric in metrics:
            heading = metric.replace("_", " ")
            cells.append(
                build_cell(
                    declaration,
                    heading,
                    shares[instrument, candidates, metric],
                    **names,
                )
            )
    remarks: list[str] = []
    for instrument in instruments:
        remarks += _describe_filter_effects(instrument, shares)
    return PageTable(declaration, cells, remarks=tuple(remarks))


def _describe_filter_effects(
    instrument: str, shares: Mapping[tuple[str, str, str], Row]
) -> Iterable[str]:
    """Yield a sentence for each filter that says whether it raises its share."""
    for group, metric, filter_name in FILTER_EFFECTS:
        # `attested` is the group of candidates before all filters.
        before, after = (
            shares[instrument, "attested", metric],
            shares[instrument, group, metric],
        )
        if before["value"] is None or after["value"] is None:
            continue
        change = f"{before['value']:.1f} to {after['value']:.1f} %"
        verb = "raises" if after["value"] > before["value"] else "does not raise"
        low, high = after["ci_low"], before["ci_high"]
        # Clear only if the two intervals do not overlap.
        is_clear = low is not None and high is not None and low > high
        remark = "" if is_clear else " (the intervals overlap)"
        yield f"{instrument}: {filter_name} {verb} {metric.replace('_', ' ')}: {change}{remark}"


def make_audit_table(rows: Sequence[Row]) -> PageTable:
    """Return the blind audit: how often judges that read only texts prefer the caption, one row for
    each instrument.

    Args:
        rows: Rows of the layout `AUDIT`.
    """
    declaration = PAGE_TABLES["audit"]
    # Judges may lack scores of some items; n is the largest number that a judge of the instrument
    # has.
    largest_n: dict[str, int] = {}
    for row in rows:
        largest_n[row["instrument"]] = max(
            row["n"], largest_n.get(row["instrument"], 0)
        )
    cells = [
        build_text_cell(declaration, "n", str(n), {}, dataset=name)
        for name, n in largest_n.items()
    ]
    cells += [
        build_cell(declaration, row["judge"], row, dataset=row["instrument"])
        for row in rows
    ]
    warnings = [
        f"{row['instrument']}: {row['warning']}" for row in rows if row["warning"]
    ]
    return PageTable(declaration, cells, remarks=tuple(warnings))


def make_conditions_table(
    items: Sequence[Row], captions: Sequence[Row], shares: Sequence[Row]
) -> PageTable:
    """Return the table of CV-Probes, with one row for each form and condition.

    Args:
        items: Rows of the layout `CONDITIONS`.
        captions: Rows of the layout `PROBE_CAPTIONS`.
        shares: Rows of the layout `ORACLE`; empty without an oracle.
    """
    declaration = PAGE_TABLES["cv-probes"]
    shares_by_metric = {(row["candidates"], row["metric"]): row for row in shares}
    # Each form and condition is expected to match or not to match as a whole.
    counts = Counter((row["form"], row["condition"], row["match"]) for row in items)
    cells = []
    for (form, condition, is_match), count in counts.items():
        names = {"setting": form, "dataset": condition}
        cells.append(build_text_cell(declaration, "items", f"{count:,}", {}, **names))
        cells.append(
            build_text_cell(
                declaration, "expected", "true" if is_match else "false", {}, **names
            )
        )
        if shares:
            for metric in ("decided", "as_expected"):
                share = shares_by_metric[f"{form} {condition}", metric]
                cells.append(
                    build_cell(declaration, metric.replace("_", " "), share, **names)
                )
    fact = ""
    if shares:
        fact = (
            "The oracle's shares are percent, with intervals, the second of what it decides; it also decided which"
            " plain captions its stills show, so that -img-cap holds by construction."
        )
    kinds = dict.fromkeys(row["kind"] for row in captions)
    return PageTable(
        declaration,
        cells,
        remarks=tuple(_count_captions(kind, captions) for kind in kinds),
        fact=fact,
    )


def _count_captions(kind: str, captions: Sequence[Row]) -> str:
    """Return a sentence about the captions of a kind: their number, and the reasons why some are
    not used.
    """
    n_captions = n_used = 0
    rejected: Counter[str] = Counter()
    # Captions that are used although they could not be simplified.
    not_simplified: Counter[str] = Counter()
    for row in captions:
        if row["kind"] != kind:
            continue
        n_captions += 1
        if row["rejected"]:
            rejected[row["rejected"]] += 1
            continue
        n_used += 1
        if row["not_simplified"]:
            not_simplified[row["not_simplified"]] += 1

    parts = [f"{n_captions:,} in all", f"{n_used:,} used"]
    parts += [f"{count:,} {reason}" for reason, count in rejected.most_common()]
    parts += [
        f"{count:,} not simplified: {reason}"
        for reason, count in not_simplified.most_common()
    ]
    return f"{kind} captions: {'; '.join(parts)}"
