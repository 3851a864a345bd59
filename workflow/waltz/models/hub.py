"""Models of the hub, downloaded at a commit: into a folder, or into the hub's own cache."""

import functools
import logging
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict

import huggingface_hub
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from waltz.core.downloads.checksums import compute_sha256
from waltz.core.downloads.lock_file import read_recorded, record_download
from waltz.core.downloads.transfer import ATTEMPTS, WAIT_SECONDS
from waltz.core.errors import UserError, convert_to_user_error, get_first_line
from waltz.core.files.atomic import write_text
from waltz.core.files.locks import hold_shared_lock
from waltz.core.files.safe_names import is_safe_name
from waltz.models.checkpoint_file import read_shard_names

OTHER_FRAMEWORKS = (
    "*.h5",
    "*.msgpack",
    "*.ot",
    "*.onnx",
    "onnx/*",
    "*.tflite",
    "*.mlmodel",
    "*.gguf",
)
"""Weights of other frameworks."""
PICKLE_PATTERNS = ("*.bin", "*.pt", "*.pth")
"""Weights that are skipped if the repository has them as safetensors too."""
SETTINGS_PATTERNS = ("*.json", "*.yaml", "tokenizer*", "vocab*", "merges.txt")
"""Files that a tokenizer is loaded from, and settings of checkpoint files."""
FINAL_ERRORS = (RepositoryNotFoundError, RevisionNotFoundError, OfflineModeIsEnabled)
"""Errors of the hub that a retry does not change."""
HUB_CACHE_FOLDER = ".cache"
"""Folder of huggingface_hub with the state of interrupted downloads."""
log = logging.getLogger(__name__)


class LoaderOptions(TypedDict, total=False):
    """Keyword arguments of the `from_pretrained` of transformers that say what is loaded.

    Attributes:
        revision: Commit, branch or tag of a hub id.
        local_files_only: Whether only the hub's cache is used.
        gguf_file: Name of the GGUF file in a folder.
        trust_remote_code: Whether code of the repository may run.
    """

    revision: str
    local_files_only: bool
    gguf_file: str
    trust_remote_code: bool


def build_options(revision: str) -> LoaderOptions:
    """Return the options of a loader for a hub id: the revision, and the cache alone if the hub is
    not reached.

    Without it, the client tries five times for each file, which takes 23 s.
    """
    return {"revision": revision, "local_files_only": not is_reached()}


def is_reached() -> bool:
    """Return whether the hub answers; it is asked once."""
    return _is_reached(huggingface_hub.constants.ENDPOINT)


@functools.cache
def _is_reached(endpoint: str) -> bool:
    try:
        huggingface_hub.get_session().head(
            endpoint, timeout=huggingface_hub.constants.HF_HUB_ETAG_TIMEOUT
        )
    except Exception as error:  # errors of the client, of requests and of httpx
        log.warning(
            "%s: is not reached, so that only its cache is used: %s",
            endpoint,
            get_first_line(error),
        )
        return False
    return True


def fetch_snapshot(
    repository: str,
    folder: Path,
    lock: Path,
    wait: Callable[[float], None] = time.sleep,
) -> str:
    """Fetch the files of a repository into a folder, at the commit that the lock file holds or
    records now.

    Partial downloads stay next to the folder, so that a later run continues them. Large files are
    compared with the checksums of the hub, which its client does not do. If two runs share the
    folder and fetch it at once, the second waits, and takes the files of the first.

    Args:
        repository: `OWNER/NAME` or `NAME` of the repository.
        folder: Destination; it appears when it is complete.
        lock: The lock file.
        wait: Called with the seconds between two attempts.
    Returns:
        The commit.
    Raises:
        UserError: The repository cannot be fetched, or not at that commit.
    """
    partial = folder.with_name(f".{folder.name}.part")
    commit_file = folder.with_name(f".{folder.name}.commit")
    folder.parent.mkdir(parents=True, exist_ok=True)
    existed = folder.exists()
    with hold_shared_lock(folder.with_name(f".{folder.name}.lock")):
        # Another run fetched it while this one waited.
        if folder.exists() and not existed:
            commit = commit_file.read_text(encoding="utf-8").strip()
            record_download(lock, repository, {"commit": commit})
            return commit
        locked = read_recorded(lock, repository, "commit")
        try:
            commit = _download_repeatedly(repository, locked, partial, wait)
        except Exception as error:  # errors of the client, of requests, of httpx and of the file system
            at_commit = ""
            if locked:
                at_commit = f" at commit {locked}, which {lock} holds"
            raise convert_to_user_error(error) or UserError(
                f"{repository}: cannot be had from the hub{at_commit}: {get_first_line(error)};"
                f" {_advise(repository, error)}, or copy its files to {folder} and run `snakemake --touch {folder}`"
            ) from error
        record_download(lock, repository, {"commit": commit})
        shutil.rmtree(partial / HUB_CACHE_FOLDER, ignore_errors=True)
        # The new folder is complete; the old one goes at the last moment.
        shutil.rmtree(folder, ignore_errors=True)
        write_text(commit_file, f"{commit}\n")
        partial.replace(folder)
        return commit


def fetch_to_cache(
    path: str,
    commit: str,
    marker: Path,
    wait: Callable[[float], None] = time.sleep,
    only_tokenizer: bool = False,
) -> None:
    """Fetch a repository, or a file of it, at a commit into the hub's cache, and write a file that
    says so.

    If the hub cannot be reached, a cache that holds the model suffices.

    Args:
        path: `OWNER/NAME` or `NAME` of the repository, or `OWNER/NAME/FILE`; settings and tokenizer
            come with the file.
        commit: Full commit hash.
        marker: The file that is written.
        wait: Called with the seconds between two attempts.
        only_tokenizer: Whether models only need its tokenizer, if they have none; if it cannot be
            fetched, a warning is logged, and the jobs of models without a tokenizer report it.
    Raises:
        UserError: The repository cannot be fetched at that commit.
    """
    owner, _, rest = path.partition("/")
    name, _, file = rest.partition("/")
    repository = f"{owner}/{name}" if name else owner
    patterns = None
    if file:
        patterns = [file, *SETTINGS_PATTERNS]
    elif only_tokenizer:
        patterns = [*SETTINGS_PATTERNS]
    try:
        _download_repeatedly(repository, commit, None, wait, patterns)
    except Exception as error:
        # Errors of the client, of requests, of httpx and of the file system.
        if not only_tokenizer and not _is_cached(repository, commit, file):
            raise convert_to_user_error(error) or UserError(
                f"{repository}: cannot be had from the hub at commit {commit}: {get_first_line(error)};"
                f" {_advise(repository, error)}, or fill the hub's cache elsewhere with"
                f" `hf download {repository} --revision {commit}` and copy it"
            ) from error
        log.warning(
            "%s: only what the hub's cache holds can be used: %s",
            repository,
            get_first_line(error),
        )
    write_text(marker, f"{path} {commit}\n")


def _advise(repository: str, error: Exception) -> str:
    """Return what to do about an error of the hub."""
    if isinstance(error, GatedRepoError):
        page = f"{huggingface_hub.constants.ENDPOINT}/{repository}"
        return (
            f"accept its license at {page} and log in with `hf auth login` or HF_TOKEN"
        )
    return "check the network, log in with `hf auth login` or HF_TOKEN where its license has to be accepted"


def _is_cached(repository: str, commit: str, file: str) -> bool:
    """Return whether the hub's cache holds a file of a repository, or its weights if `file` is
    empty.

    If the repository has an index of weights, all files of an index have to be there.
    """
    if file:
        cached = huggingface_hub.try_to_load_from_cache(
            repository, file, revision=commit
        )
        return isinstance(cached, str)
    try:
        folder = Path(
            huggingface_hub.snapshot_download(
                repository,
                revision=commit,
                local_files_only=True,
                ignore_patterns=[*OTHER_FRAMEWORKS, *PICKLE_PATTERNS],
            )
        )
    except LocalEntryNotFoundError:
        return False
    indices = list(folder.glob("*.index.json"))
    for index in indices:
        if all((folder / name).is_file() for name in read_shard_names(index)):
            return True
    if indices:
        return False
    suffixes = tuple(
        pattern.removeprefix("*") for pattern in ("*.safetensors", *PICKLE_PATTERNS)
    )
    return any(path.name.endswith(suffixes) for path in folder.iterdir())


def _download_repeatedly(
    repository: str,
    commit: str | None,
    target: Path | None,
    wait: Callable[[float], None],
    patterns: Sequence[str] | None = None,
) -> str:
    """Call `_download` until it succeeds or its error is final, at most `ATTEMPTS` times."""
    # Waits grow by a factor of two; the last attempt raises its error.
    for attempt in range(1, ATTEMPTS):
        try:
            return _download(repository, commit, target, patterns)
        except FINAL_ERRORS:
            raise
        except Exception as error:  # errors of the client, of requests, of httpx and of the file system
            log.warning(
                "%s, attempt %d of %d: %s",
                repository,
                attempt,
                ATTEMPTS,
                get_first_line(error),
            )
        wait(WAIT_SECONDS * 2 ** (attempt - 1))
    return _download(repository, commit, target, patterns)


def _download(
    repository: str,
    commit: str | None,
    target: Path | None,
    patterns: Sequence[str] | None,
) -> str:
    """Fetch the missing files of a repository, and return its commit.

    Args:
        target: Folder of the files; None for the hub's cache.
        patterns: Patterns of the files; None for all that are used.
    """
    api = huggingface_hub.HfApi()
    info = api.model_info(repository, revision=commit, files_metadata=True)
    files = info.siblings or []
    for file in files:
        if not is_safe_name(file.rfilename):
            raise OSError(
                f"it lists a file outside its folder, or that cannot be (got {file.rfilename[:80]!r})"
            )
    # The same weights in other formats.
    unused = [*OTHER_FRAMEWORKS]
    if any(file.rfilename.endswith(".safetensors") for file in files):
        unused += PICKLE_PATTERNS
    folder = api.snapshot_download(
        repository,
        revision=str(info.sha),
        local_dir=target,
        allow_patterns=None if patterns is None else list(patterns),
        ignore_patterns=unused if patterns is None else None,
    )
    for file in files:
        path = Path(folder) / file.rfilename
        if file.lfs is None or not path.is_file():  # small files have no checksum
            continue
        sha256 = compute_sha256(path)
        if sha256 != file.lfs.sha256:
            # In the hub's cache the path is a link: both the file and the link go, so that they are
            # fetched again.
            path.resolve().unlink()
            path.unlink(missing_ok=True)
            raise OSError(
                f"{file.rfilename} came with sha256 {sha256}, not {file.lfs.sha256}"
            )
    return str(info.sha)
