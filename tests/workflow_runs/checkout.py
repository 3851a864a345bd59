"""The real workflow, copied, on a tiny study."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil
import yaml

ROOT = Path(__file__).parents[2]
PARTS = ("Snakefile", "rules", "workflow", "config", "profiles", "envs", "resources")
DATA = ROOT / "tests" / "data"
TARGET = "tables"
"""What the small study of tests/faults is run for."""
HIDDEN_VARIABLES = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "SNAKEMAKE_PROFILE")
"""Environment variables that a run does not see: it imports the waltz of its folder, which is
compiled once.
"""


def list_planned_rules(output: str) -> set[str]:
    """Rules in the statistics of a dry run, which shows the message of a rule instead of its name
    if it has one.
    """
    statistics = re.search(
        r"^Job stats:\n.*?\n-+.*?\n(.*?)^total", output, flags=re.M | re.S
    )
    return (
        {line.split()[0] for line in statistics[1].splitlines()}
        if statistics
        else set()
    )


@dataclass(frozen=True)
class Checkout:
    """A copy of the workflow in a folder of its own."""

    folder: Path

    def snakemake(
        self,
        *arguments: str,
        study: str = "tiny.yaml",
        check: bool = True,
        **environment: str,
    ) -> str:
        """Run Snakemake to its end, and return its output."""
        result = subprocess.run(
            [*self.command(study), *arguments],
            cwd=self.folder,
            env=self.environment(**environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        assert not check or result.returncode == 0, result.stdout
        return result.stdout

    def start(
        self, *arguments: str, study: str = "tiny.yaml", **environment: str
    ) -> subprocess.Popen[bytes]:
        """Start Snakemake in a process group of its own; its output goes to a file next to the
        study.
        """
        log = (self.folder / study).with_suffix(".log").open("wb")
        return subprocess.Popen(
            [*self.command(study), *arguments],
            cwd=self.folder,
            env=self.environment(**environment),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def command(self, study: str) -> list[str]:
        given = ["--configfile", study] if study else []
        return [sys.executable, "-m", "snakemake", *given, "--cores", "2"]

    @staticmethod
    def environment(**changes: str) -> dict[str, str]:
        variables = {
            name: value
            for name, value in os.environ.items()
            if name not in HIDDEN_VARIABLES
        }
        return {**variables, "HF_HUB_OFFLINE": "1", **changes}

    def planned(self, *arguments: str, study: str = "tiny.yaml") -> set[str]:
        """Rules that a dry run would run, and `table ID` for each table."""
        output = self.snakemake("--dry-run", *arguments, study=study)
        planned = list_planned_rules(output)
        if "table" in planned:
            tables = re.findall(r"^    wildcards: table=(\S+)", output, flags=re.M)
            planned = (planned - {"table"}) | {f"table {table}" for table in tables}
        return planned - {"all"}

    def jobs(self) -> dict[str, set[str]]:
        """Rules that a dry run would run, each with the instruments, or other wildcards, that it
        would run for.
        """
        output = self.snakemake("--dry-run")
        names: dict[str, set[str]] = {
            name: set() for name in list_planned_rules(output)
        }
        name = ""
        for line in output.splitlines():
            if line.startswith(("rule ", "localrule ")):
                name = line.split()[1].rstrip(":")
            elif line.startswith("    wildcards: "):
                names[name].add(line.partition("=")[2])
        return {rule: wildcards for rule, wildcards in names.items() if rule != "all"}

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.folder / file
        text = path.read_text()
        assert old in text, f"{old!r} is not in {file}"
        path.write_text(text.replace(old, new))

    def change(self, key: str, value: object) -> None:
        """Set one key of the tiny study, `a.b`."""
        path = self.folder / "tiny.yaml"
        study = yaml.safe_load(path.read_text())
        *parents, last = key.split(".")
        place = study
        for parent in parents:
            place = place[parent]
        place[last] = value
        path.write_text(yaml.safe_dump(study, sort_keys=False))

    def parquet(self) -> dict[str, bytes]:
        """Content of every Parquet file in the results."""
        results = self.folder / "results"
        return {
            str(path.relative_to(results)): path.read_bytes()
            for path in sorted(results.rglob("*.parquet"))
        }


def tiny_study(model: Path, data: str = "data") -> dict[str, object]:
    return {
        "study": "tiny",
        "seed": 7,
        "profiles": ["published", "equations"],
        "sources": {
            "release": {
                "format": "valse-release",
                "files": {
                    name: {"path": f"{data}/{name}.json"}
                    for name in ("relations", "existence")
                },
            },
            "own": {
                "format": "pairs",
                "files": {
                    "own-counting": {
                        "path": f"{data}/own.csv",
                        "annotations": f"{data}/own-annotations.csv",
                    }
                },
            },
        },
        "benchmark": {"valid_votes": 2},
        "models": {"tiny-gpt2": {"weights": str(model)}},
        "groups": {"pairs": ["relations", "existence", "own-counting"]},
        "evaluation": {
            "models": ["tiny-gpt2"],
            "groups": ["pairs"],
            "items": "valid",
            "sample": None,
            "tokens_per_batch": 16,
        },
        "reporting": {
            "tables": ["thesis-A.2", "thesis-3.4"],
            "pronouns": [],
            "resamples": 100,
            "confidence": 0.9,
        },
    }


def copy_workflow(folder: Path, *others: str) -> None:
    """Copy the workflow, and other parts of the checkout, to a new folder, with Snakemake's own log
    of every job.
    """
    folder.mkdir(parents=True)
    for part in (*PARTS, *others):
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(
                source,
                folder / part,
                ignore=shutil.ignore_patterns("*.egg-info"),
            )
        else:
            shutil.copy2(source, folder / part)
    for profile in folder.glob("profiles/*/config.yaml"):
        text, count = re.subn(r"^logger: .*\n", "", profile.read_text(), flags=re.M)
        assert count == 1
        profile.write_text(text)


def checkout(folder: Path, model: Path) -> Checkout:
    copy_workflow(folder)
    shutil.copytree(DATA, folder / "data")
    (folder / "tiny.yaml").write_text(
        yaml.safe_dump(tiny_study(model), sort_keys=False)
    )
    return Checkout(folder)


def copied(original: Checkout, folder: Path) -> Checkout:
    shutil.copytree(original.folder, folder, symlinks=True)
    return Checkout(folder)


def read_stored(folder: Path) -> dict[str, int]:
    """Return the number of each stored result of a folder by its key; one that is written again has
    another number.
    """
    rows: dict[str, int] = {}
    for file in folder.glob("*.sqlite"):
        with closing(
            sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=10)
        ) as connection:
            try:
                rows |= dict(
                    connection.execute("SELECT key, rowid FROM results").fetchall()
                )
            except sqlite3.Error:  # it is being created, or its job was killed
                continue
    return rows


def jobs_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Jobs that a Snakemake runs: scripts in new interpreters, and forks of its job server."""
    children = psutil.Process(process.pid).children(recursive=True)
    servers = {
        child.pid
        for child in children
        if any("forkserver" in word for word in _command(child))
    }
    return [
        child
        for child in children
        if any(".snakemake/scripts" in word for word in _command(child))
        or _parent(child) in servers
    ]


def _parent(process: psutil.Process) -> int:
    try:
        return process.ppid()
    except psutil.Error:
        return 0


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def list_user_messages(output: str) -> list[str]:
    """Return the lines for the user from a run without a traceback."""
    assert "Traceback" not in output
    return [line for line in output.splitlines() if line.startswith("waltz: ")]
