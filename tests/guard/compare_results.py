"""Comparison of the values in two results folders, after a written mapping of what was renamed.

    python tests/guard/compare_results.py OLD_RESULTS NEW_RESULTS [--renames FILE] [--tolerance
    NUMBER]

OLD_RESULTS and NEW_RESULTS are folders such as `results/scenes`, or snapshots (`.jsonl`) made by
`write_snapshot.py`. Compared are all Parquet files and all tables (CSV), as sets of rows: the order
of rows and columns does not matter. Run records, caches (hidden folders) and figures are not
compared. The command prints every difference; its exit status is 1 if there is one. `renames.yaml`
next to this file says how renames are written down; `--renames /dev/null` compares without any.

The large baselines. Check out the old and the new commit next to each other, each with an
environment of its own (`pip install -e .`), and run in both, with the same WALTZ_DATA and
OMP_NUM_THREADS:

    snakemake --cores 2                                  # results/scenes snakemake --cores 2
    --config study=valse             # results/valse, with local copies of the released files pytest
    -m rehearsal --basetemp=rehearsal             # rehearsal/*/waltz/results/thesis, the thesis in
    small pytest tests/guard                                   # the tiny studies, against the
    stored snapshots

Then compare each pair of folders, for example:

    python tests/guard/compare_results.py ../old/results/scenes results/scenes
"""

import argparse
import csv
import fnmatch
import json
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

Row = dict[str, Any]
RENAMES = Path(__file__).with_name("renames.yaml")
KEY_COLUMNS = (
    *(
        "model",
        "model_a",
        "model_b",
        "dataset",
        "instrument",
        "item_id",
        "caption_id",
        "annotator",
        "image",
    ),
    *(
        "role",
        "profile",
        "setting",
        "order",
        "test",
        "kind",
        "seed",
        "metric",
        "step",
        "candidates",
        "judge",
    ),
    *("side", "word", "table"),
)
"""Columns that tell rows apart, where a file has them: they pair an old row with a changed one."""


@dataclass(frozen=True)
class Table:
    """The columns and rows of one file, or of several that are compared as one."""

    columns: list[str]
    rows: list[Row]


Reader = Callable[[], Table]


@dataclass(frozen=True)
class Difference:
    """One value, row, column or file that is not the same in both results."""

    file: str
    key: str
    column: str
    old: object
    new: object

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.file, self.key, self.column) if part)
        return f"{place}: {self.old!r} -> {self.new!r}"


@dataclass(frozen=True)
class FileRename:
    """A file that moved, was merged with others, or is written by one side only."""

    old: str = ""
    new: str = ""
    columns: dict[str, str] = field(default_factory=dict)
    dropped: str = ""
    added: str = ""

    @property
    def target(self) -> str:
        return self.new or self.old


@dataclass(frozen=True)
class ColumnRename:
    """Columns that are called otherwise, or that one side has."""

    files: str = "*"
    rename: dict[str, str] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ValueRename:
    """Reason texts or enumeration values that are worded otherwise."""

    columns: list[str]
    files: str = "*"
    replace: dict[str, str] = field(default_factory=dict)
    patterns: dict[str, str] = field(default_factory=dict)

    def apply(self, value: str) -> str:
        for pattern, replacement in self.patterns.items():
            if match := re.fullmatch(pattern, value, re.DOTALL):
                return match.expand(replacement)
        return self.replace.get(value, value)


@dataclass(frozen=True)
class Renames:
    """All renames between two versions of the code."""

    files: list[FileRename] = field(default_factory=list)
    columns: list[ColumnRename] = field(default_factory=list)
    values: list[ValueRename] = field(default_factory=list)


def read_renames(path: Path) -> Renames:
    """Read a file of renames; an empty one renames nothing."""
    entries = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    return Renames(
        [FileRename(**entry) for entry in entries.get("files", [])],
        [ColumnRename(**entry) for entry in entries.get("columns", [])],
        [ValueRename(**entry) for entry in entries.get("values", [])],
    )


def read_results(path: Path) -> dict[str, Reader]:
    """Return a reader for every Parquet file and table of a results folder, or of a snapshot of
    one.
    """
    if path.suffix == ".jsonl":
        return {
            name: partial(_return_table, table)
            for name, table in read_snapshot(path).items()
        }
    if not path.is_dir():
        raise FileNotFoundError(f"results folder not found: {path}")
    files = [file for suffix in READERS for file in path.rglob(f"*{suffix}")]
    names = {str(file.relative_to(path)): file for file in sorted(files)}
    return {
        name: partial(READERS[file.suffix], file)
        for name, file in names.items()
        if not re.search(r"(^|/)\.", name)
    }


def _return_table(table: Table) -> Table:
    return table


def _read_parquet(path: Path) -> Table:
    table = pq.ParquetFile(path).read()
    return Table(table.column_names, table.to_pylist())


def _read_csv(path: Path) -> Table:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    return Table(list(reader.fieldnames or []), rows)


READERS = {".parquet": _read_parquet, ".csv": _read_csv}


def read_snapshot(path: Path) -> dict[str, Table]:
    """Read a snapshot: a line per file with its columns, followed by a line per row."""
    tables: dict[str, Table] = {}
    table = Table([], [])
    for line in path.read_text(encoding="utf-8").splitlines():
        content = json.loads(line)
        if isinstance(content, dict):
            table = tables[content["file"]] = Table(content["columns"], [])
        else:
            table.rows.append(dict(zip(table.columns, content, strict=True)))
    return tables


def compare_results(
    old: Mapping[str, Reader],
    new: Mapping[str, Reader],
    renames: Renames,
    tolerance: float = 0.0,
) -> Iterator[Difference]:
    """Yield every difference between two results.

    Args:
        old: Readers of the old files by path, from `read_results`.
        new: Readers of the new files.
        renames: What the old files, columns and values are called in the new results.
        tolerance: Largest relative or absolute difference of two floats that count as equal; 0
            compares exactly.
    """
    old_tables, new_tables = (
        _group_old(old, renames.files),
        _group_new(new, renames.files),
    )
    for name in sorted(old_tables.keys() | new_tables.keys()):
        if name not in new_tables:
            yield Difference(name, "", "", "file", "no file")
        elif name not in old_tables:
            yield Difference(name, "", "", "no file", "file")
        else:
            before = _join(
                _add_columns(old[path](), columns) for path, columns in old_tables[name]
            )
            expected = rename_table(name, before, renames)
            yield from compare_tables(
                name,
                expected,
                _drop_added(
                    name, _join(new[path]() for path in new_tables[name]), renames
                ),
                tolerance,
            )


def _group_old(
    paths: Mapping[str, object], rules: list[FileRename]
) -> dict[str, list[tuple[str, dict[str, str]]]]:
    """Return the old paths, each with its new columns, by the name of the table that they are
    compared in.
    """
    groups: dict[str, list[tuple[str, dict[str, str]]]] = defaultdict(list)
    for path in paths:
        for rule in rules:
            match = rule.old and re.fullmatch(_to_regex(rule.old), path)
            if match:
                wildcards = match.groupdict()
                if not rule.dropped:
                    columns = {
                        column: text.format(**wildcards)
                        for column, text in rule.columns.items()
                    }
                    groups[_fill(rule.target, wildcards)].append((path, columns))
                break
        else:
            groups[path].append((path, {}))
    return groups


def _group_new(
    paths: Mapping[str, object], rules: list[FileRename]
) -> dict[str, list[str]]:
    """Return the new paths by the name of the table that they are compared in."""
    groups: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for rule in rules:
            match = not rule.dropped and re.fullmatch(_to_regex(rule.target), path)
            if match:
                if not rule.added:
                    shared = {
                        name: text
                        for name, text in match.groupdict().items()
                        if f"{{{name}}}" in rule.old
                    }
                    groups[_fill(rule.target, shared)].append(path)
                break
        else:
            groups[path].append(path)
    return groups


def _to_regex(pattern: str) -> str:
    """Return the regular expression of a path with `{wildcards}`."""
    regex = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(pattern))
    names: set[str] = set()

    def refer_back(match: re.Match[str]) -> str:
        repeated = match[1] in names
        names.add(match[1])
        return f"(?P={match[1]})" if repeated else match[0]

    return re.sub(r"\(\?P<(\w+)>\[\^/\]\+\)", refer_back, regex)


def _fill(pattern: str, wildcards: Mapping[str, str]) -> str:
    """Fill the wildcards that have a value and leave the others."""
    return re.sub(
        r"\{(\w+)\}", lambda match: wildcards.get(match[1], match[0]), pattern
    )


def _add_columns(table: Table, columns: dict[str, str]) -> Table:
    if not columns:
        return table
    return Table(
        [*dict.fromkeys([*table.columns, *columns])],
        [{**row, **columns} for row in table.rows],
    )


def _join(tables: Iterator[Table]) -> Table:
    parts = list(tables)
    columns = [*dict.fromkeys(column for part in parts for column in part.columns)]
    return Table(columns, [row for part in parts for row in part.rows])


def rename_table(name: str, table: Table, renames: Renames) -> Table:
    """Return an old table with the columns and values that it has in the new results."""
    rename: dict[str, str] = {}
    dropped: set[str] = set()
    for columns in renames.columns:
        if fnmatch.fnmatchcase(name, columns.files):
            rename |= columns.rename
            dropped |= columns.dropped.keys()
    wordings: dict[str, list[ValueRename]] = defaultdict(list)
    for values in renames.values:
        if fnmatch.fnmatchcase(name, values.files):
            for column in values.columns:
                wordings[column].append(values)
    remaining_columns = [column for column in table.columns if column not in dropped]
    names = [rename.get(column, column) for column in remaining_columns]

    def convert(value: Any, old_path: str, new_path: str) -> Any:
        if isinstance(value, str):
            for wording in wordings.get(new_path, ()):
                value = wording.apply(value)
            return value
        if isinstance(value, list):
            return [convert(part, old_path, new_path) for part in value]
        if isinstance(value, dict):
            fields = {
                key: rename.get(f"{old_path}.{key}", key)
                for key in value
                if f"{old_path}.{key}" not in dropped
            }
            return {
                new: convert(value[key], f"{old_path}.{key}", f"{new_path}.{new}")
                for key, new in fields.items()
            }
        return value

    if not wordings and not any("." in column for column in (*rename, *dropped)):
        rows = [
            {
                new: row.get(old)
                for old, new in zip(remaining_columns, names, strict=True)
            }
            for row in table.rows
        ]
    else:
        rows = [
            {
                new: convert(row.get(old), old, new)
                for old, new in zip(remaining_columns, names, strict=True)
            }
            for row in table.rows
        ]
    return Table(names, rows)


def _drop_added(name: str, table: Table, renames: Renames) -> Table:
    """Leave out the columns that are declared as new."""
    added = {
        column
        for rule in renames.columns
        if fnmatch.fnmatchcase(name, rule.files)
        for column in rule.added
    }
    if not added.intersection(table.columns):
        return table
    columns = [column for column in table.columns if column not in added]
    return Table(
        columns, [{column: row.get(column) for column in columns} for row in table.rows]
    )


def compare_tables(
    file: str, old: Table, new: Table, tolerance: float = 0.0
) -> Iterator[Difference]:
    """Yield the differences between two tables as sets of rows."""
    if old == new:
        return
    for column in old.columns:
        if column not in new.columns:
            yield Difference(file, "", column, "column", "no column")
    for column in new.columns:
        if column not in old.columns:
            yield Difference(file, "", column, "no column", "column")
    columns = sorted(set(old.columns) & set(new.columns))
    missing, extra = _cancel_equal(
        _select(old.rows, columns), _select(new.rows, columns)
    )
    if tolerance:
        missing, extra = _cancel_close(missing, extra, tolerance)
    key = [column for column in KEY_COLUMNS if column in columns]
    candidates: dict[str, list[Row]] = defaultdict(list)
    for row in extra:
        candidates[_describe(row, key)].append(row)
    for row in missing:
        place = _describe(row, key)
        if candidates[place]:
            changed = candidates[place].pop(0)
            for column in columns:
                for path, before, after in _find_differences(
                    column, row[column], changed[column], tolerance
                ):
                    yield Difference(file, place, path, before, after)
        else:
            yield Difference(file, place, "", row, "no row")
    for place, rows in candidates.items():
        for row in rows:
            yield Difference(file, place, "", "no row", row)


def _select(rows: list[Row], columns: list[str]) -> list[Row]:
    return [{column: row.get(column) for column in columns} for row in rows]


def _describe(row: Row, key: list[str]) -> str:
    return ", ".join(
        f"{column}={row[column]}" for column in key if row[column] not in (None, "")
    )


def _cancel_equal(old: list[Row], new: list[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows of either side that have no equal on the other."""
    old_texts, new_texts = [_write(row) for row in old], [_write(row) for row in new]
    only_old, only_new = (
        Counter(old_texts) - Counter(new_texts),
        Counter(new_texts) - Counter(old_texts),
    )
    return _take(old, old_texts, only_old), _take(new, new_texts, only_new)


def _take(rows: list[Row], texts: list[str], counts: Counter[str]) -> list[Row]:
    taken = []
    for row, text in zip(rows, texts, strict=True):
        if counts[text] > 0:
            counts[text] -= 1
            taken.append(row)
    return taken


def _cancel_close(
    old: list[Row], new: list[Row], tolerance: float
) -> tuple[list[Row], list[Row]]:
    """Return the rows of either side that have none on the other that is equal up to floats within
    the tolerance.
    """
    candidates: dict[str, list[Row]] = defaultdict(list)
    for row in new:
        candidates[_write(_mask(row))].append(row)
    missing = []
    for row in old:
        rows = candidates[_write(_mask(row))]
        partner = next(
            (
                index
                for index, other in enumerate(rows)
                if _is_close(row, other, tolerance)
            ),
            None,
        )
        if partner is None:
            missing.append(row)
        else:
            rows.pop(partner)
    return missing, [row for rows in candidates.values() for row in rows]


def _write(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _mask(value: Any) -> Any:
    """Return a value without its floats, to find rows that differ in floats alone."""
    if isinstance(value, dict):
        return {key: _mask(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_mask(part) for part in value]
    return "float" if _to_float(value) is not None else value


def _to_float(value: object) -> float | None:
    """Return a float, also from the text of a cell in a CSV file; None for all else."""
    if isinstance(value, float):
        return value
    if isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", value):
        return float(value)
    return None


def _is_close(old: object, new: object, tolerance: float) -> bool:
    return not any(_find_differences("", old, new, tolerance))


def _find_differences(
    path: str, old: Any, new: Any, tolerance: float
) -> Iterator[tuple[str, object, object]]:
    """Yield the parts of two values that differ, each with its path, such as `phi[3][0]`."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        for key in old:
            yield from _find_differences(f"{path}.{key}", old[key], new[key], tolerance)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _find_differences(f"{path}[{index}]", before, after, tolerance)
    elif _write(old) != _write(new):
        before, after = _to_float(old), _to_float(new)
        if (
            before is not None
            and after is not None
            and math.isclose(before, after, rel_tol=tolerance, abs_tol=tolerance)
        ):
            return
        yield path, old, new


def main(arguments: list[str] | None = None) -> int:
    """Compare two results from the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "old", type=Path, help="results folder or snapshot of the old code"
    )
    parser.add_argument(
        "new", type=Path, help="results folder or snapshot of the new code"
    )
    parser.add_argument(
        "--renames",
        type=Path,
        default=RENAMES,
        help="mapping of renames (default: %(default)s)",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.0,
        help="for floats of another machine (default: exact)",
    )
    options = parser.parse_args(arguments)
    old, new = read_results(options.old), read_results(options.new)
    count = 0
    for difference in compare_results(
        old, new, read_renames(options.renames), options.tolerance
    ):
        print(difference)
        count += 1
    print(
        f"{count} differences"
        if count
        else f"equal: {len(old)} old files, {len(new)} new files"
    )
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
