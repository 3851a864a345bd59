"""What every script runs in: a log file, a progress bar, errors that a user can read."""

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
    """Send log records and tracebacks to the rule's log file; print one line where it fails.

    A `UserError` is printed as it is, without a traceback anywhere, and so is what the system refuses for want of space
    or rights. Any other exception is a fault of the program: its traceback goes to the log file, and the line printed
    says where that is.

    Raises:
        SystemExit: With status 1, whenever the block raised.
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
        told = convert_to_user_error(error)
        if told is not None:
            logging.getLogger("waltz").error("%s", told)
            print(f"waltz: {told}", file=sys.stderr)
        else:
            logging.getLogger("waltz").exception("the job failed")
            print(f"waltz: {type(error).__name__}: {error} (traceback in {path})", file=sys.stderr)
        raise SystemExit(1) from None
    finally:
        root.removeHandler(handler)
        handler.close()


def show_progress(total: int, unit: str, label: str) -> "tqdm[Any]":
    """A bar with items per second, shown on a terminal only; the caller says `update(n)`."""
    return tqdm(total=total, unit=unit, desc=label, disable=None, leave=False)
