"""Transfers from a device to the host, counted on a CPU."""

import sys
from typing import Any

from torch.overrides import TorchFunctionMode

TRANSFERS = ("tolist", "item", "cpu", "__bool__", "__int__", "__float__")


class CountTransfers(TorchFunctionMode):
    """Records the functions by which waltz's modules bring values to the host.

    Attributes:
        names: Names of the functions, in their order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        """Record a transfer, and call its function."""
        name = getattr(function, "__name__", "")
        # The frame that called the function of torch.
        caller = sys._getframe(1).f_code.co_filename
        if name in TRANSFERS and "/waltz/" in caller:
            self.names.append(name)
        return function(*arguments, **(options or {}))
