"""Key of a task file: what its tasks are, for who runs the annotation and not for the annotators."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from waltz.core.files.atomic import write_text


def write_key(
    folder: str | Path, name: str, platform: str, seed: int, annotators: int, tasks: Sequence[Mapping[str, str]]
) -> Path:
    """Write `keys/<name>.json`.

    Args:
        folder: Folder of the task files.
        name: Name of the task file.
        platform: Where it is annotated.
        seed: Seed of the tasks.
        annotators: Answers wanted for each task, to be set on the platform.
        tasks: Name of each task and what it stands for.
    """
    key = {"platform": platform, "seed": seed, "annotators": annotators, "tasks": [dict(task) for task in tasks]}
    path = Path(folder) / "keys" / f"{name}.json"
    write_text(path, json.dumps(key, indent=1, ensure_ascii=False) + "\n")
    return path
