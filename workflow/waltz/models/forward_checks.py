"""Checks of a faster way to read a network against the network's own forward pass.

Rounding in half precision can be as large as what a wrong pass changes. So both passes are computed
in float32, operation by operation, whatever the weights are in. In the network's own precision, the
faster pass may be about as inexact as the own pass.
"""

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from waltz.core.errors import get_first_line

Value = TypeVar("Value")
FORWARD_ERRORS = (
    TypeError,
    ValueError,
    RuntimeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    StopIteration,
)
"""Errors of a forward pass that is called in a way that it does not know."""
TOLERANCE = 0.002
"""Highest difference in float32, as a share of the spread of the logits, that counts as equal. The
30 layers of SmolLM2-135M differed by 0.0002 on a CPU.
"""
ROUNDING_RATIO = 4.0
"""In half precision, the error of a faster pass is at most this multiple of the own pass's error:
two passes of equal precision round differently.
"""
HALF_PRECISION = frozenset({torch.float16, torch.bfloat16})
EMBEDDINGS = frozenset({torch.nn.functional.embedding, torch.embedding})
"""Functions that look up rows of a matrix."""
UNEXPECTED_NAME = re.compile(
    r"(?:unexpected keyword argument|multiple values for (?:keyword )?argument) '(\w+)'"
)
"""How Python refuses an argument."""
LENGTH_NAMES = ("window", "chunk", "original_max_position")
"""Parts of the names of settings at whose value a network's attention or positions change."""
LONGEST_PROBE = 2048
"""Highest of these values that test rows exceed."""
MAX_LOGIT_BYTES = 2**28
"""Maximum size of the logits of one test row."""
LATER_TOKENS_SEEN = (
    "its tokens see those behind them; only causal networks can be explained"
)
"""Why a network cannot be explained."""
MIN_COMPARED = 12
"""Minimum number of positions whose logits are compared."""
MASKED_LOGIT = 6e4
"""Logits of at least this magnitude stand for tokens that a network forbids."""


class Float32Mode(TorchFunctionMode):
    """Computes in float32 every operation whose tensors are in half precision; the weights keep
    theirs.
    """

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run one operation."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        # Attributes are read through the same hook as operations.
        if name == "__get__":  # an attribute of a tensor, such as its shape
            value = func(*args, **kwargs)
            is_dtype = func.__self__.__name__ == "dtype"
            return _widen(value) if is_dtype else value
        # A few rows of a large matrix, which is not widened itself.
        if func in EMBEDDINGS:
            return func(*args, **kwargs).float()
        if (
            _is_in_place(name)
            and isinstance(args[0], torch.Tensor)
            and args[0].dtype in HALF_PRECISION
        ):
            raise RuntimeError(f"{name} writes into a tensor in half precision")
        widened = {name: _widen(value) for name, value in kwargs.items()}
        return func(*map(_widen, args), **widened)


def _is_in_place(name: str) -> bool:
    """Return whether an operation of this name writes into its first argument, as `add_` and
    `__setitem__` do.
    """
    if name == "__setitem__":
        return True
    return name.endswith("_") and not name.endswith("__")


def _widen(value: Any) -> Any:
    """Return a tensor or a dtype of half precision in float32, also inside lists, tuples and dictionaries, and any
    other value unchanged.
    """
    if isinstance(value, torch.Tensor):
        if value.dtype in HALF_PRECISION:
            return value.float()
    elif isinstance(value, torch.dtype):
        if value in HALF_PRECISION:
            return torch.float32
    elif isinstance(value, list | tuple | dict):
        return tree_map(_widen, value)
    return value


def is_half_precision(model: Any) -> bool:
    """Return whether a network has weights in half precision, or computes in it with weights in 4
    bits.
    """
    if model.dtype in HALF_PRECISION:
        return True
    return any(weight.dtype in HALF_PRECISION for weight in model.parameters())


@dataclass(frozen=True, eq=False)
class Reference:
    """Logits of test rows by the network's own forward pass, each row alone.

    Attributes:
        logits: In float32, in any shape whose last axis is the vocabulary; in the network's own
            precision if it does not compute in float32.
        rounding: In half precision, the difference of the network's own pass from `logits`; None if
            the network has float32, or does not compute in it.
        fault: Why the network does not compute in float32; empty if it does.
    """

    logits: torch.Tensor
    rounding: float | None
    fault: str = ""

    def find_fault(self, read: Callable[[], torch.Tensor]) -> str:
        """Return why a faster way to read the rows gives other logits; empty if it does not.

        Args:
            read: Returns the logits of the rows, of the same shape.
        Raises:
            torch.OutOfMemoryError: The device has no room.
        """
        # First in float32, where any difference is the pass's; then in the precision that is used.
        fault = self.find_exact_fault(read)
        if fault or self.rounding is None:
            return fault
        return _find_difference(
            read, self.logits, TOLERANCE + ROUNDING_RATIO * self.rounding
        )

    def find_exact_fault(self, read: Callable[[], torch.Tensor]) -> str:
        """Return why a faster way to read the rows gives other logits in float32; see `find_fault`.

        If the network does not compute in float32, no difference beyond that tolerance is accepted
        in the network's precision either.
        """
        with self._compute_exactly():
            fault = _find_difference(read, self.logits, TOLERANCE)
        if fault and self.fault:
            return f"{fault}, and cannot be compared in float32: {self.fault}"
        return fault

    def is_changed(self, read: Callable[[], torch.Tensor]) -> bool:
        """Return whether logits differ by more than rounding in float32; False if a logit is NaN."""
        with self._compute_exactly():
            return measure_difference(read(), self.logits) > TOLERANCE

    def _compute_exactly(self) -> contextlib.AbstractContextManager[Any]:
        if self.rounding is None:
            return contextlib.nullcontext()
        return Float32Mode()


def compute_reference(model: Any, read: Callable[[], torch.Tensor]) -> Reference:
    """Return the logits of test rows by the network's own forward pass.

    Args:
        model: The network.
        read: Returns the logits.
    """
    # In the network's precision.
    rounded = read()
    if not is_half_precision(model):
        return Reference(rounded, None)
    try:
        with Float32Mode():
            logits = read()
    except FORWARD_ERRORS as error:
        # Kernels that know half precision only, or too little memory.
        return Reference(rounded, None, get_first_line(error))
    return Reference(logits, measure_difference(rounded, logits))


def measure_difference(logits: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the highest difference of logits from the expected logits, as a share of the expected
    logits' spread.

    The spread is their standard deviation. Tokens that the network forbids do not count. NaN if a
    logit is NaN.

    Raises:
        ValueError: Their shapes differ.
    """
    if logits.shape != expected.shape:
        raise ValueError(
            f"its logits have shape {tuple(logits.shape)} (expected {tuple(expected.shape)})"
        )
    # A forbidden token has a huge negative logit, which would hide all differences.
    is_forbidden = expected.abs() >= MASKED_LOGIT  # false for NaN, which stays
    # Most networks forbid no token, and a selection from a large tensor takes long.
    if is_forbidden.any():
        logits, expected = logits[~is_forbidden], expected[~is_forbidden]
    expected = expected.float()
    difference = (logits.float() - expected).abs().max()
    return float(difference / expected.std())


def _find_difference(
    read: Callable[[], torch.Tensor], expected: torch.Tensor, allowed: float
) -> str:
    """Return why logits differ from the expected ones by more than an allowed share; empty if they
    do not.
    """
    try:
        difference = measure_difference(read(), expected)
    except torch.OutOfMemoryError:  # a RuntimeError that does not depend on the model
        raise
    except FORWARD_ERRORS as error:
        return get_first_line(error) or type(error).__name__
    if difference <= allowed:
        return ""
    return f"logits differ by {difference:.2g} of their spread"  # also for NaN


def find_lengths(config: Any) -> list[int]:
    """Return the lengths at which a network may read differently, such as of its sliding windows,
    in order.
    """
    return sorted(set(_list_lengths(config.get_text_config(decoder=True).to_dict())))


def _list_lengths(settings: Mapping[str, object]) -> Iterator[int]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _list_lengths(value)
        elif type(value) is int and value > 1 and _is_length(str(name)):
            yield value


def _is_length(name: str) -> bool:
    return any(part in name for part in LENGTH_NAMES)


def choose_probe_length(config: Any, short: int, window: int) -> int:
    """Return the number of tokens of a test row that exceeds all lengths at which the network reads
    differently.

    Args:
        short: Minimum number of tokens.
        window: Maximum number of positions.
    """
    lengths = [length for length in find_lengths(config) if length <= LONGEST_PROBE]
    # `short` tokens beyond the highest of these lengths.
    return min(window, max(lengths, default=0) + short)


def find_checked_length(config: Any) -> int | None:
    """Return the length up to which a test speaks for all rows; None without a limit."""
    for length in find_lengths(config):
        if length > LONGEST_PROBE:
            return length
    return None


def select_entries(
    values: Mapping[str, Value], names: Collection[str]
) -> dict[str, Value]:
    """Return the entries of a mapping whose keys are among some names."""
    return {name: value for name, value in values.items() if name in names}


def call_with_accepted(
    function: Callable[..., Any], inputs: Mapping[str, object]
) -> tuple[Any, frozenset[str]]:
    """Call a function of another package with the arguments that it does not refuse as unknown.

    Returns:
        Its result, and the names of the arguments.
    """
    names = frozenset(inputs)
    while True:
        try:
            return function(**select_entries(inputs, names)), names
        except TypeError as error:
            unexpected = UNEXPECTED_NAME.search(str(error))
            if unexpected is None or unexpected[1] not in names:
                raise
            # Tried again without it.
            names -= {unexpected[1]}


def draw_probe_ids(vocabulary_size: int, count: int) -> torch.Tensor:
    """Return ids from the middle of a vocabulary, as special tokens are at its ends: int64 of shape
    (count,).
    """
    generator = torch.Generator().manual_seed(0)
    # The middle half of the vocabulary.
    quarter = vocabulary_size // 4
    return quarter + torch.randint(
        max(1, vocabulary_size - 2 * quarter), (count,), generator=generator
    )


def count_compared(length: int, vocabulary_size: int) -> int:
    """Return the number of last positions of a test row whose logits are compared: all if they take
    few bytes.
    """
    return min(length, max(MIN_COMPARED, MAX_LOGIT_BYTES // (4 * vocabulary_size)))


def read_alone(
    model: Any, argument_names: frozenset[str], ids: torch.Tensor, count: int
) -> torch.Tensor:
    """Return the last `count` logits of rows of text by the network's own forward pass, each row
    alone.
    """
    options = {"logits_to_keep": count, "use_cache": False}
    # Networks of remote code know fewer arguments.
    accepted = select_entries(options, argument_names)
    return torch.cat(
        [model(input_ids=row[None], **accepted).logits[:, -count:] for row in ids]
    )


def sees_last_token(
    model: Any, ids: torch.Tensor, read: Callable[[torch.Tensor], torch.Tensor]
) -> bool:
    """Return whether a network's logits before the last token of a row depend on that token.

    Both rows have one length, so that kernels round alike.

    Args:
        ids: int64 of shape (1, positions), not all of them equal.
        read: Returns the logits of all positions of a row by the network's own forward pass.
    """
    last_id = ids[0, -1]
    # Only the last token differs: a causal network gives the same logits before it.
    changed_ids = ids.clone()
    # The nearest other token, which is not a placeholder of an image.
    changed_ids[0, -1] = ids[ids != last_id][-1]
    reference = compute_reference(model, lambda: read(ids)[:, :-1])
    return reference.is_changed(lambda: read(changed_ids)[:, :-1])
