"""CV-Probes on the page: items of each condition, what the oracle says of them, why captions are not used."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from waltz.core.files import parquet
from waltz.core.schema import CONDITIONS, ORACLE, PROBE_CAPTIONS
from waltz.reporting.page.construction_tables import PlainTable, Row, format_share


@dataclass(frozen=True)
class CvProbesFiles:
    """Files that say how CV-Probes was built.

    Attributes:
        items: Parquet of the conditions.
        captions: Parquet of all its captions.
        oracle: Parquet of the oracle's verdicts, where there is an oracle.
    """

    items: str
    captions: str
    oracle: str | None


def read_cv_probes_table(files: CvProbesFiles) -> PlainTable:
    """The table of what was built."""
    return make_conditions_table(
        parquet.read(files.items, CONDITIONS).to_pylist(),
        parquet.read(files.captions, PROBE_CAPTIONS).to_pylist(),
        parquet.read(files.oracle, ORACLE).to_pylist() if files.oracle else [],
    )


def make_conditions_table(items: Sequence[Row], captions: Sequence[Row], shares: Sequence[Row]) -> PlainTable:
    """A row a form and condition.

    Args:
        items: Rows of the layout `CONDITIONS`.
        captions: Rows of the layout `PROBE_CAPTIONS`.
        shares: Rows of the oracle layout; empty without an oracle.
    """
    counts = Counter((row["form"], row["condition"], row["match"]) for row in items)
    told = {(row["candidates"], row["metric"]): row for row in shares}
    metrics = {"decided": "decided", "as_expected": "as it should be"} if told else {}
    oracle = (
        " The oracle's shares are percent, with intervals, the second of what it decides; it has also judged which"
        " plain captions its stills show, so that -img-cap holds by construction."
        if told
        else ""
    )
    return PlainTable(
        "cv-probes",
        "CV-Probes",
        "Items of the four conditions: an image with the action (+img) or without it (-img), beside a caption that"
        f" names the action (+cap) or does not (-cap).{oracle}",
        ("form", "condition", "items", "should be", *metrics.values()),
        tuple(
            (
                form,
                condition,
                f"{count:,}",
                "true" if match else "false",
                *(format_share(told[f"{form} {condition}", metric]) for metric in metrics),
            )
            for (form, condition, match), count in counts.items()
        ),
        tuple(_count_captions(kind, captions) for kind in dict.fromkeys(row["kind"] for row in captions)),
    )


def _count_captions(kind: str, captions: Sequence[Row]) -> str:
    ours = [row for row in captions if row["kind"] == kind]
    lost = Counter(row["rejected"] for row in ours if row["rejected"])
    short = Counter(row["not_simplified"] for row in ours if not row["rejected"] and row["not_simplified"])
    said = [f"{len(ours):,} made or written", f"{len(ours) - lost.total():,} used"]
    said += [f"{count:,} {reason}" for reason, count in lost.most_common()]
    said += [f"{count:,} not simplified: {reason}" for reason, count in short.most_common()]
    return f"{kind} captions: {'; '.join(said)}"
