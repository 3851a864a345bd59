"""Pickles of NumPy arrays, read without NumPy's own constructors, which trust the file.

A forged dtype makes NumPy take bytes of the file for pointers, and `ndarray(shape, dtype)` shows
uninitialized memory. The stand-ins below record what the file states, and check it before an array
is created.
"""

import io
import math
import pickle
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

NUMBER_TYPES = ("b1", "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
"""Types of scalars and arrays, as pickles of NumPy name them."""
BYTE_ORDERS = ("=", "|", "<" if sys.byteorder == "little" else ">")
"""Byte orders that this machine computes in."""
PLAIN_STATE = (None, None, None, -1, -1, 0)
"""State of a dtype without fields, after its byte order: no subarray, names, fields, special size
or flags.
"""
MAX_AXES = 32
MAX_LENGTH = 2**48
"""Above every length of an axis; a product of larger numbers would take long."""
KEY_TYPES = (str, bytes, int, float)
"""Types of the keys of mappings. A tuple may hold itself many times over, so that its hash would
take for ever.
"""


class StoredType:
    """Stand-in of `numpy.dtype`: a type of numbers in this machine's byte order."""

    def __init__(self, name: Any, *_: Any) -> None:
        """Record the type.

        Raises:
            pickle.UnpicklingError: It is none of `NUMBER_TYPES`.
        """
        if not isinstance(name, str):
            raise pickle.UnpicklingError("an array is not an array of numbers")
        if name not in NUMBER_TYPES:
            raise pickle.UnpicklingError(
                f"an array of {name[:20]!r} is not an array of numbers"
            )
        self.dtype = np.dtype(name)

    def __setstate__(self, state: Any) -> None:
        """Check the state of a dtype, which numbers do not need.

        Raises:
            pickle.UnpicklingError: The dtype is not a type of numbers in this machine's byte order.
        """
        # The first entry is the version of the state.
        _, order, *rest = state
        if order not in BYTE_ORDERS or tuple(rest) != PLAIN_STATE:
            raise pickle.UnpicklingError(
                f"an array of {self.dtype.name} in another byte order, or with a forged dtype"
            )


class StoredArray:
    """Stand-in of `numpy.ndarray`: an array whose values are copied from the file when all are
    known to be there.
    """

    def __init__(self) -> None:
        """Create an array without values."""
        self.dtype = np.dtype("f4")
        self.shape: tuple[int, ...] = ()
        self.order = "C"
        self.data: bytes | str | None = None

    def __setstate__(self, state: Any) -> None:
        """Record the version, shape, type, order and values of an array.

        Raises:
            pickle.UnpicklingError: The values are not exactly those of the shape and type.
        """
        # The first entry is the version of the state.
        _, shape, stored_type, is_fortran, data = state
        if not isinstance(stored_type, StoredType):
            raise pickle.UnpicklingError("an array whose type is of another kind")
        if not isinstance(shape, tuple):
            raise pickle.UnpicklingError("an array whose shape is of another kind")
        if not isinstance(data, bytes | str):
            raise pickle.UnpicklingError("an array whose values are of another kind")
        if len(shape) > MAX_AXES or not all(map(_is_length, shape)):
            raise pickle.UnpicklingError("an array with an invalid shape")
        # Compared before an array is created: a forged shape would allocate any memory.
        size = math.prod(shape) * stored_type.dtype.itemsize
        if size != len(data):
            raise pickle.UnpicklingError(f"an array of {size} bytes has {len(data)}")
        self.dtype, self.shape, self.data = stored_type.dtype, shape, data
        self.order = "F" if is_fortran else "C"

    @property
    def size(self) -> int:
        """Bytes of the values.

        Raises:
            pickle.UnpicklingError: The file states none.
        """
        if self.data is None:
            raise pickle.UnpicklingError("an array without values")
        return len(self.data)

    def build_array(self) -> np.ndarray:
        """Return a copy of the values as an array.

        Raises:
            pickle.UnpicklingError: The file states none.
            UnicodeEncodeError: The values are not bytes.
        """
        if self.data is None:
            raise pickle.UnpicklingError("an array without values")
        values = self.data
        if isinstance(values, str):  # as protocol 2 stores bytes
            values = values.encode("latin-1")
        return np.ndarray(
            self.shape,
            self.dtype,
            bytearray(values),
            order="F" if self.order == "F" else "C",
        )


def _is_length(length: Any) -> bool:
    """Return whether a value can be the length of an axis; a boolean or a subclass of int cannot."""
    return type(length) is int and 0 <= length < MAX_LENGTH


def _refuse_call(*_: Any) -> None:
    """Stand in for `numpy.ndarray`, which is named in pickles but called only by forged ones."""
    raise pickle.UnpicklingError("an array without values")


def _reconstruct(array_type: Any, shape: Any, code: Any) -> StoredArray:
    """Return an array whose state follows in the file."""
    if array_type is not _refuse_call:
        raise pickle.UnpicklingError("an array of an unknown class")
    return StoredArray()


def read_scalar(stored_type: Any, data: Any) -> StoredArray:
    """Return a NumPy scalar as an array without axes."""
    return _read_buffer(data, stored_type, (), "C")


def _read_buffer(
    data: Any, stored_type: Any, shape: Any, order: Any, axes: Any = None
) -> StoredArray:
    """Return an array as protocol 5 stores it."""
    if axes is not None:
        raise pickle.UnpicklingError("an array with permuted axes")
    stored = StoredArray()
    stored.__setstate__((1, shape, stored_type, order == "F", data))
    return stored


def _keep_text(text: Any, encoding: Any) -> str:
    """Return bytes as Python 2's protocol encodes them, one letter for each; each call of a codec
    would copy them.
    """
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError("bytes in another encoding than latin1")
    return text


def _build_mapping(pairs: Iterable[Any] = ()) -> dict[Any, Any]:
    """Return a mapping of pairs whose keys are plain."""
    mapping = {}
    for key, value in pairs:
        if not isinstance(key, KEY_TYPES):
            raise pickle.UnpicklingError("a key that is not a text or number")
        mapping[key] = value
    return mapping


CONSTRUCTORS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): _refuse_call,
    ("numpy", "dtype"): StoredType,
    ("collections", "OrderedDict"): _build_mapping,
    ("_codecs", "encode"): _keep_text,
    **{
        (f"{core}.multiarray", "_reconstruct"): _reconstruct
        for core in ("numpy.core", "numpy._core")
    },
    **{
        (f"{core}.multiarray", "scalar"): read_scalar
        for core in ("numpy.core", "numpy._core")
    },
    **{
        (f"{core}.numeric", "_frombuffer"): _read_buffer
        for core in ("numpy.core", "numpy._core")
    },
}
"""Stand-ins of the constructors of arrays, by their names in pickles of old and new NumPy."""

READ_OPCODES = (
    *(
        pickle.PROTO,
        pickle.FRAME,
        pickle.STOP,
        pickle.MARK,
        pickle.POP,
        pickle.POP_MARK,
        pickle.GLOBAL,
    ),
    *(
        pickle.STACK_GLOBAL,
        pickle.REDUCE,
        pickle.PUT,
        pickle.BINPUT,
        pickle.LONG_BINPUT,
        pickle.MEMOIZE,
    ),
    *(
        pickle.GET,
        pickle.BINGET,
        pickle.LONG_BINGET,
        pickle.NONE,
        pickle.NEWTRUE,
        pickle.NEWFALSE,
        pickle.INT,
    ),
    *(
        pickle.BININT,
        pickle.BININT1,
        pickle.BININT2,
        pickle.LONG,
        pickle.LONG1,
        pickle.LONG4,
        pickle.FLOAT,
    ),
    *(
        pickle.BINFLOAT,
        pickle.STRING,
        pickle.BINSTRING,
        pickle.SHORT_BINSTRING,
        pickle.UNICODE,
        pickle.BINUNICODE,
    ),
    *(
        pickle.SHORT_BINUNICODE,
        pickle.BINUNICODE8,
        pickle.BINBYTES,
        pickle.SHORT_BINBYTES,
        pickle.BINBYTES8,
    ),
    *(pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3),
    *(pickle.EMPTY_LIST, pickle.LIST, pickle.APPEND, pickle.APPENDS, pickle.EMPTY_DICT),
)
"""Operations of pickles of plain values and arrays that Python's own implementation reads without
harm.
"""


class _Operations(dict[int, Callable[..., None]]):
    """Operations of pickles by their codes; another code is an error that names it."""

    def __missing__(self, code: int) -> Callable[..., None]:
        raise pickle.UnpicklingError(
            f"the operation {bytes([code])!r} of pickles is not among those of arrays"
        )


class _ArrayUnpickler(pickle._Unpickler):
    """An unpickler of plain values and stand-ins of arrays that refuses everything else.

    It extends the implementation of `pickle` in Python: the one in C allocates as much memory as a
    number in the file says.
    """

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in of a constructor of arrays."""
        if (module, name) not in CONSTRUCTORS:
            raise pickle.UnpicklingError(
                f"it holds an object of {module}.{name}, which is not loaded"
            )
        return CONSTRUCTORS[module, name]

    def load_byte_array(self: Any) -> None:
        """Read a byte array without allocating more bytes than there are."""
        # `read` returns at most the bytes that the file has.
        (size,) = struct.unpack("<Q", self.read(8))
        self.append(self.read(size))

    def load_state(self: Any) -> None:
        """Give a stand-in its state."""
        state = self.stack.pop()
        # Python's implementation would set attributes of any object.
        if not isinstance(self.stack[-1], StoredType | StoredArray):
            raise pickle.UnpicklingError("an object with a state")
        self.stack[-1].__setstate__(state)

    def load_mapping(self: Any) -> None:
        """Create a mapping of the values since the last mark."""
        values = self.pop_mark()
        self.append({})
        _update(self.stack[-1], values)

    def load_item(self: Any) -> None:
        """Add a pair to a mapping."""
        value, key = self.stack.pop(), self.stack.pop()
        _update(self.stack[-1], [key, value])

    def load_items(self: Any) -> None:
        """Add the pairs since the last mark to a mapping."""
        values = self.pop_mark()
        _update(self.stack[-1], values)

    dispatch = _Operations(
        {
            **{
                opcode[0]: pickle._Unpickler.dispatch[opcode[0]]
                for opcode in READ_OPCODES
            },
            pickle.BYTEARRAY8[0]: load_byte_array,
            pickle.BUILD[0]: load_state,
            pickle.DICT[0]: load_mapping,
            pickle.SETITEM[0]: load_item,
            pickle.SETITEMS[0]: load_items,
        }
    )


def _update(mapping: Any, values: list[Any]) -> None:
    """Add keys and values, in turn, to a mapping."""
    if type(mapping) is not dict:
        raise pickle.UnpicklingError("items of something that is not a mapping")
    mapping.update(_build_mapping(zip(values[::2], values[1::2], strict=True)))


def read_array_pickle(file: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a pickle by key; a `model` level around them is removed, and plain
    values are skipped.

    Args:
        file: Pickle of a mapping of names to arrays of numbers in this machine's byte order.
    Returns:
        Copies of the values. Arrays that the file holds once are one array here, too.
    Raises:
        OSError: The file cannot be read.
        Exception: Any other, as a hostile file can raise any, if it is truncated, is not a pickle, or
            holds anything else.
    """
    content = _ArrayUnpickler(io.BytesIO(file.read_bytes()), encoding="latin1").load()
    # Some releases keep the weights one level below.
    if isinstance(content, Mapping) and isinstance(content.get("model"), Mapping):
        content = content["model"]
    if not isinstance(content, Mapping):
        return {}
    stored = {
        str(key): value
        for key, value in content.items()
        if isinstance(value, StoredArray)
    }
    for key, array in stored.items():
        if array.dtype.kind == "b":
            raise pickle.UnpicklingError(f"{key} is not an array of numbers")

    # A file may hold an array once under several keys. Their sizes are bounded by the file before
    # any is created.
    distinct = {id(array): array for array in stored.values()}
    if sum(array.size for array in distinct.values()) > file.stat().st_size:
        raise pickle.UnpicklingError(
            "its arrays share their values, and are larger than the file"
        )
    arrays = {number: array.build_array() for number, array in distinct.items()}
    return {key: arrays[id(array)] for key, array in stored.items()}
