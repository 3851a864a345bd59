"""The logger of a run: options that Snakemake cannot read are one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from snakemake_logger_plugin_waltz import check_options
from waltz.core.errors import UserError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--configfile", "no.yaml"], "no.yaml: cannot be read: No such file or directory; check the path"),
        (["--configfile", "list.yaml"], "list.yaml: holds no keys (got list); see"),
        (["--configfile", "broken.yaml"], "broken.yaml: is no YAML (while parsing"),
        (["--config", "study"], "--config: no key with a value (got 'study', expected KEY=VALUE); run: "),
        (["--config", "3=4"], "--config: no key with a value (got '3=4'"),
    ],
)
def test_wrong_options_are_named(tmp_path, monkeypatch, options, fault):
    monkeypatch.chdir(tmp_path)
    Path("list.yaml").write_text("- study\n")
    Path("broken.yaml").write_text("study: [\n")
    monkeypatch.setattr(sys, "argv", ["snakemake", "--cores", "2", *options])
    with pytest.raises(UserError) as error:
        check_options()
    assert str(error.value).startswith(fault)


def test_right_options_are_no_fault(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["snakemake", "--configfile", str(ROOT / "config/valse.yaml"), "--config", "a=1"])
    check_options()


def test_the_logger_imports_nothing_of_waltz():
    # Snakemake imports it before the Snakefile, which says from which checkout to import waltz
    program = "import sys, snakemake_logger_plugin_waltz; print([n for n in sys.modules if n.split('.')[0] == 'waltz'])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, env=environment, capture_output=True, text=True).stdout == "[]\n"


def test_a_missing_study_file_is_one_line():
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--configfile", "no.yaml"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 1
    message = "waltz: no.yaml: cannot be read: No such file or directory; check the path"
    assert result.stderr.splitlines()[1:] == [message]
