"""Context of every script: a log file, a progress bar, readable errors."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

from waltz.core.errors import convert_to_user_error


@contextmanager
def log_job(log: str | Path) -> Iterator[None]:
    """Send log records and tracebacks to the rule's log file, and show one line on stderr if the block fails.

    A `UserError`, and an error of the operating system about space or permissions, is shown without a traceback. Any
    other exception is a fault of the program: its traceback goes to the log file, whose path is in the line.

    Raises:
        SystemExit: The block raised an exception; the status is 1.
    """
    path = Path(log)
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(path, mode="w", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
    try:
        yield
    except Exception as error:
        user_error = convert_to_user_error(error)
        if user_error is not None:
            logging.getLogger("waltz").error("%s", user_error)
            print(f"waltz: {user_error}", file=sys.stderr)
        else:
            logging.getLogger("waltz").exception("the job failed")
            print(f"waltz: {type(error).__name__}: {error} (traceback in {path})", file=sys.stderr)
        raise SystemExit(1) from None
    finally:
        root.removeHandler(handler)
        handler.close()


def show_progress(total: int, unit: str, label: str) -> "tqdm[Any]":
    """Return a progress bar with items per second, shown on terminals only; the caller calls `update(n)`."""
    return tqdm(total=total, unit=unit, desc=label, disable=None, leave=False)
