"""Memory that this process may use, and a check that libraries have enough address space."""

import resource
import sys

import psutil

from waltz.core.errors import UserError

GB = 1e9
LEAST_ADDRESS_SPACE = 4e9
"""Bytes of address space below which nothing is computed.

torch, pyarrow and OpenBLAS take 1.3 GB on two cores, and more on more. Where they reach the limit,
OpenBLAS tries again for ever, and pyarrow waits for a thread that could not start.
"""


def check_address_space() -> None:
    """Refuse a limit of the address space (`ulimit -v`) under which libraries hang.

    Raises:
        UserError: The limit is too small.
    """
    limit = _read_address_space()
    if limit is not None and limit < LEAST_ADDRESS_SPACE:
        raise UserError(
            f"address space: the limit is too small (got {limit / GB:.1f} GB, expected at least"
            f" {LEAST_ADDRESS_SPACE / GB:.0f} GB); run: ulimit -v unlimited"
        )


def count_usable_bytes() -> int:
    """Return the bytes that this process can allocate: memory and swap of the machine, or its limit
    if that is less.
    """
    # `ulimit -v` may limit the process to less than the machine has.
    machine = psutil.virtual_memory().total + psutil.swap_memory().total
    limit = _read_address_space()
    if limit is None:
        return machine
    return min(machine, limit)


def _read_address_space() -> int | None:
    """Return the limit of this process's address space in bytes; None without a limit and on macOS."""
    if sys.platform == "darwin":
        return None  # macOS states a limit that it does not enforce
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit
