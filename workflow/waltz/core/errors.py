"""The exception for mistakes that a user can correct, and hints at the name that was meant."""

import difflib
import errno
from collections.abc import Iterable

SYSTEM_ERRORS = {
    errno.ENOSPC: "no space is left; make room and run again",
    errno.EDQUOT: "the quota is used up; make room and run again",
    errno.EROFS: "the file system is read-only; make it writable and run again",
    errno.EACCES: "permission denied; make it readable and writable and run again",
}
"""Message for each error number of the operating system that a user can correct."""


class UserError(Exception):
    """Mistake that the user can correct: a bad file, a misspelt key, a missing download.

    Its message is one line that says what is wrong, where (file, id, field) and what to do. A job shows it without a
    traceback; every other exception is a fault of the program. Characters of ids and file names that are not
    printable are escaped.
    """

    def __str__(self) -> str:
        """Return the message with escapes for unprintable characters."""
        return "".join(
            letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
            for letter in super().__str__()
        )


class ArgumentError(UserError, ValueError):
    """A mistake in an argument of `waltz.Explainer`, for callers that expect a ValueError."""


def convert_to_user_error(error: Exception) -> UserError | None:
    """Return the error as a UserError if the user can correct it, else None (a fault of the program)."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, OSError) and error.errno in SYSTEM_ERRORS:
        return UserError(f"{error.filename or 'writing a file'}: {SYSTEM_ERRORS[error.errno]}")
    return None


def get_first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its type where it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def find_closest(name: str, names: Iterable[str]) -> str:
    """Return the name most like a misspelt one, or an empty text if none is."""
    close = [match for match in difflib.get_close_matches(name, list(names), n=2, cutoff=0.5) if match != name]
    return close[0] if close else ""


def build_name_error(place: str, kind: str, name: str, names: Iterable[str]) -> UserError:
    """Return the error about a name that is none of the known ones.

    Args:
        place: The option or key that holds the name.
        kind: What is named.
    """
    *others, last = list(names)
    known = f"{', '.join(others)} or {last}" if others else last
    closest = find_closest(name, [*others, last])
    advice = f"did you mean {closest!r}?" if closest else "choose one of these" if others else "leave it out"
    return UserError(f"{place}: unknown {kind} (got {name!r}, expected {known}); {advice}")


def suggest_name(name: str, names: Iterable[str]) -> str:
    """Return a hint at the closest known name, or an empty text."""
    closest = find_closest(name, names)
    return f" (did you mean {closest!r}?)" if closest else ""
