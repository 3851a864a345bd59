"""Repositories of the model hub: whether a commit is there and readable with this account, and their files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import huggingface_hub
from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils._headers import build_hf_headers

from waltz.core.errors import UserError
from waltz.preflight.web import open_remote

PAGES = "https://huggingface.co"
"""Address of the page of a repository, on which licences are accepted."""


@dataclass(frozen=True)
class Files:
    """Files of a repository or folder.

    Attributes:
        sizes: Bytes of each, by its path.
        open: Opens one of them.
        is_local: Whether they are here.
    """

    sizes: Mapping[str, int]
    open: Callable[[str], BinaryIO]
    is_local: bool


def read_repository(repository: str, revision: str | None, gated: bool, timeout: float) -> Files:
    """Return the files of a repository at a commit, which this account may read.

    Args:
        repository: Its id.
        revision: Full commit hash; None for its newest state.
        gated: Whether its licence has to be accepted, for errors.
        timeout: Seconds for each answer.
    Raises:
        UserError: There is no such repository or commit, or this account may not read it.
    """
    page = f"{PAGES}/{repository}"
    accept = f"accept the licence on {page} and log in with `hf auth login`"
    try:
        info = huggingface_hub.HfApi().model_info(repository, revision=revision, files_metadata=True, timeout=timeout)
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or []}
        if not sizes:
            raise UserError(f"is empty; see {page}")
        commit = str(info.sha)
        smallest = min(sizes, key=lambda name: (name != "config.json", sizes[name]))
        huggingface_hub.get_hf_file_metadata(
            huggingface_hub.hf_hub_url(repository, smallest, revision=commit), timeout=timeout
        )
    except GatedRepoError:
        raise UserError(f"is gated, and this account may not read it; {accept}") from None
    except RevisionNotFoundError:
        raise UserError(f"has no commit {revision}; see {page}/commits, and correct the revision") from None
    except RepositoryNotFoundError:
        advice = accept if gated else f"see {page}; if it is private, log in with `hf auth login`"
        raise UserError(f"is not on the hub, or not for this account; {advice}") from None
    except OfflineModeIsEnabled:
        raise UserError("cannot be checked offline; unset HF_HUB_OFFLINE") from None
    headers = build_hf_headers()

    def open_file(name: str) -> BinaryIO:
        url = huggingface_hub.hf_hub_url(repository, name, revision=commit)
        return open_remote(url, sizes[name], timeout, headers)

    return Files(sizes, open_file, is_local=False)


def read_folder(folder: Path) -> Files:
    """Return the files of a local folder."""
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    return Files(sizes, lambda name: (folder / name).open("rb"), is_local=True)


def find_cached(repository: str, revision: str | None) -> Path | None:
    """Return the folder in the hub's cache with files of a repository at a commit; None without any."""
    try:
        return Path(huggingface_hub.snapshot_download(repository, revision=revision, local_files_only=True))
    except LocalEntryNotFoundError:
        return None


def get_hub_cache() -> Path:
    """Return the folder in which the hub's client stores what it fetches."""
    return Path(constants.HF_HUB_CACHE)
