"""Complete models of the hub, each at one commit that the study's lock file holds."""

import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

from waltz.core.errors import UserError
from waltz.core.files.downloads import ATTEMPTS, WAIT_SECONDS, compute_sha256, read_recorded, record_download

log = logging.getLogger(__name__)

OTHER_FRAMEWORKS = ("*.h5", "*.msgpack", "*.ot", "*.onnx", "onnx/*", "*.tflite", "*.mlmodel", "*.gguf")
"""Weights of other frameworks."""
PICKLE_PATTERNS = ("*.bin", "*.pt", "*.pth")
"""Weights that are skipped if the repository has them as safetensors too."""
HUB_CACHE_FOLDER = ".cache"
"""Folder of huggingface_hub with the state of interrupted downloads."""


def fetch_snapshot(repository: str, folder: Path, lock: Path, wait: Callable[[float], None] = time.sleep) -> str:
    """Fetch the files of a repository into a folder, at the commit that the lock file holds or records now.

    Partial downloads stay next to the folder, so that a later run continues them. Large files are compared with the
    checksums of the hub, which its own client does not do.

    Args:
        repository: Id on the hub.
        folder: Destination; it appears when it is complete.
        lock: The lock file.
        wait: Called with the seconds between two attempts.
    Returns:
        The commit.
    Raises:
        UserError: The repository cannot be had, or not at that commit.
    """
    locked = read_recorded(lock, repository, "commit")
    partial = folder.with_name(f".{folder.name}.part")
    for attempt in range(ATTEMPTS):
        if attempt:
            wait(WAIT_SECONDS * 2 ** (attempt - 1))
        try:
            commit = _download(repository, locked, partial)
            break
        except Exception as error:  # errors of the client, of requests, of httpx and of the file system
            first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
            if attempt + 1 < ATTEMPTS and not isinstance(error, (RepositoryNotFoundError, RevisionNotFoundError)):
                log.warning("%s, attempt %d of %d: %s", repository, attempt + 1, ATTEMPTS, first_line)
                continue
            at_commit = f" at commit {locked}, which {lock} holds" if locked else ""
            raise UserError(
                f"{repository}: cannot be had from the hub{at_commit}: {first_line}; check the network, log in"
                f" with `hf auth login` where its licence has to be accepted, or copy its files to {folder} and run"
                f" `snakemake --touch {folder}`"
            ) from error
    record_download(lock, repository, {"commit": commit})
    shutil.rmtree(partial / HUB_CACHE_FOLDER, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)
    return commit


def _download(repository: str, locked: str | None, partial: Path) -> str:
    """Fetch the missing files of a repository into a folder, and return its commit."""
    api = huggingface_hub.HfApi()
    info = api.model_info(repository, revision=locked, files_metadata=True)
    commit = str(info.sha)
    files = info.siblings or []
    has_safetensors = any(file.rfilename.endswith(".safetensors") for file in files)
    ignored = [*OTHER_FRAMEWORKS, *(PICKLE_PATTERNS if has_safetensors else ())]
    api.snapshot_download(repository, revision=commit, local_dir=partial, ignore_patterns=ignored)
    for file in files:
        path = partial / file.rfilename
        if file.lfs is not None and path.is_file() and (arrived := compute_sha256(path)) != file.lfs.sha256:
            path.unlink()
            raise OSError(f"{file.rfilename} came with sha256 {arrived}, not {file.lfs.sha256}")
    return commit
