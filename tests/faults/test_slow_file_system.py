"""A file system like NFS: operations take 50 to 200 ms, a process sees the files of others after 1
to 4 s.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from workflow_runs.checkout import TARGET

pytestmark = pytest.mark.faults

SOURCE = Path(__file__).parent / "slow_file_system/slow.c"


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """Environment of processes that have results on such a file system, with the log of files they
    did not see.
    """
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler (cc)")
    folder = tmp_path_factory.mktemp("slow")
    library, log = folder / "slow.so", folder / "hidden"
    subprocess.run(
        [
            "cc",
            "-shared",
            "-fPIC",
            "-O1",
            "-w",
            str(SOURCE),
            "-o",
            str(library),
            "-ldl",
        ],
        check=True,
    )
    return {"LD_PRELOAD": str(library), "SLOW_PATH": "results/", "SLOW_LOG": str(log)}


def test_a_run_on_a_slow_file_system_ends_in_the_same_bytes(fresh, undisturbed, slow):
    fresh.snakemake(TARGET, **slow)
    assert fresh.parquet() == undisturbed.parquet()
    assert Path(slow["SLOW_LOG"]).stat().st_size > 0
    assert not list((fresh.folder / "results").rglob("*.tmp"))
    assert "Nothing to be done" in fresh.snakemake("--dry-run", TARGET)


def test_without_a_wait_for_late_files_snakemake_says_so(fresh, slow):
    output = fresh.snakemake("--latency-wait", "0", TARGET, check=False, **slow)
    assert "latency-wait" in output
