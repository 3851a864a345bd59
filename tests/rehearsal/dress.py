"""The thesis study dressed for rehearsal: the real workflow and study, a server for all outside,
small settings.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rehearsal import hub, released, upstream
from rehearsal.checkpoints import original
from rehearsal.server import World, environment, serving
from waltz.model_registry import ModelSpec, resolve_model
from workflow_runs.checkout import ROOT, copy_workflow

STUDY = "config/thesis.yaml"
OVERLAY = "tests/rehearsal/overlay.yaml"
HUB_MODEL = "facebook/flava-full"
"""A model that is fetched from the hub whole; the short rehearsal runs it too."""
OWN_DECODER = "mPLUG/mPLUG-Owl3-7B-240728"
"""The decoder whose network is waltz's own; the short rehearsal runs it too."""
SKIPPED = "skipped.yaml"
"""Third study file, written for the run: the models that are not rehearsed."""
MINUTES = 40


@dataclass(frozen=True)
class Dress:
    """A copy of the workflow that knows the server alone.

    Attributes:
        folder: The copy.
        world: What the server has.
        environment: Of its processes.
    """

    folder: Path
    world: World
    environment: Mapping[str, str]

    @property
    def results(self) -> Path:
        return self.folder / "results" / "thesis"

    def snakemake(self, *arguments: str, check: bool = True) -> str:
        """Run the study, or targets of it, to the end, and return the output."""
        command = [
            "-m",
            "snakemake",
            "--cores",
            "2",
            "--configfile",
            STUDY,
            OVERLAY,
            SKIPPED,
        ]
        return self._run([*command, *arguments], check)

    def preflight(self, check: bool = True) -> str:
        """Check the study before it runs, and return the table."""
        command = "from waltz.cli.app import app; app()"
        return self._run(["-c", command, "preflight", STUDY, OVERLAY, SKIPPED], check)

    def _run(self, arguments: Sequence[str], check: bool) -> str:
        ran = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=dict(self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60 * MINUTES,
        )
        assert not check or ran.returncode == 0, ran.stdout[-20_000:]
        assert check or ran.returncode != 0, "it should have failed"
        return ran.stdout


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Two settings as Snakemake merges files after one `--configfile`: mappings key by key, all
    else replaced.
    """
    settings = dict(base)
    for key, value in over.items():
        known = settings.get(key)
        settings[key] = (
            merged(known, value)
            if isinstance(known, Mapping) and isinstance(value, Mapping)
            else value
        )
    return settings


def study(complete: bool = True) -> dict[str, Any]:
    """Return the thesis study with the overlay.

    Args:
        complete: Run all models; else every fourth encoder, language model and VL decoder, and those
            that helper, edits, filters and proposals name.
    """
    base, overlay = (
        yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))
        for file in (STUDY, OVERLAY)
    )
    settings = {"skipped": {}, **merged(base, overlay)}
    return (
        settings
        if complete
        else merged(settings, {"skipped": select_skipped(settings)})
    )


def select_skipped(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the models that the short rehearsal skips, with the reason."""
    consistency = settings["consistency"]
    needed = {consistency["helper"], *consistency["cc_shap"]["edits"]["models"]}
    needed |= {
        str(value)
        for stage in ("filters", "proposals")
        for value in settings[stage].values()
    }
    needed |= {
        name
        for name, spec in models(settings).items()
        if spec.weights in (HUB_MODEL, OWN_DECODER)
    }
    families: dict[str, list[str]] = {}
    for name, spec in models(settings).items():
        if name in settings["evaluation"]["models"] and name not in needed:
            families.setdefault(
                spec.kind if spec.kind in ("text", "vision") else "encoder", []
            ).append(name)
    return {
        name: f"not rehearsed (skipped.{name}): pytest -m rehearsal --whole runs it"
        for names in families.values()
        for position, name in enumerate(names)
        if position % 4
    }


def models(settings: Mapping[str, Any]) -> dict[str, ModelSpec]:
    """Every model that a study runs, by name."""
    taken = {
        name: entry
        for name, entry in settings["models"].items()
        if name not in settings["skipped"]
    }
    return {name: resolve_model(name, entry) for name, entry in taken.items()}


def outside(settings: Mapping[str, Any], folder: Path) -> World:
    """All that a study asks the network for, in small."""
    specs = models(settings).values()
    files = upstream.write(
        {**upstream.raw_files(settings), **released.files(specs)}, folder / "web"
    )
    return World(files, hub.build(hub.find_commits(specs), folder / "hub"))


def provide(settings: Mapping[str, Any], copy: Path) -> None:
    """Put what no url gives into a copy of the workflow: captions by people, settings."""
    contents = {settings["cv_probes"]["written"]: upstream.plain_captions().encode()}
    contents |= {
        f"{settings['weights']}/web/{place}": make()
        for place, make in original.SETTINGS_FILES.items()
    }
    for place, content in contents.items():
        (copy / place).parent.mkdir(parents=True, exist_ok=True)
        (copy / place).write_bytes(content)


@contextmanager
def dressed(folder: Path, settings: Mapping[str, Any]) -> Iterator[Dress]:
    """Yield a fresh copy of the workflow with a running server of all files that a study needs."""
    copy = folder / "waltz"
    copy_workflow(copy, "tests/rehearsal")
    (copy / SKIPPED).write_text(
        yaml.safe_dump({"skipped": settings["skipped"]}), encoding="utf-8"
    )
    provide(settings, copy)
    world = outside(settings, folder / "world")
    paths = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "SNAKEMAKE_PROFILE", "WALTZ_DATA")
        and not name.startswith(("HF_", "HUGGINGFACE"))
    }
    with serving(world) as address:
        yield Dress(copy, world, {**paths, **environment(address, folder / "cache")})
