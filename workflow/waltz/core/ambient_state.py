"""Protection of a computation from settings of torch and numpy that the calling script may have
changed.
"""

import contextlib
import warnings
from collections.abc import Iterator

import numpy as np
import torch


@contextlib.contextmanager
def use_usual_settings() -> Iterator[None]:
    """Compute with float32 as default, on the CPU by default, with gradients and without autocast;
    then restore all.

    Warnings are off: functions report numbers that are not finite themselves, and a script may have
    turned the warnings of other packages into errors. Messages of waltz are log records and stay.
    """
    dtype, precision = torch.get_default_dtype(), torch.get_float32_matmul_precision()
    has_tf32 = torch.backends.cudnn.allow_tf32
    # Each change below is undone when the stack closes, also after an error.
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings(action="ignore"))
        stack.enter_context(np.errstate(all="ignore"))
        # The relevance of attention needs gradients, even if the caller has disabled them.
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.autograd.set_detect_anomaly(False))
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        if precision != "highest":
            # Only the precision "highest" multiplies float32 numbers with all their digits.
            # Others multiply float32 with the digits of bfloat16 or TF32.
            stack.callback(torch.set_float32_matmul_precision, precision)
            torch.set_float32_matmul_precision("highest")
        if has_tf32:
            # By default, convolutions such as patch embeddings multiply with the digits of TF32.
            stack.callback(setattr, torch.backends.cudnn, "allow_tf32", True)
            torch.backends.cudnn.allow_tf32 = False
        if dtype != torch.float32:
            stack.callback(torch.set_default_dtype, dtype)
            torch.set_default_dtype(torch.float32)
        yield
