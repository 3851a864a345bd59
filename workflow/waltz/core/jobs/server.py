"""A process that imports the libraries of the jobs once and then forks into each job of a run on
this machine.

With few data, a job takes longer to import torch, transformers or spaCy than to work. In a forked
job they are already imported: for the 178 jobs of the default study, the CPU time of imports fell
from 305 to 40 seconds, and of all work from 530 to 264. Nothing of waltz is imported before the
fork, so a job runs the same code as in a new interpreter.
"""

import atexit
import gc
import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

LIBRARIES = (
    "__main__",  # Snakemake: scripts unpickle its objects
    "snakemake.iocontainers",
    "inflect",
    "jinja2",
    "lemminflect",
    "matplotlib.pyplot",
    "nltk.tokenize.punkt",
    "pandas",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "scipy.stats",
    "spacy.pipeline.factories",
    *(
        f"transformers.models.{kind}.modeling_{kind}"
        for kind in ("albert", "bert", "blip", "clip", "gpt2", "llava")
    ),
)
"""Modules that the server imports before it forks."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables that numerical libraries read their number of threads from when they are
imported.
"""
GPU_FILES = ("/dev/nvidiactl", "/dev/kfd")
"""Device files of the drivers of NVIDIA and AMD."""


def has_gpu_driver() -> bool:
    """Return whether this machine has the driver of a GPU; the check starts neither torch nor CUDA."""
    return any(Path(file).exists() for file in GPU_FILES)


@dataclass(frozen=True)
class JobServer:
    """Handle of the server process.

    Attributes:
        ready: Event that is set when the libraries are imported; it is never set if the server
            cannot be started.
        run: Function that calls `run_script` with its arguments in a fork of the server and returns
            the exit status.
    """

    ready: threading.Event
    run: Callable[[str, str | None], int | None]


def start_job_server() -> JobServer | None:
    """Start the server in the background and return its handle.

    Returns:
        The handle; None on other systems than Linux, where libraries do not survive a fork.
    """
    if sys.platform != "linux":
        return None
    ready = threading.Event()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LIBRARIES))
    # Only jobs with one thread are forked, and libraries read the number of threads when they are
    # imported.
    # Snakemake sets them again for each interpreter.
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    starting = threading.Lock()

    def run_in_fork(file: str, temporary: str | None) -> int | None:
        """Call `run_script` in a fork and return its exit status."""
        # The server has the libraries imported; its fork runs the script as the main program.
        process = context.Process(target=run_script, args=(file, temporary))
        with starting:  # starting one reads the status of others that have ended
            process.start()
        wait([process.sentinel])
        with starting:
            process.join()
        return process.exitcode

    def import_libraries() -> None:
        """Start the server by a fork with an empty script, and report when its libraries are
        imported.
        """
        # inherited: Ctrl-C is for Snakemake and the jobs.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            run_in_fork(os.devnull, None)
        except OSError as error:  # such as a folder for temporary files whose path is too long for a socket
            print(
                f"waltz: jobs start interpreters of their own, which takes longer ({error}: {tempfile.gettempdir()});"
                " set TMPDIR to a short path",
                file=sys.stderr,
            )
            return
        ready.set()

    threading.Thread(target=import_libraries, daemon=True).start()
    return JobServer(ready, run_in_fork)


def run_script(file: str, temporary: str | None) -> None:
    """Run a script as the main program.

    Args:
        file: Path of the script.
        temporary: Folder for temporary files; None for the system's folder.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    gc.freeze()  # what the server imported never becomes garbage, and is not copied to look for some
    if temporary:
        os.environ.update(
            dict.fromkeys(("TMPDIR", "TMP", "TEMPDIR", "TEMP"), temporary)
        )
        tempfile.tempdir = None
    try:
        runpy.run_path(file, run_name="__main__")
    except KeyboardInterrupt:
        raise SystemExit(1) from None
    finally:
        atexit._run_exitfuncs()  # multiprocessing leaves them out
