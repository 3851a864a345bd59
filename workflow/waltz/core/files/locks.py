"""File locks that also work on file systems without locks."""

import errno
import fcntl
import functools
import logging
import os
import shlex
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock

from waltz.core.errors import UserError

logger = logging.getLogger(__name__)

UNSUPPORTED = (
    errno.ENOLCK,
    errno.ENOSYS,
    errno.EOPNOTSUPP,
    errno.ENOTSUP,
    errno.EINVAL,
)
"""Error numbers of a file system without locks, such as NFS without its lock daemon."""
MARKER_SUFFIX = ".held"
"""Suffix of the file whose existence is the lock if the file system has no locks."""


def build_lock(file: Path, mode: int = -1) -> BaseFileLock:
    """Return the lock of a file, not yet acquired; it ends with its process and never follows a
    link.

    If the file system has no locks, the lock is a file next to `file` that exists while the lock is
    held; the log reports this once per folder. If its process was killed, the next process on this
    machine deletes the file.

    Args:
        file: The lock file, in an existing folder.
        mode: Permissions of a lock file that is created; by default the permissions that the process gives.
    """
    # The system releases its locks when a process ends; a lock that is a file may remain.
    if _has_locks(file.parent):
        return FileLock(file, mode=mode)
    return SoftFileLock(file.with_name(f"{file.name}{MARKER_SUFFIX}"), mode=mode)


@contextmanager
def hold_shared_lock(file: Path) -> Iterator[None]:
    """Hold a lock in a folder that several users may share; see `build_lock`.

    Raises:
        UserError: The lock file or the folder belongs to another user and cannot be written.
    """
    lock = build_lock(file, mode=0o666)
    try:
        lock.acquire()
    except PermissionError:
        # The owner of the file or folder decides who may write: name them and the command that
        # helps.
        lock_file = Path(lock.lock_file)
        path = lock_file if lock_file.exists() else file.parent
        mode = stat.S_IMODE(path.stat().st_mode)
        raise UserError(
            f"{path}: belongs to {_find_owner(path)}, and this account may not write it (mode {mode:o}); let its owner"
            f" run: chmod -R a+rwX {shlex.quote(str(file.parent))}"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _find_owner(path: Path) -> str:
    """Return the name of a file's owner, or `user NUMBER` if the system has no name for the number."""
    try:
        return path.owner()
    except KeyError:
        return f"user {path.stat().st_uid}"


@functools.cache
def _has_locks(folder: Path) -> bool:
    """Return whether the file system of a folder has locks.

    A folder that cannot be written counts as one with locks; the write then fails with its actual
    cause.
    """
    try:
        # Try a lock on a temporary file, since no system call says whether a file system has locks.
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            return True
        logger.warning(
            "%s: its file system has no locks (%s); files *%s stand for them: after a crash of another machine, delete"
            " them",
            folder,
            os.strerror(error.errno or 0),
            MARKER_SUFFIX,
        )
        return False
    return True
