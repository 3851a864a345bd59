"""Memory that a process may use."""

import resource
import subprocess
import sys

import pytest

from waltz.core.errors import UserError
from waltz.core.jobs.memory import check_address_space, count_usable_bytes

LIMIT = 1_500_000_000


@pytest.mark.parametrize("command", ["foil", "explain"])
def test_an_address_space_in_which_libraries_hang_is_refused(command):
    arguments = (
        ["foil", "a dog"]
        if command == "foil"
        else ["explain", "--model", "clip-vit-base-patch32"]
    )
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({LIMIT}, {LIMIT}))\n"
        "from waltz.cli.app import app; app()"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (run.returncode, run.stderr) == (
        1,
        "waltz: address space: the limit is too small (got 1.5 GB, expected at least 4 GB); run: ulimit -v unlimited\n",
    )


def test_a_limit_counts_as_memory(monkeypatch):
    machine = count_usable_bytes()
    monkeypatch.setattr(
        resource, "getrlimit", lambda kind: (5_000_000_000, resource.RLIM_INFINITY)
    )
    check_address_space()
    assert count_usable_bytes() == min(machine, 5_000_000_000)
    monkeypatch.setattr(
        resource, "getrlimit", lambda kind: (LIMIT, resource.RLIM_INFINITY)
    )
    with pytest.raises(UserError, match="address space"):
        check_address_space()
