"""Recorded runs: lines, their faults, their schema and the documented example."""

import json
import re
from pathlib import Path
from typing import get_args

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waltz.core.errors import UserError
from waltz.core.records import get_layout, to_row, write_records
from waltz.sources.formats import recorded_runs
from waltz.sources.formats.recorded_runs import (
    SCHEMA_FILE,
    build_line_schema,
    read_recorded_lines,
)
from waltz.sources.readers import read_source
from waltz.sources.records import RecordedRecord

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs/reference/recorded-run.jsonl"
COMMON = {"model": "m", "dataset": "comve", "item_id": "1"}
ANSWER = {**COMMON, "record": "answer", "label": "A", "gold": "A"}
TEST = {**COMMON, "record": "test", "test": "filler_tokens", "verdict": 1}
ATTRIBUTION = {
    **COMMON,
    "record": "attribution",
    "output": "answer",
    "tokens": ["a", "b", "?"],
    "values": [70.0, -30.0],
    "unit": "ratio",
    "suffix": 1,
}


def read(tmp_path, *lines, dataset="comve", datasets=("comve",)):
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return list(read_recorded_lines(path, dataset, "run", datasets))


def test_the_example_of_the_documentation_is_read_and_follows_the_schema(tmp_path):
    lines = [json.loads(line) for line in EXAMPLE.read_text().splitlines()]
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA_FILE.read_text()))
    for line in lines:
        validator.validate(line)
    files = dict.fromkeys(("comve", "existence", "vqa"), str(EXAMPLE))
    rows, record_type = read_source("recorded-runs", files, "example")
    rows = list(rows)
    assert len(rows) == len(lines)
    assert write_records(tmp_path / "rows.parquet", rows, record_type) == (
        len(lines),
        0,
    )
    assert rows[0].label == "B"  # the likeliest
    assert rows[-1].item_id == "262148000"


def test_the_lines_on_the_page_are_read_and_every_test_is_named(tmp_path):
    page = (ROOT / "docs/reference/recorded-runs.md").read_text(encoding="utf-8")
    block = page.split('```json\n{"record"')[1].split("```")[0]
    rows = read(tmp_path, *map(json.loads, f'{{"record"{block}'.splitlines()))
    assert [row.record for row in rows] == ["answer", "test", *["attribution"] * 2]
    assert not any(row.rejected for row in rows)
    for name in get_args(recorded_runs.TestLine.model_fields["test"].annotation):
        assert f"`{name}`" in page


def test_the_schema_file_is_that_of_the_code():
    assert SCHEMA_FILE.read_text() == build_line_schema(), (
        "run python -m waltz.sources.formats.recorded_runs"
    )


@settings(max_examples=40, deadline=None)
@given(
    verdict=st.none() | st.integers(0, 1),
    texts=st.lists(
        st.none() | st.text(st.characters(exclude_categories=["Cs"])),
        min_size=3,
        max_size=3,
    ),
    values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5),
    seed=st.integers(0, 2**31),
)
def test_lines_are_read_back_as_they_were_written(
    verdict, texts, values, seed, tmp_path_factory
):
    test = {
        **TEST,
        "verdict": verdict,
        "prompt": texts[0],
        "reason": texts[1],
        "edited_input": texts[2],
        "seed": seed,
    }
    tokens = [str(place) for place in range(len(values))]
    attribution = {
        **ATTRIBUTION,
        "tokens": tokens,
        "values": values,
        "unit": "shapley",
        "suffix": 0,
    }
    rows = read(tmp_path_factory.mktemp("files"), test, attribution)
    assert test.items() <= to_row(rows[0]).items()
    assert rows[1].values == [[value] for value in values]
    assert [row.rejected for row in rows] == [None, None]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            {**TEST, "verdict": 2},
            "line 2: field 'verdict': got 2, expected less than or equal to 1",
        ),
        ({**TEST, "test": "fillers"}, "line 2: field 'test': got 'fillers', expected"),
        (
            {**TEST, "record": "verdict"},
            "line 2: field 'record': got 'verdict', expected answer, test or attribution",
        ),
        (COMMON, "line 2: field 'record': got 'nothing'"),
        ({**ANSWER, "answr": "A"}, "line 2: field 'answr' is unknown"),
        (
            {key: value for key, value in ANSWER.items() if key != "gold"},
            "line 2: field 'gold' is missing",
        ),
        (
            {**ATTRIBUTION, "values": ["1"]},
            "line 2: field 'values': got ['1'], expected",
        ),
        ({**ANSWER, "item_id": ""}, "line 2: field 'item_id': got ''"),
        ({**ANSWER, "gold": []}, "line 2: field 'gold': got [], expected"),
        (
            {**ANSWER, "seed": 2**63},
            "line 2: field 'seed': got 9223372036854775808, expected",
        ),
        (
            {**ATTRIBUTION, "suffix": 2**31},
            "line 2: field 'suffix': got 2147483648, expected",
        ),
        (
            {**ATTRIBUTION, "grid": 2**31},
            "line 2: field 'grid': got 2147483648, expected",
        ),
    ],
)
def test_a_line_that_is_no_record_is_refused_with_line_and_field(
    line, message, tmp_path
):
    with pytest.raises(UserError, match=re.escape(message)) as refused:
        read(tmp_path, ANSWER, line)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({**ANSWER, "label": None}, "neither label nor label_log_probabilities"),
        (
            {
                **ANSWER,
                "label": None,
                "label_log_probabilities": {"A": -1.0},
                "gold": "B",
            },
            "gold B is not among A",
        ),
        *(
            ({**ANSWER, "label_log_probabilities": {"A": a, "B": b}}, reason)
            for a, b, reason in (
                (float("inf"), -1.0, "a label's log-probability is not a number"),
                (
                    -float("inf"),
                    -float("inf"),
                    "every label's log-probability is minus infinity",
                ),
            )
        ),
        ({**ANSWER, "setting": "open"}, "an open question without a generation"),
        ({**ANSWER, "setting": "single"}, "a single text without a role"),
        (
            {**ATTRIBUTION, "values": [1.0]},
            "1 ratios for 3 tokens, of which 1 are the query suffix",
        ),
        ({**ATTRIBUTION, "unit": "shapley"}, "2 values for 3 tokens"),
        (
            {**ATTRIBUTION, "values": [[1.0, 2.0], [1.0]]},
            "the players have different numbers of outputs: 1, 2",
        ),
        ({**ATTRIBUTION, "values": [1.0, float("nan")]}, "a value is not a number"),
        ({**ATTRIBUTION, "grid": 2}, "0 values of patches for a grid of 2 x 2"),
        (
            {**ATTRIBUTION, "suffix": 3, "values": []},
            "no token before the query suffix",
        ),
        (ANSWER, "line 1 holds the same record"),
        (
            {**ANSWER, "dataset": "other"},
            "data set 'other' is not among the files of the source (comve)",
        ),
    ],
)
def test_a_record_that_cannot_be_used_stays_with_a_reason(line, reason, tmp_path):
    first, second = read(tmp_path, ANSWER, line)
    assert first.rejected is None
    assert reason in second.rejected


def test_a_file_of_several_data_sets_gives_each_its_own(tmp_path):
    lines = [ANSWER, {**ANSWER, "dataset": "vqa"}]
    assert [
        row.dataset
        for row in read(tmp_path, *lines, dataset="vqa", datasets=("comve", "vqa"))
    ] == ["vqa"]


def test_every_field_of_a_line_has_a_column():
    fields = {
        name
        for definition in json.loads(SCHEMA_FILE.read_text())["$defs"].values()
        for name in definition["properties"]
    }
    assert fields <= set(get_layout(RecordedRecord).schema.names)
