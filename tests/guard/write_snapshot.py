"""Snapshots of small results folders: the values of all Parquet files and tables as lines of JSON.

    python tests/guard/write_snapshot.py RESULTS SNAPSHOT.jsonl [--leave-out GLOB ...]

A change of numbers that is meant gets new snapshots, without old renames, in a commit that says
why; a rename gets an entry in `renames.yaml` instead.
"""

import argparse
import fnmatch
import json
from pathlib import Path
from typing import Any

from compare_results import read_results

DIGITS = 9
"""Significant digits of a float; machines agree on fewer."""


def write_snapshot(results: Path, snapshot: Path, leave_out: list[str]) -> None:
    """Write the tables of a results folder, except those whose paths match a glob."""
    lines: list[Any] = []
    for name, read in read_results(results).items():
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in leave_out):
            continue
        table = read()
        lines.append({"file": name, "columns": table.columns})
        lines += [
            [_round(row[column]) for column in table.columns] for row in table.rows
        ]
    text = "".join(
        f"{json.dumps(line, ensure_ascii=False, separators=(',', ':'))}\n"
        for line in lines
    )
    snapshot.write_text(text, encoding="utf-8")


def _round(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, list):
        return [_round(part) for part in value]
    if isinstance(value, dict):
        return {key: _round(part) for key, part in value.items()}
    return value


def main() -> None:
    """Write a snapshot from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "results", type=Path, help="results folder, such as results/tiny"
    )
    parser.add_argument("snapshot", type=Path, help="file to write")
    parser.add_argument(
        "--leave-out",
        nargs="*",
        default=[],
        help="globs of files that the snapshot does not hold",
    )
    options = parser.parse_args()
    write_snapshot(options.results, options.snapshot, options.leave_out)


if __name__ == "__main__":
    main()
