"""Tables of the page about the construction of the benchmark: the funnel, the oracle, the blind
audit, CV-Probes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import pandas as pd

from waltz.core.records import read_frame
from waltz.core.schema import (
    AuditRecord,
    FunnelRecord,
    OracleRecord,
    ProbeCaptionRecord,
    ProbeRecord,
    StatisticRecord,
)
from waltz.reporting.page.page_tables import (
    PageTable,
    build_page_cells,
    build_text_cells,
)
from waltz.reporting.tables.declarations import PAGE_TABLES
from waltz.reporting.tables.paper_values import read_paper_values

JS = "js"
"""Metric of the Jensen-Shannon distance between the words of captions and of foils."""
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
    tables = []
    if "funnel" in files:
        statistics = read_frame(files["statistics"], StatisticRecord)
        measured = statistics[statistics["metric"] == JS].dropna(subset="value")
        tables.append(
            make_funnel_table(
                read_frame(files["funnel"], FunnelRecord),
                dict(zip(measured["dataset"], measured["value"], strict=True)),
                _read_paper_distances(files["printed"]),
            )
        )
    if "oracle" in files:
        tables.append(make_oracle_table(read_frame(files["oracle"], OracleRecord)))
    if "audit" in files:
        tables.append(make_audit_table(read_frame(files["audit"], AuditRecord)))
    if "probes" in files:
        items = read_frame(files["probes"], ProbeRecord)
        captions = read_frame(files["probe_captions"], ProbeCaptionRecord)
        shares = None
        if "probe_oracle" in files:
            shares = read_frame(files["probe_oracle"], OracleRecord)
        tables.append(make_conditions_table(items, captions, shares))
    return tables


def _read_paper_distances(file: str) -> dict[str, float]:
    """Return the Jensen-Shannon distance of each instrument in the thesis's Table A.2."""
    distances = {}
    for key, paper in read_paper_values(file).items():
        if key.metric == JS and paper.value:
            distances[key.dataset] = float(paper.value)
    return distances


def make_funnel_table(
    rows: pd.DataFrame,
    distances: Mapping[str, float],
    paper_distances: Mapping[str, float],
) -> PageTable:
    """Return the funnel: the number of candidates that remain after each step, with one row for
    each instrument.

    Args:
        rows: Frame of `FunnelRecord`.
        distances: Jensen-Shannon distance of the items of each instrument that has items.
        paper_distances: Jensen-Shannon distance of each instrument in the thesis.
    """
    declaration = PAGE_TABLES["funnel"]
    # Columns: the steps in their order, then both distances.
    rows = rows.assign(dataset=rows["instrument"])
    cells = []
    for step, of_step in rows.groupby("step", sort=False):
        counts = of_step["count"].map("{:,}".format)
        cells += build_text_cells(declaration, of_step, str(step), counts)
    instruments = rows.drop_duplicates("dataset")
    columns = {"JS": distances, "JS in the thesis": paper_distances}
    for column, values in columns.items():
        numbers = instruments["dataset"].map(dict(values))
        texts = numbers.map("{:.3f}".format).where(numbers.notna(), "")
        cells += build_text_cells(declaration, instruments, column, texts)

    # Below the table: how many candidates each instrument lost, by reason.
    remarks = []
    for instrument, losses in rows.groupby("instrument", sort=False)["lost"]:
        entries = losses.explode().dropna()
        lost = "; ".join(f"{entry['count']:,} {entry['reason']}" for entry in entries)
        remarks.append(f"{instrument}: {lost or 'nothing lost'}")
    return PageTable(declaration, cells, remarks=tuple(remarks))


def make_oracle_table(rows: pd.DataFrame) -> PageTable:
    """Return the table of the oracle's shares, with one row for each group of candidates.

    A remark on each filter says whether it raises the share that it should raise.

    Args:
        rows: Frame of `OracleRecord`.
    """
    declaration = PAGE_TABLES["oracle"]
    # An instrument without candidates of a group has no row for the group.
    groups = ["instrument", "candidates"]
    n_candidates = rows.groupby(groups)["n"].transform("first")
    shares = rows[n_candidates > 0]
    shares = shares.assign(dataset=shares["instrument"], setting=shares["candidates"])
    # The share of decided foils is over all candidates of the group, so its n is their number.
    decided = shares[shares["metric"] == "foils_decided"]
    headings = shares["metric"].str.replace("_", " ")
    cells = [
        *build_text_cells(declaration, decided, "n", decided["n"].map("{:,}".format)),
        *build_page_cells(declaration, shares.assign(metric=headings)),
    ]
    remarks: list[str] = []
    for instrument in shares["instrument"].unique():
        of_instrument = rows[rows["instrument"] == instrument]
        remarks += _describe_filter_effects(instrument, of_instrument)
    return PageTable(declaration, cells, remarks=tuple(remarks))


def _describe_filter_effects(instrument: str, shares: pd.DataFrame) -> Iterable[str]:
    """Yield a sentence for each filter that says whether it raises its share."""
    measures = shares.set_index(["candidates", "metric"]).to_dict("index")
    for group, metric, filter_name in FILTER_EFFECTS:
        # `attested` is the group of candidates before all filters.
        before, after = measures["attested", metric], measures[group, metric]
        if pd.isna(before["value"]) or pd.isna(after["value"]):
            continue
        change = f"{before['value']:.1f} to {after['value']:.1f} %"
        verb = "raises" if after["value"] > before["value"] else "does not raise"
        # Clear only if the two intervals do not overlap; NaN, without an interval, is not greater.
        is_clear = after["ci_low"] > before["ci_high"]
        remark = "" if is_clear else " (the intervals overlap)"
        yield f"{instrument}: {filter_name} {verb} {metric.replace('_', ' ')}: {change}{remark}"


def make_audit_table(rows: pd.DataFrame) -> PageTable:
    """Return the blind audit: how often judges that read only texts prefer the caption, one row for
    each instrument.

    Args:
        rows: Frame of `AuditRecord`.
    """
    declaration = PAGE_TABLES["audit"]
    rows = rows.assign(dataset=rows["instrument"], metric=rows["judge"])
    # Judges may lack scores of some items; n is the largest number that a judge of the instrument
    # has.
    largest_n = rows.groupby("dataset", sort=False)["n"].max().reset_index()
    cells = [
        *build_text_cells(declaration, largest_n, "n", largest_n["n"].astype(str)),
        *build_page_cells(declaration, rows),
    ]
    warned = rows.dropna(subset="warning")
    remarks = warned["instrument"] + ": " + warned["warning"]
    return PageTable(declaration, cells, remarks=tuple(remarks))


def make_conditions_table(
    items: pd.DataFrame, captions: pd.DataFrame, shares: pd.DataFrame | None
) -> PageTable:
    """Return the table of CV-Probes, with one row for each form and condition.

    Args:
        items: Frame of `ProbeRecord`.
        captions: Frame of `ProbeCaptionRecord`.
        shares: Frame of `OracleRecord`; None without an oracle.
    """
    declaration = PAGE_TABLES["cv-probes"]
    items = items.assign(setting=items["form"], dataset=items["condition"])
    # Each form and condition is expected to match or not to match as a whole.
    names = ["setting", "dataset", "match"]
    counts = items.groupby(names, sort=False, as_index=False).size()
    expected = counts["match"].map({True: "true", False: "false"})
    n_items = counts["size"].map("{:,}".format)
    cells = [
        *build_text_cells(declaration, counts, "items", n_items),
        *build_text_cells(declaration, counts, "expected", expected),
    ]
    fact = ""
    if shares is not None and not shares.empty:
        # The candidates of a share are a form and a condition.
        parts = shares["candidates"].str.split(" ", expand=True)
        headings = shares["metric"].str.replace("_", " ")
        cells += build_page_cells(
            declaration,
            shares.assign(setting=parts[0], dataset=parts[1], metric=headings),
        )
        fact = (
            "The oracle's shares are percent, with intervals, the second of what it decides; it also decided which"
            " plain captions its stills show, so that -img-cap holds by construction."
        )
    remarks = [
        _count_captions(str(kind), of_kind)
        for kind, of_kind in captions.groupby("kind", sort=False)
    ]
    return PageTable(declaration, cells, remarks=tuple(remarks), fact=fact)


def _count_captions(kind: str, captions: pd.DataFrame) -> str:
    """Return a sentence about the captions of a kind: their number, and the reasons why some are
    not used.
    """
    rejected = Counter(captions["rejected"].dropna())
    used = captions[captions["rejected"].isna()]
    # Captions that are used although they could not be simplified.
    not_simplified = Counter(used["not_simplified"].dropna())
    parts = [f"{len(captions):,} in all", f"{len(used):,} used"]
    parts += [f"{count:,} {reason}" for reason, count in rejected.most_common()]
    parts += [
        f"{count:,} not simplified: {reason}"
        for reason, count in not_simplified.most_common()
    ]
    return f"{kind} captions: {'; '.join(parts)}"
