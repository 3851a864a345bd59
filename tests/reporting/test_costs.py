"""Costs from run records, worked out by hand."""

import json

import pytest

from waltz.reporting.costs import costs, main, markdown
from waltz.reporting.run_facts import Record


def _record(name, model, items, rows, seconds=2.0, **facts):
    common = {"wall_seconds": seconds, "peak_memory_mb": 100, **facts}
    return Record(name, {"model": {"name": model}, "rows_in": items, "rows_out": rows, **common})


def test_passes_are_counted_and_scaled_by_items_and_parameters():
    records = [
        _record("attribution/gpt2/a", "gpt2", 10, 20, evaluations=400),
        _record("attribution/gpt2/b", "gpt2", 5, 10, seconds=3.0, evaluations=100, peak_memory_mb=300),
        _record("evaluation/mine/a", "mine", 4, 8),
        Record("benchmark/a", {"rows_in": 1, "rows_out": 1}),
    ]
    gpt2, mine = costs(records, {"attribution": 100}, rate=1e9)
    assert (gpt2.runs, gpt2.items, gpt2.passes, gpt2.seconds, gpt2.memory_mb) == (2, 15, 500, 5.0, 300)
    assert gpt2.scaled == 400 * 10 + 100 * 20
    assert gpt2.gpu_hours == pytest.approx(2 * 124439808 * 100 * 6000 / 1e9 / 3600)
    assert (mine.passes, mine.scaled, mine.gpu_hours) == (8, 8, None)
    assert markdown([gpt2, mine]).count("\n") == 4


def test_the_command_reads_a_study_and_leaves_shards_out(tmp_path, capsys):
    for place in ("attribution/gpt2", "attribution/gpt2/shards"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        facts = {**_record("", "gpt2", 1, 2, evaluations=7).facts}
        (tmp_path / place / "a.run.json").write_text(json.dumps(facts))
    main([str(tmp_path), "--items", "attribution=10"])
    assert "| attribution | gpt2 | 1 | 1 | 7 | 2.0 | 100 | 70 |" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="holds no run records"):
        main([str(tmp_path / "none")])
