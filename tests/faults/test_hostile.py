"""Input that means harm: it stays data, or is refused in one line."""

import json
from pathlib import Path

import pytest

from waltz.core.files import parquet
from waltz.core.schema import BENCHMARK
from workflow_runs.checkout import TARGET, list_user_messages

pytestmark = pytest.mark.faults

HOSTILE = [
    "There are <script>document.title='taken'</script> zebras.",
    "There are \\input{/etc/passwd} $x$ 100% of #zebras_ ~^&{}.",
    "There are \x1b[2J\x1b]0;taken\x07 zebras.",
    "There are \x00 zebras.",
    "There are \u202eserbez\u202c \u2066zebras\u2069.",
    "There are " + "zebras " * 16_000,
    '"; rm -rf results; "',
    '=HYPERLINK("http://example.org")',
]


def test_hostile_captions_stay_data_in_every_stage(fresh):
    rows = [
        {
            "id": f"own-{place}",
            "image": "1.png",
            "caption": text,
            "foil": f"It is false: {text}",
            "phenomenon": "counting",
        }
        for place, text in enumerate(HOSTILE)
    ]
    (fresh.folder / "data/own.json").write_text(json.dumps(rows), encoding="utf-8")
    fresh.change("sources.own.files.own-counting", {"path": "data/own.json"})
    fresh.change("evaluation.items", "all")
    output = fresh.snakemake()
    assert "\x1b[2J" not in output
    read = parquet.read_rows(
        fresh.folder / "results/tiny/benchmark/own-counting.parquet", BENCHMARK
    )
    assert [row["caption"] for row in read] == HOSTILE
    page = (fresh.folder / "results/tiny/reporting/report.html").read_text(
        encoding="utf-8"
    )
    assert "<script>document.title" not in page
    tables = fresh.folder / "results/tiny/reporting/tables"
    assert all(
        "\\input{" not in path.read_text(encoding="utf-8")
        for path in tables.glob("*.tex")
    )


def test_a_study_with_tags_runs_nothing(fresh):
    with (fresh.folder / "tiny.yaml").open("a", encoding="utf-8") as file:
        file.write("\nseed: !!python/object/apply:os.system ['touch taken']\n")
    output = fresh.snakemake(TARGET, check=False)
    assert "Traceback" not in output
    assert "Config file is not valid" in output
    assert not (fresh.folder / "taken").exists()


@pytest.mark.parametrize(
    "weights",
    ["../../../etc/passwd", "..", "/etc", "a/../../b", "~/model", "--help", "a//b"],
)
def test_an_id_that_points_at_a_path_is_refused_or_not_found(fresh, weights):
    fresh.change("models.tiny-gpt2.weights", weights)
    output = fresh.snakemake(TARGET, check=False)
    assert "Traceback" not in output
    assert weights.replace("~", str(Path.home())) in output
    assert not list((fresh.folder / "results").rglob("own-counting.run.json"))


def test_an_id_with_terminal_escapes_is_shown_as_escapes(fresh):
    rows = [
        {
            "id": "own\x1b[2J",
            "image": "1.png",
            "caption": "One zebra.",
            "foil": foil,
        }
        for foil in ["Two zebras.", "Three zebras."]
    ]
    (fresh.folder / "data/own.json").write_text(json.dumps(rows), encoding="utf-8")
    fresh.change("sources.own.files.own-counting", {"path": "data/own.json"})
    output = fresh.snakemake(TARGET, check=False)
    (line,) = list_user_messages(output)
    assert "own\\x1b[2J" in line
    assert "\x1b[2J" not in output
