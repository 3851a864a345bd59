"""Costs from run records, worked out by hand."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from waltz.reporting.costs import DETECTOR_OPERATIONS, FLOAT32_SHARE, compute_costs, format_costs, main
from waltz.reporting.run_records import Record


def _record(name, model, rows, seconds=2.0, **facts):
    common = {"wall_seconds": seconds, "peak_memory_mb": 100, **facts}
    return Record(name, {"model": {"name": model}, "rows_in": 77, "rows_out": rows, **common})


def test_passes_are_counted_and_scaled_by_items_and_parameters():
    records = [
        _record("attribution/gpt2/a", "gpt2", 20, evaluations=300),
        _record("attribution/gpt2/a", "gpt2", 20, seconds=0.0, evaluations=100),  # its second shard
        _record("attribution/gpt2/b", "gpt2", 10, seconds=3.0, evaluations=100, peak_memory_mb=300),
        _record("evaluation/mine/a", "mine", 8),
        Record("benchmark/a", {"rows_in": 1, "rows_out": 1}),
    ]
    items = {"attribution/gpt2/a": 10, "attribution/gpt2/b": 5, "evaluation/mine/a": 4}
    gpt2, mine = compute_costs(records, items, {"attribution": 100}, rate=1e9)
    assert (gpt2.runs, gpt2.items, gpt2.passes, gpt2.seconds, gpt2.memory_mb) == (3, 15, 500, 5.0, 300)
    assert gpt2.scaled == 400 * 10 + 100 * 20
    assert gpt2.gpu_hours == pytest.approx(2 * 124439808 * 100 * 6000 / (1e9 * FLOAT32_SHARE) / 3600)
    assert (mine.passes, mine.scaled, mine.gpu_hours) == (8, 8, None)
    assert format_costs([gpt2, mine]).count("\n") == 4


def test_an_encoder_of_regions_pays_for_its_detector_in_every_pass():
    records = [_record("attribution/lxmert/a", "lxmert", 20, evaluations=1000)]
    (lxmert,) = compute_costs(records, {"attribution/lxmert/a": 10}, {}, rate=1e14)
    own = 2 * 228051752 * 300 * 1000
    assert lxmert.gpu_hours == pytest.approx(
        (own + 1000 * DETECTOR_OPERATIONS["vg-frcnn"]) / (1e14 * FLOAT32_SHARE) / 3600
    )
    assert 10 * own < 1000 * DETECTOR_OPERATIONS["vg-frcnn"]


def test_half_precision_runs_at_the_full_rate():
    (bakllava,) = compute_costs(
        [_record("attribution/bakllava/a", "bakllava", 1, evaluations=9)], {"attribution/bakllava/a": 1}, {}, rate=1e9
    )
    assert bakllava.gpu_hours == pytest.approx(2 * 7566747648 * 700 * 9 / 1e9 / 3600)


def test_encoders_and_decoders_are_scaled_to_their_own_numbers_of_items():
    records = [
        _record("attribution/clip/a", "clip-vit-base-patch32", 1, evaluations=7),
        _record("attribution/bakllava/a", "bakllava", 1, evaluations=7),
    ]
    items = {"attribution/clip/a": 1, "attribution/bakllava/a": 1}
    clip, bakllava = compute_costs(records, items, {"attribution": 100, "attribution:encoder": 700})
    assert (clip.scaled, bakllava.scaled) == (4900, 700)


def test_the_command_reads_a_study_counts_items_once_and_leaves_shards_out(tmp_path, capsys):
    for place in ("attribution/gpt2", "attribution/gpt2/shards"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        facts = {**_record("", "gpt2", 4, evaluations=14).facts}
        (tmp_path / place / "a.run.json").write_text(json.dumps(facts))
        of_two_profiles = pa.table({"item_id": ["1", "2", "3", "2"], "profile": ["published", "equations"] * 2})
        pq.write_table(of_two_profiles, tmp_path / place / "a.parquet")
    (tmp_path / "filters").mkdir()
    of_one_judge = {**_record("", "nli", 4).facts}
    (tmp_path / "filters/a.run.json").write_text(json.dumps(of_one_judge))
    main([str(tmp_path), "--items", "attribution=10"])  # a filter's record has no items of a profile
    assert "| attribution | gpt2 | 1 | 2 | 14 | 2.0 | 100 | 70 |" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no run records"):
        main([str(tmp_path / "none")])
