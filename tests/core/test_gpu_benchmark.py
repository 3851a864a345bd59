"""The checks of a GPU, on a simulated device: the table, the file, and a check that fails."""

import json
import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import gpu

QUICK = (
    "lease",
    "halving of batches",
    "batches from free memory",
    "TF32",
    "MM-SHAP",
    "4 bits",
)
UNCHECKED = dict.fromkeys(("batches from free memory", "4 bits"), "not checked")


def test_a_simulated_device_is_named_and_passes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(gpu, "CHECKS", {name: gpu.CHECKS[name] for name in QUICK})
    assert gpu.main(["--file", str(tmp_path / "gpu.json")]) == 0
    record = json.loads((tmp_path / "gpu.json").read_text())
    states = {row["check"]: row["state"] for row in record["checks"]}
    assert states == dict.fromkeys(QUICK, "ok") | UNCHECKED
    assert record["gpu"] == gpu.SIMULATED
    assert gpu.SIMULATED in capsys.readouterr().out


def test_a_check_that_raises_fails_alone(monkeypatch):
    def fail(device):
        raise ValueError("broken")

    monkeypatch.setattr(gpu, "CHECKS", {"broken": fail, "TF32": gpu.check_tf32})
    assert [row.state for row in gpu.run_checks("cpu")] == ["failed", "ok"]
