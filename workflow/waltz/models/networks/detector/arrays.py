"""A pickle of NumPy arrays by name, as which the detector's weights were first released, read without running code."""

import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from waltz.core.errors import UserError

LEVEL = "model"
"""Key under which the file keeps the weights."""


def read_arrays(file: Path) -> dict[str, torch.Tensor]:
    """The weights of a pickle of NumPy arrays, by key; a `model` level around them is taken away.

    Raises:
        UserError: The file cannot be read, holds anything but plain values and arrays of numbers, or no array.
    """
    try:
        with file.open("rb") as opened:
            found: Any = _Arrays(opened, encoding="latin1").load()
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror or error}; check the path") from None
    except Exception as error:  # whatever a hostile or truncated file makes the reader raise
        first_line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UserError(
            f"{file}: is truncated or no pickle of arrays ({first_line[:100]}); fetch it again and compare its sha256"
        ) from None
    if isinstance(found, Mapping) and isinstance(found.get(LEVEL), Mapping):
        found = found[LEVEL]
    arrays = {str(key): value for key, value in found.items()} if isinstance(found, Mapping) else {}
    arrays = {key: value for key, value in arrays.items() if isinstance(value, np.ndarray)}
    odd = [key for key, value in arrays.items() if value.dtype.kind not in "fiu"]
    if odd or not arrays:
        raise UserError(
            f"{file}: {f'{odd[0]} is no array of numbers' if odd else 'holds no arrays by name'}; fetch it again"
        )
    return {
        key: torch.from_numpy(np.array(value, dtype=value.dtype.newbyteorder("="))) for key, value in arrays.items()
    }


def _as_bytes(text: str, encoding: str) -> bytes:
    """Bytes as Python 2's protocol spells them."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"bytes in {encoding}")
    return text.encode("latin-1")


def _makers() -> dict[tuple[str, str], Callable[..., Any]]:
    """What makes arrays again, by the names that pickles of old and new NumPy call it."""
    array: Any = np.zeros(1)
    number: Any = np.float64(0)
    found: dict[tuple[str, str], Callable[..., Any]] = {
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("collections", "OrderedDict"): OrderedDict,
        ("_codecs", "encode"): _as_bytes,
    }
    for core in ("numpy.core", "numpy._core"):
        found[f"{core}.multiarray", "_reconstruct"] = array.__reduce__()[0]
        found[f"{core}.multiarray", "scalar"] = number.__reduce__()[0]
        found[f"{core}.numeric", "_frombuffer"] = array.__reduce_ex__(5)[0]
    return found


class _Arrays(pickle.Unpickler):
    """An unpickler that makes arrays and refuses all else."""

    makers = _makers()

    def find_class(self, module: str, name: str) -> Any:
        """What makes arrays."""
        if (module, name) not in self.makers:
            raise pickle.UnpicklingError(f"it holds an object of {module}.{name}, which is not loaded")
        return self.makers[module, name]
