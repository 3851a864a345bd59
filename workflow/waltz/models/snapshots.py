"""Whole models of the hub, each at one commit that the study's lock file holds."""

import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

from waltz.core.errors import UserError
from waltz.core.files.download_lock import compute_sha256, read_recorded, record_download
from waltz.core.files.fetch import ATTEMPTS, WAIT_SECONDS

log = logging.getLogger(__name__)

OTHER_FRAMEWORKS = ("*.h5", "*.msgpack", "*.ot", "*.onnx", "onnx/*", "*.tflite", "*.mlmodel", "*.gguf")
"""Weights that nothing here reads."""
PICKLE_PATTERNS = ("*.bin", "*.pt", "*.pth")
"""Weights that are left out where the repository has them as safetensors too."""
HUB_CACHE_FOLDER = ".cache"
"""Folder in which huggingface_hub keeps what it needs to go on after a cut connection."""


def fetch_snapshot(repository: str, folder: Path, lock: Path, wait: Callable[[float], None] = time.sleep) -> str:
    """Bring the files of a repository to a folder, at the commit that the lock file holds, or records now.

    What has arrived of it stays beside the folder, so that a later run goes on with it. Large files are held to the
    checksums that the hub names, which its own client does not do.

    Args:
        repository: Id on the hub.
        folder: Where to; it appears when it is whole.
        lock: The lock file.
        wait: Called with the seconds between two attempts.
    Returns:
        The commit.
    Raises:
        UserError: The repository cannot be had, or not at that commit.
    """
    known = read_recorded(lock, repository, "commit")
    partial = folder.with_name(f".{folder.name}.part")
    for attempt in range(ATTEMPTS):
        if attempt:
            wait(WAIT_SECONDS * 2 ** (attempt - 1))
        try:
            commit = _download(repository, known, partial)
            break
        except Exception as error:  # its own errors, those of requests and httpx, and of the file system
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            if attempt + 1 < ATTEMPTS and not isinstance(error, (RepositoryNotFoundError, RevisionNotFoundError)):
                log.warning("%s, attempt %d of %d: %s", repository, attempt + 1, ATTEMPTS, first)
                continue
            wanted = f" at commit {known}, which {lock} holds" if known else ""
            raise UserError(
                f"{repository}: cannot be had from the hub{wanted}: {first}; check the network, log in with `hf auth"
                f" login` where its licence has to be accepted, or copy its files to {folder} and run `snakemake"
                f" --touch {folder}`"
            ) from error
    record_download(lock, repository, {"commit": commit})
    shutil.rmtree(partial / HUB_CACHE_FOLDER, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)
    return commit


def _download(repository: str, known: str | None, partial: Path) -> str:
    """Bring what lacks of a repository to a folder, and give its commit."""
    api = huggingface_hub.HfApi()
    found = api.model_info(repository, revision=known, files_metadata=True)
    commit = str(found.sha)
    files = found.siblings or []
    safe = any(file.rfilename.endswith(".safetensors") for file in files)
    left_out = [*OTHER_FRAMEWORKS, *(PICKLE_PATTERNS if safe else ())]
    api.snapshot_download(repository, revision=commit, local_dir=partial, ignore_patterns=left_out)
    for file in files:
        path = partial / file.rfilename
        if file.lfs is not None and path.is_file() and (arrived := compute_sha256(path)) != file.lfs.sha256:
            path.unlink()
            raise OSError(f"{file.rfilename} came with sha256 {arrived}, not {file.lfs.sha256}")
    return commit
