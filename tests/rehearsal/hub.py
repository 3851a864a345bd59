"""The model hub in small: a repository for every model of a study, at the study's revision."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from rehearsal.checkpoints import encoders, judges, language, vision
from rehearsal.server import Repository
from waltz.model_registry import BERT_REVISION, BERT_TOKENIZER, ModelSpec

BUILDERS = {
    **language.BUILDERS,
    **vision.BUILDERS,
    **encoders.BUILDERS,
    **judges.BUILDERS,
}
"""What makes the files of each repository."""
BORROWED = {BERT_TOKENIZER: BERT_REVISION}
"""Repositories that a model takes its tokenizer from."""
COMMIT = re.compile(r"[0-9a-f]{40}")
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def find_commits(specs: Iterable[ModelSpec]) -> dict[str, str]:
    """Commit of every repository that models need, by its id; a made-up one where none is pinned.

    Raises:
        KeyError: A model is on the hub that nothing here makes.
    """
    commits = dict(BORROWED)
    for spec in specs:
        if HUB_ID.fullmatch(spec.weights) and spec.revision != "local":
            pinned = COMMIT.fullmatch(spec.revision)
            commits[spec.weights] = (
                spec.revision
                if pinned
                else hashlib.sha1(spec.weights.encode()).hexdigest()
            )
    missing = sorted(commits.keys() - BUILDERS.keys())
    if missing:
        raise KeyError(
            f"no tiny checkpoint of {', '.join(missing)}: add a builder to tests/rehearsal/checkpoints"
        )
    return commits


def build(commits: Mapping[str, str], folder: Path) -> dict[str, Repository]:
    """Make the files of repositories, each in a folder of its own; the same bytes each time."""
    for model in commits:
        if not (folder / model).exists():
            (folder / model).mkdir(parents=True)
            BUILDERS[model](model, folder / model)
    return {
        model: Repository(folder / model, commit) for model, commit in commits.items()
    }
