"""Scripts in forks of a server give what they give in a new interpreter, and their failures reach
Snakemake.
"""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from waltz.core.jobs import server
from waltz.snakemake_compat import can_fork

WORKFLOW = Path(server.__file__).parents[3]
RUN = """
import subprocess, sys
from types import SimpleNamespace
from waltz.core.jobs import server
from waltz.snakemake_compat import patch_script_class

class Script(SimpleNamespace):
    def execute_script(self, file, edit=False):
        print("a new interpreter")

if __name__ == "__main__":
    server.LIBRARIES = ("wave",)  # a module that nothing else imports
    ready = patch_script_class(Script)
    none = dict.fromkeys(("conda_env", "container_img", "env_modules", "shadow_dir", "bench_record"))
    for threads, file in [(2, sys.argv[1]), *((1, file) for file in sys.argv[1:])]:
        ready.wait(60 * (threads == 1))
        try:
            Script(threads=threads, resources={"tmpdir": sys.argv[1] + ".tmp"}, **none).execute_script(file)
        except subprocess.CalledProcessError as error:
            print("failed with", error.returncode)
"""
JOB = """
import atexit, json, os, sys, tempfile
atexit.register(print, "at exit", flush=True)
names = {"wave", "waltz.core.jobs.server", "waltz.core.schema"} & set(sys.modules)
print(json.dumps([__name__, os.environ["TMPDIR"] == __file__ + ".tmp", sorted(names)]), flush=True)
"""


def script(**changes):
    settings = dict.fromkeys(
        ("conda_env", "container_img", "env_modules", "shadow_dir", "bench_record")
    )
    return SimpleNamespace(**{"threads": 1, "resources": {}, **settings, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"threads": 2},
        {"conda_env": "env"},
        {"container_img": "image"},
        {"bench_record": object()},
    ],
)
def test_scripts_with_needs_of_their_own_get_a_new_interpreter(changes):
    assert can_fork(script())
    assert not can_fork(script(**changes))


def test_jobs_on_a_gpu_get_a_new_interpreter(monkeypatch, tmp_path):
    on_gpu = script(resources={"gpu": 1})
    monkeypatch.setattr(server, "GPU_FILES", [str(tmp_path / "none")])
    assert can_fork(on_gpu)
    monkeypatch.setattr(server, "GPU_FILES", [str(tmp_path)])
    assert not can_fork(on_gpu)
    assert can_fork(script(resources={"gpu": 0}))


def test_forked_scripts_find_the_libraries_imported_and_nothing_of_waltz(tmp_path):
    files = {
        "main.py": RUN,
        "job.py": JOB,
        "exits.py": "raise SystemExit(3)",
        "killed.py": "import os; os.kill(os.getpid(), 9)",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    jobs = [str(tmp_path / name) for name in files if name != "main.py"]
    command = [sys.executable, str(tmp_path / "main.py"), *jobs]
    environment = {"PYTHONPATH": str(WORKFLOW), "PYTHONUNBUFFERED": "1"}
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=environment,
    )
    cold, facts, at_exit, *failures = run.stdout.splitlines()
    assert cold == "a new interpreter"
    assert json.loads(facts) == ["__main__", True, ["waltz.core.jobs.server", "wave"]]
    assert at_exit == "at exit"
    assert failures == ["failed with 3", "failed with -9"]
    assert not run.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the server")
def test_a_folder_of_temporary_files_with_a_long_path_is_one_line(tmp_path):
    long = tmp_path / ("a" * 150)
    long.mkdir()
    (tmp_path / "run.py").write_text(
        "import time\n"
        "from waltz.core.jobs import server\n"
        "if __name__ == '__main__':\n"
        "    server.LIBRARIES = ()\n"
        "    print(server.start_job_server().ready.wait(5))\n"
    )
    run = subprocess.run(
        [sys.executable, tmp_path / "run.py"],
        env={"PYTHONPATH": str(WORKFLOW), "TMPDIR": str(long)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "False\n"
    (line,) = run.stderr.splitlines()
    assert line.startswith("waltz: jobs start interpreters of their own")
    assert line.endswith("set TMPDIR to a short path")
