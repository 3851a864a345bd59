"""Plain table of CV-Probes: items of each condition, shares of the oracle, reasons why captions are not used."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from waltz.core.files import parquet
from waltz.core.schema import CONDITIONS, ORACLE, PROBE_CAPTIONS
from waltz.reporting.page.plain_tables import PlainTable, Row, format_share


@dataclass(frozen=True)
class CvProbesFiles:
    """Files about how CV-Probes was built.

    Attributes:
        items: Parquet file of the conditions.
        captions: Parquet file of all its captions.
        oracle: Parquet file of the oracle's verdicts; None without an oracle.
    """

    items: str
    captions: str
    oracle: str | None


def read_cv_probes_table(files: CvProbesFiles) -> PlainTable:
    """Read the table of CV-Probes' conditions from its files."""
    return make_conditions_table(
        parquet.read(files.items, CONDITIONS).to_pylist(),
        parquet.read(files.captions, PROBE_CAPTIONS).to_pylist(),
        parquet.read(files.oracle, ORACLE).to_pylist() if files.oracle else [],
    )


def make_conditions_table(items: Sequence[Row], captions: Sequence[Row], shares: Sequence[Row]) -> PlainTable:
    """Return the table of CV-Probes, with one row for each form and condition.

    Args:
        items: Rows of the layout `CONDITIONS`.
        captions: Rows of the layout `PROBE_CAPTIONS`.
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
