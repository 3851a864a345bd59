"""The comparison of results finds what changed and accepts what is written down as renamed."""

import csv

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from guard.compare_results import main

ROWS = [
    {
        "item_id": "a",
        "role": "caption",
        "score": 0.1,
        "phi": [[0.5], [0.25]],
        "reason": None,
    },
    {
        "item_id": "a",
        "role": "foil",
        "score": 0.2,
        "phi": [[0.5], [0.75]],
        "reason": None,
    },
    {
        "item_id": "b",
        "role": "caption",
        "score": None,
        "phi": None,
        "reason": "not printed",
    },
]
PATH = "evaluation/gpt2/existence.parquet"


def write(results, path, rows):
    """Write rows to a Parquet file or a table of a results folder."""
    file = results / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    else:
        with file.open("w", newline="") as opened:
            writer = csv.DictWriter(opened, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


@pytest.fixture
def compare(tmp_path, capsys):
    """Compare `old` and `new` of the test's folder under some renames; return exit status and
    lines.
    """

    def run(renames=None, *arguments):
        file = tmp_path / "renames.yaml"
        file.write_text(yaml.safe_dump(renames or {}))
        status = main(
            [
                str(tmp_path / "old"),
                str(tmp_path / "new"),
                "--renames",
                str(file),
                *arguments,
            ]
        )
        return status, capsys.readouterr().out.splitlines()

    return run


def test_the_order_of_rows_and_what_is_no_table_do_not_matter(tmp_path, compare):
    write(tmp_path / "old", PATH, ROWS)
    write(tmp_path / "new", PATH, ROWS[::-1])
    (tmp_path / "new/evaluation/gpt2/existence.run.json").write_text("{}")
    write(tmp_path / "new", "evaluation/.store/cached.parquet", ROWS)
    assert compare() == (0, ["equal: 1 old files, 1 new files"])


def test_a_changed_number_is_named_with_its_key(tmp_path, compare):
    write(tmp_path / "old", PATH, ROWS)
    changed = {**ROWS[1], "score": 0.2000001, "phi": [[0.5], [0.7500001]]}
    write(tmp_path / "new", PATH, [ROWS[0], changed, ROWS[2]])
    assert compare() == (
        1,
        [
            f"{PATH}: item_id=a, role=foil: phi[1][0]: 0.75 -> 0.7500001",
            f"{PATH}: item_id=a, role=foil: score: 0.2 -> 0.2000001",
            "2 differences",
        ],
    )
    assert compare(None, "--tolerance", "1e-6")[0] == 0
    assert compare(None, "--tolerance", "1e-8")[0] == 1


def test_texts_and_nulls_are_equal_whatever_the_tolerance(tmp_path, compare):
    write(tmp_path / "old", PATH, ROWS)
    write(
        tmp_path / "new",
        PATH,
        [{**ROWS[0], "score": None}, {**ROWS[1], "role": "Foil"}, ROWS[2]],
    )
    status, lines = compare(None, "--tolerance", "0.5")
    assert status == 1
    assert f"{PATH}: item_id=a, role=caption: score: 0.1 -> None" in lines
    assert sum("no row" in line for line in lines) == 2


@pytest.mark.parametrize(
    ("old", "new"), [(ROWS, ROWS[:2]), (ROWS[:2], ROWS), (ROWS, [*ROWS, ROWS[2]])]
)
def test_missing_extra_and_repeated_rows_are_reported(tmp_path, compare, old, new):
    write(tmp_path / "old", PATH, old)
    write(tmp_path / "new", PATH, new)
    status, lines = compare()
    assert status == 1
    assert lines[-1] == "1 differences"
    assert "item_id=b, role=caption" in lines[0]


def test_missing_and_extra_files_are_reported(tmp_path, compare):
    write(tmp_path / "old", PATH, ROWS)
    write(tmp_path / "new", "evaluation/gpt2/plurality.parquet", ROWS)
    assert compare()[1] == [
        f"{PATH}: 'file' -> 'no file'",
        "evaluation/gpt2/plurality.parquet: 'no file' -> 'file'",
        "2 differences",
    ]
    declared = [
        {"old": PATH, "dropped": "test"},
        {"new": "evaluation/{model}/plurality.parquet", "added": "test"},
    ]
    assert compare({"files": declared})[0] == 0


def test_renamed_columns_fields_and_values_are_accepted(tmp_path, compare):
    old = [
        {
            "step": "filters",
            "lost": [{"reason": "needs 3 items", "count": 2}],
            "asked": 3,
        }
    ]
    new = [
        {
            "step": "filters",
            "skipped": [{"cause": "fewer than 3 items", "count": 2}],
            "group": "valse",
        }
    ]
    write(tmp_path / "old", "benchmark/funnel.parquet", old)
    write(tmp_path / "new", "benchmark/funnel.parquet", new)
    assert compare()[0] == 1
    columns = {
        "files": "benchmark/*",
        "rename": {"lost": "skipped", "lost.reason": "cause"},
        "dropped": {"asked": "test"},
        "added": {"group": "test"},
    }
    values = {
        "columns": ["skipped.cause"],
        "patterns": {r"needs (\d+) items": r"fewer than \1 items"},
    }
    assert compare({"columns": [columns], "values": [values]})[0] == 0
    assert (
        compare(
            {"columns": [{**columns, "files": "evaluation/*"}], "values": [values]}
        )[0]
        == 1
    )
    assert compare({"columns": [columns]}) == (
        1,
        [
            "benchmark/funnel.parquet: step=filters: skipped[0].cause: 'needs 3 items' -> 'fewer than 3 items'",
            "1 differences",
        ],
    )


def test_files_of_data_sets_are_compared_with_files_of_groups_and_shards(
    tmp_path, compare
):
    names = ("existence", "plurality", "relations")
    for name in names:
        write(
            tmp_path / "old",
            f"evaluation/gpt2/{name}.parquet",
            [{**row, "text": name} for row in ROWS],
        )
    write(tmp_path / "old", "evaluation/metrics/existence.parquet", ROWS)
    write(tmp_path / "new", "evaluation/metrics/existence.parquet", ROWS)
    merged = [{**row, "text": name, "dataset": name} for name in names for row in ROWS]
    write(tmp_path / "new", "evaluation/gpt2/valse.1.parquet", merged[::2])
    write(tmp_path / "new", "evaluation/gpt2/valse.2.parquet", merged[1::2])
    files = [
        {"old": "evaluation/metrics/{part}.parquet"},
        {
            "old": "evaluation/{model}/{dataset}.parquet",
            "new": "evaluation/{model}/{group}.{shard}.parquet",
            "columns": {"dataset": "{dataset}"},
        },
    ]
    assert compare({"files": files}) == (0, ["equal: 4 old files, 3 new files"])
    write(
        tmp_path / "new",
        "evaluation/gpt2/valse.2.parquet",
        [{**merged[1], "score": 7.0}, *merged[3::2]],
    )
    status, lines = compare({"files": files})
    assert status == 1
    assert lines[0] == (
        "evaluation/{model}/{group}.{shard}.parquet: dataset=existence, item_id=a, role=foil: score: 0.2 -> 7.0"
    ).replace("{model}", "gpt2")


def test_tables_are_compared_cell_by_cell(tmp_path, compare):
    row = {
        "table": "thesis-3.4",
        "model": "gpt2",
        "value": "91",
        "ci_low": "85.58536902286903",
        "text": "91 (85)",
    }
    write(tmp_path / "old", "reporting/tables/thesis-3.4.csv", [row])
    write(
        tmp_path / "new",
        "reporting/tables/thesis-3.4.csv",
        [{**row, "ci_low": "85.5853690228691"}],
    )
    assert compare()[1][0].endswith(
        "model=gpt2, table=thesis-3.4: ci_low: '85.58536902286903' -> '85.5853690228691'"
    )
    assert compare(None, "--tolerance", "1e-9")[0] == 0
