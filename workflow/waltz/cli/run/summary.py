"""The lines that end a run of Snakemake: the headline table, the page, what was skipped, what to do next."""

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from waltz.cli.tables import choose_profile, find_tables, print_headline

SHOWN_REASONS = 3
"""Skipped parts that are named with their reasons; of others the number is shown."""


def print_run_summary(study: str, skipped: Mapping[str, str], results: Path = Path("results")) -> None:
    """Print to stderr what a run of a study has built, or nothing if it built no table.

    Args:
        study: Name of the study.
        skipped: Reason by name of each part that the study cannot run here.
        results: Folder of results.
    """
    folder = results / study / "reporting"
    tables = find_tables(results, study)
    if not any(tables.values()):
        return
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    print_headline(tables, choose_profile(None, tables, study), console)
    page = folder / "report.html"
    if page.is_file():
        console.print(f"report:  {page}", markup=False)
    console.print(f"skipped: {_describe_skipped(skipped)}", markup=False)
    console.print(f"next:    waltz report {study} --open; waltz tables --study {study}", markup=False)


def _describe_skipped(skipped: Mapping[str, str]) -> str:
    lines = [f"{name} ({reason})" for name, reason in list(skipped.items())[:SHOWN_REASONS]]
    rest = len(skipped) - len(lines)
    return "; ".join([*lines, *([f"{rest} more"] if rest else [])]) or "nothing"
