"""A process that imports the libraries of the jobs once and then forks into each job of a run on this machine.

Where data are few, a job needs longer to import torch, transformers or spaCy than to work. A forked job finds them
imported: of the default study's 178 jobs, imports fell from 305 to 40 CPU seconds, and all from 530 to 264. Nothing of
waltz is imported before the fork, so a job runs the code that it would read in a new interpreter.
"""

import atexit
import gc
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

LIBRARIES = (
    "__main__",  # Snakemake, whose objects a script unpickles
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
    *(f"transformers.models.{kind}.modeling_{kind}" for kind in ("albert", "bert", "blip", "clip", "gpt2", "llava")),
)
LEAST_JOBS = 30
"""Fewer jobs import less in all than the server does."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
GPU_FILES = ("/dev/nvidiactl", "/dev/kfd")


def has_gpu_driver() -> bool:
    """Return whether this machine has the driver of a GPU; nothing is started to find out."""
    return any(Path(file).exists() for file in GPU_FILES)


def start_job_server(script_class: Any) -> threading.Event:
    """Start the server, and run scripts in its forks from when it is ready.

    Args:
        script_class: `snakemake.script.PythonScript`. A script runs in a new interpreter as before if it has an
            environment or more than one thread of its own (libraries read the number when they are imported), or uses a
            GPU (CUDA does not outlive a fork).
    Returns:
        Event that is set when the server is ready; never on systems other than Linux.
    """
    ready = threading.Event()
    if sys.platform != "linux":  # elsewhere, libraries of the system do not outlive a fork
        return ready
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LIBRARIES))
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))  # Snakemake sets them anew for each interpreter
    run_in_new_interpreter = script_class.execute_script
    lock = threading.Lock()

    def run_in_fork(*arguments: Any) -> int | None:
        """Run `run_script` and return its exit status."""
        process = context.Process(target=run_script, args=arguments)
        with lock:  # starting one reads the status of others that have ended
            process.start()
        wait([process.sentinel])
        with lock:
            process.join()
        return process.exitcode

    def start_server() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited: Ctrl-C is for Snakemake and the jobs
        run_in_fork(os.devnull, None)
        ready.set()

    def execute_script(script: Any, file: str, edit: bool = False) -> None:
        if not (ready.is_set() and can_fork(script)):
            run_in_new_interpreter(script, file, edit)
        elif status := run_in_fork(file, script.resources.get("tmpdir")):
            raise subprocess.CalledProcessError(status, f"{sys.executable} {file}")

    script_class.execute_script = execute_script
    threading.Thread(target=start_server, daemon=True).start()
    return ready


def can_fork(script: Any) -> bool:
    """Return whether a script of Snakemake gives the same in a fork as in a new interpreter."""
    has_environment = script.conda_env or script.container_img or script.env_modules or script.shadow_dir
    uses_gpu = script.resources.get("gpu", 0) and has_gpu_driver()
    return not (has_environment or uses_gpu or script.bench_record or script.threads > 1)


def run_script(file: str, temporary: str | None) -> None:
    """Run a script as the main program, with a folder for temporary files."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    gc.freeze()  # what the server imported never becomes garbage, and is not copied to look for some
    if temporary:
        os.environ.update(dict.fromkeys(("TMPDIR", "TMP", "TEMPDIR", "TEMP"), temporary))
        tempfile.tempdir = None
    try:
        runpy.run_path(file, run_name="__main__")
    finally:
        atexit._run_exitfuncs()  # multiprocessing leaves them out
