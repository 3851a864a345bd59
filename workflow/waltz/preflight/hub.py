"""Repositories on the Hugging Face hub: their files, after checking that this account may read a
commit.
"""

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
"""Address of the hub; the page of a repository below it shows the license to accept."""


@dataclass(frozen=True)
class Files:
    """Files of a repository or folder.

    Attributes:
        sizes: Size in bytes of each file by its path.
        open: Function that opens a file by its path.
        is_local: Whether the files are on this machine.
    """

    sizes: Mapping[str, int]
    open: Callable[[str], BinaryIO]
    is_local: bool


def read_repository(
    repository: str, revision: str | None, gated: bool, timeout: float
) -> Files:
    """Return the files of a repository on the hub at a commit, after checking that this account may
    read them.

    Args:
        repository: Id of the repository.
        revision: Full commit hash; None for the newest commit.
        gated: Whether the license has to be accepted, for the advice of errors.
        timeout: Time limit in seconds for each answer.
    Raises:
        UserError: The repository or commit does not exist, or this account may not read it.
    """
    page = f"{PAGES}/{repository}"
    accept = f"accept the license on {page} and log in with `hf auth login` or HF_TOKEN"
    try:
        info = huggingface_hub.HfApi().model_info(
            repository, revision=revision, files_metadata=True, timeout=timeout
        )
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or []}
        if not sizes:
            raise UserError(f"is empty; see {page}")
        commit = str(info.sha)
        # The hub lists the files of a gated repository to everybody, so a file itself is requested
        # as well.
        smallest = min(sizes, key=sizes.__getitem__)
        name = "config.json" if "config.json" in sizes else smallest
        url = huggingface_hub.hf_hub_url(repository, name, revision=commit)
        huggingface_hub.get_hf_file_metadata(url, timeout=timeout)
    except GatedRepoError:
        raise UserError(
            f"is gated, and this account may not read it; {accept}"
        ) from None
    except RevisionNotFoundError:
        raise UserError(
            f"has no commit {revision}; see {page}/commits, and correct the revision"
        ) from None
    except RepositoryNotFoundError:
        # The hub hides gated and private repositories from accounts that may not read them.
        advice = (
            f"see {page}; if it is private, log in with `hf auth login` or HF_TOKEN"
        )
        if gated:
            advice = accept
        raise UserError(
            f"is not on the hub, or not for this account; {advice}"
        ) from None
    except OfflineModeIsEnabled:
        raise UserError("cannot be checked offline; unset HF_HUB_OFFLINE") from None
    # Requests for ranges of files need the token of the account.
    headers = build_hf_headers()

    def open_file(name: str) -> BinaryIO:
        """Open a file of the repository for reading in ranges."""
        url = huggingface_hub.hf_hub_url(repository, name, revision=commit)
        return open_remote(url, sizes[name], timeout, headers)

    return Files(sizes, open_file, is_local=False)


def read_folder(folder: Path) -> Files:
    """Return the files of a local folder."""
    sizes = {}
    for path in folder.rglob("*"):
        if path.is_file():
            sizes[path.relative_to(folder).as_posix()] = path.stat().st_size
    return Files(sizes, lambda name: (folder / name).open("rb"), is_local=True)


def find_cached(repository: str, revision: str | None) -> Path | None:
    """Return the folder of a repository at a commit in the hub's cache; None if the cache lacks it."""
    try:
        return Path(
            huggingface_hub.snapshot_download(
                repository, revision=revision, local_files_only=True
            )
        )
    except LocalEntryNotFoundError:
        return None


def get_hub_cache() -> Path:
    """Return the folder in which the client of the hub stores fetched files."""
    return Path(constants.HF_HUB_CACHE)
