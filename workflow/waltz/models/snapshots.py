"""Whole models of the hub, each at one commit that the study's lock file holds."""

import shutil
from pathlib import Path

import huggingface_hub

from waltz.core.errors import UserError
from waltz.core.lock import record, recorded

OTHER_FRAMEWORKS = ("*.h5", "*.msgpack", "*.ot", "*.onnx", "onnx/*", "*.tflite", "*.mlmodel", "*.gguf")
"""Weights that nothing here reads."""
PICKLED = ("*.bin", "*.pt", "*.pth")
"""Weights that are left out where the repository has them as safetensors too."""
PARTIAL = ".cache"
"""Folder in which huggingface_hub keeps what it needs to go on after a cut connection."""


def fetch_snapshot(repository: str, folder: Path, lock: Path) -> str:
    """Bring the files of a repository to a folder, at the commit that the lock file holds, or records now.

    What has arrived of it stays beside the folder, so that a later run goes on with it.

    Args:
        repository: Id on the hub.
        folder: Where to; it appears when it is whole.
        lock: The lock file.
    Returns:
        The commit.
    Raises:
        UserError: The repository cannot be had, or not at that commit.
    """
    known = recorded(lock, repository, "commit")
    partial = folder.with_name(f".{folder.name}.part")
    try:
        found = huggingface_hub.HfApi().model_info(repository, revision=known)
        commit = str(found.sha)
        names = [file.rfilename for file in found.siblings or []]
        safe = any(name.endswith(".safetensors") for name in names)
        huggingface_hub.snapshot_download(
            repository,
            revision=commit,
            local_dir=partial,
            ignore_patterns=[*OTHER_FRAMEWORKS, *(PICKLED if safe else ())],
        )
    except Exception as error:  # its own errors, those of requests and httpx, and of the file system
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        wanted = f" at commit {known}, which {lock} holds" if known else ""
        raise UserError(
            f"{repository}: cannot be had from the hub{wanted}: {first}; check the network, log in with `hf auth login`"
            f" where its licence has to be accepted, or copy its files to {folder} and run `snakemake --touch {folder}`"
        ) from error
    record(lock, repository, {"commit": commit})
    shutil.rmtree(partial / PARTIAL, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)
    return commit
