"""A real Slurm on this machine alone: one node, two GPUs that are none, no accounting."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONFIGURATION = Path("/etc/slurm")
"""Where alone the executor's inner `srun` looks: the plugin removes SLURM_CONF."""
FILES = ("slurm.conf", "gres.conf")
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged")
MEMORY_MB = 12_000


def lacking() -> str:
    """Why no Slurm can be started here; empty where one can."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        return f"no {', '.join(missing)} (Debian: slurmctld slurmd slurm-client munge)"
    if os.geteuid():
        return "Slurm's daemons are started as root"
    taken = [name for name in FILES if (CONFIGURATION / name).exists()]
    return f"{CONFIGURATION} holds {', '.join(taken)} of another Slurm" if taken else ""


@contextmanager
def one_node(folder: Path) -> Iterator[None]:
    """Slurm, started and stopped; its files lie in a folder, and its configuration where it has to
    be.
    """
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    CONFIGURATION.mkdir(exist_ok=True)
    configuration, devices = (CONFIGURATION / name for name in FILES)
    configuration.write_text(_configuration(folder))
    # Slurm takes character devices for GPUs, each a different one.
    devices.write_text(
        "".join(
            f"NodeName=localhost Name=gpu File=/dev/{name}\n"
            for name in ("null", "zero")
        )
    )
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    try:
        _run(
            "munged",
            f"--key-file={key}",
            f"--socket={folder}/munge.socket",
            f"--pid-file={folder}/munged.pid",
            f"--log-file={folder}/munged.log",
            f"--seed-file={folder}/munge.seed",
        )
        _run("slurmctld")
        _run("slurmd", "-N", "localhost")
        _wait_for_node(folder)
        yield
    finally:
        for name in ("slurmd", "slurmctld", "munged"):
            _stop(folder / f"{name}.pid")
        configuration.unlink()
        devices.unlink()


def _configuration(folder: Path) -> str:
    return f"""ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
NodeName=localhost NodeAddr=127.0.0.1 CPUs={os.cpu_count()} RealMemory={MEMORY_MB} Gres=gpu:2
PartitionName=main Nodes=localhost Default=YES MaxTime=INFINITE
"""


def _run(*command: str) -> str:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30
    )
    assert done.returncode == 0, f"{command[0]}: {done.stdout}"
    return done.stdout


def _wait_for_node(folder: Path) -> None:
    for _ in range(80):
        state = subprocess.run(
            ["sinfo", "-h", "-o", "%T"], capture_output=True, text=True, timeout=30
        ).stdout.strip()
        if state == "idle":
            return
        time.sleep(0.25)
    logs = "\n".join(file.read_text()[-2000:] for file in folder.glob("slurm*.log"))
    raise AssertionError(f"the node is {state}, not idle:\n{logs}")


def _stop(file: Path) -> None:
    """End a daemon by its own process id, never by name."""
    try:
        process = int(file.read_text())
        os.kill(process, 15)
    except (OSError, ValueError):
        return
    for _ in range(60):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        time.sleep(0.25)
