"""The commands of CV-Probes: written captions and checks as CSV files."""

import csv
import json

import pytest
from typer.testing import CliRunner

from waltz.benchmark.cv_probes import (
    build_conditions,
    read_checks,
    read_written_captions,
    review_plain_captions,
    select_contextual_captions,
)
from waltz.cli.app import app
from waltz.core.files import parquet
from waltz.core.records import get_layout, read_records, write_records
from waltz.core.schema import ProbeCaptionRecord, ProbeRecord

PREFIX = ("--image-prefix", "https://images.example/")


def waltz(*arguments):
    return CliRunner().invoke(app, ["people", *map(str, arguments)])


@pytest.fixture
def captions(tmp_path):
    rows = [
        {
            "caption_id": f"contextual:{image}#0",
            "kind": "contextual",
            "verb": verb,
            "image": image,
            "writer": "rule",
            "caption": caption,
            "simplified": caption,
            "rejected": None,
        }
        for image, verb, caption in (
            ("a.jpg", "voting", "A man votes."),
            ("b.jpg", "buying", "A man buys a hat."),
        )
    ]
    parquet.write_rows(
        tmp_path / "contextual.parquet", rows, get_layout(ProbeCaptionRecord)
    )
    return tmp_path / "contextual.parquet"


def answer(tasks, folder, labels):
    """Write one annotator's export of doccano."""
    lines = [
        json.loads(line) for line in tasks.read_text(encoding="utf-8").splitlines()
    ]
    folder.mkdir()
    exported = [
        {"id": number, **line, "label": labels(line)}
        for number, line in enumerate(lines)
    ]
    (folder / "w1.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in exported), encoding="utf-8"
    )


def test_captions_and_checks_are_exported_and_imported(captions, tmp_path):
    result = waltz(
        "export-captions", "--captions", captions, "--folder", tmp_path / "out", *PREFIX
    )
    assert result.exit_code == 0, result.output
    tasks = tmp_path / "out" / "write-captions.jsonl"
    assert sorted(
        verb for verb in ("vote", "buy", "voting") if f"“{verb}”" in tasks.read_text()
    ) == ["buy", "vote"]
    assert sorted(
        caption
        for caption in ("A man votes.", "A man buys a hat.")
        if caption in tasks.read_text()
    ) == [
        "A man buys a hat.",
        "A man votes.",
    ]
    answer(
        tasks,
        tmp_path / "done",
        lambda task: ["A man, in a hall, waits."] if "vote" in task["text"] else [],
    )
    captions_file = tmp_path / "written.csv"
    result = waltz(
        "import-captions",
        tmp_path / "done",
        "--captions",
        captions,
        "--output",
        captions_file,
    )
    assert result.output == f"1 captions of 1 images: {captions_file}\n"
    assert "b.jpg,w1,not answered" in (tmp_path / "written.skipped.csv").read_text()
    captions_file.write_text(
        captions_file.read_text().replace('waits.",', 'waits.",p.jpg')
    )
    (row,) = read_written_captions(captions_file, {"a.jpg": "voting"})
    assert row.plain_image == "p.jpg"

    contextual = select_contextual_captions(
        list(read_records(captions, ProbeCaptionRecord)),
        {"A man votes.": 1, "A man buys a hat.": 1},
    )
    items = build_conditions(
        [*contextual, *review_plain_captions([row], contextual, None)]
    )
    write_records(tmp_path / "items.parquet", items, ProbeRecord)
    result = waltz(
        "export-checks",
        "--items",
        tmp_path / "items.parquet",
        "--folder",
        tmp_path / "out",
        *PREFIX,
    )
    assert result.exit_code == 0, result.output
    answer(
        tmp_path / "out/check-captions.jsonl",
        tmp_path / "checked",
        lambda task: ["no" if "votes" in task["text"] else "yes"],
    )
    checks = tmp_path / "checks.csv"
    result = waltz(
        "import-checks",
        tmp_path / "checked",
        "--items",
        tmp_path / "items.parquet",
        "--output",
        checks,
    )
    assert result.output == f"2 answers: {checks}\n"
    answers = read_checks(checks)
    assert answers == {
        ("p.jpg", "A man votes."): ["no"],
        ("p.jpg", "A man, in a hall, waits."): ["yes"],
    }
    assert review_plain_captions([row], contextual, answers)[0].rejected is None
    assert list(csv.DictReader((tmp_path / "checks.skipped.csv").open())) == []


def test_a_fault_is_one_line(captions, tmp_path):
    result = waltz(
        "export-captions",
        "--captions",
        tmp_path / "none.parquet",
        "--folder",
        tmp_path,
        *PREFIX,
    )
    assert result.exit_code == 1
    assert result.output.startswith("waltz: ")
    assert "no such file" in result.output
    assert result.output.count("\n") == 1
