"""Exceptions for mistakes that a user can correct, and suggestions for misspelled names."""

import difflib
import errno
import re
from collections.abc import Collection, Iterable

from waltz.core.redaction import hide_secrets

SYSTEM_ERRORS = {
    errno.ENOSPC: "no space is left; make room and run again",
    errno.EDQUOT: "the quota is used up; make room and run again",
    errno.EROFS: "the file system is read-only; make it writable and run again",
    errno.ENOTDIR: "a part of this path is a file, not a folder; correct the path, or the variable that holds it",
    errno.ENAMETOOLONG: "the name is too long; shorten it and run again",
    errno.EACCES: "permission denied; make it readable and writable and run again",
}
"""Message for each error number of the operating system that a user can correct."""


ADDRESS = re.compile("(?:https?|s3|gs|hf|file):/")
"""Pattern of the start of an address; a path object keeps one of its two slashes."""


class UserError(Exception):
    """Mistake that the user can correct: a bad file, a misspelled key, a missing download.

    Its message is one line that says what is wrong, where (file, id, field) and what to do. A job
    shows it without a traceback; every other exception is a fault of the program. Characters of ids
    and file names that are not printable are escaped, and secrets are hidden.
    """

    def __init__(self, message: object = "") -> None:
        """Create an error whose message holds no secret."""
        super().__init__(hide_secrets(str(message)))

    def __str__(self) -> str:
        """Return the message with escapes for unprintable characters."""
        escaped = ""
        for letter in super().__str__():
            if not letter.isprintable():
                letter = letter.encode("unicode_escape").decode("ascii")
            escaped += letter
        return escaped


class ItemError(UserError):
    """Mistake in one item: the study skips the item with this reason and continues with the others."""


CONTROL_TOKEN = "a text spells a control token of a model's tokenizer"
"""Reason why a benchmark under construction rejects an item; all such items have the same reason.
"""


class ArgumentError(UserError, ValueError):
    """Mistake in an argument of `waltz.Explainer`; it is also a ValueError, which Python callers
    expect.
    """


def convert_to_user_error(error: Exception) -> UserError | None:
    """Return an error as a UserError if the user can correct it; None if it is a fault of the
    program.
    """
    if isinstance(error, UserError):
        return error
    # Such as a full disk: the file and the remedy are all that helps.
    if isinstance(error, OSError) and error.errno in SYSTEM_ERRORS:
        return UserError(
            f"{error.filename or 'writing a file'}: {SYSTEM_ERRORS[error.errno]}"
        )
    return None


def get_first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its type if the message is empty."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


LONGEST_SHOWN = 80
"""Most characters of a value in a message."""


def shorten_value(value: str) -> str:
    """Return a value for a message; a long one is cut between two words if it has several."""
    if len(value) <= LONGEST_SHOWN:
        return value
    head = value[:LONGEST_SHOWN]
    return f"{head.rpartition(' ')[0] or head}…"


LEAST_LIKENESS = 0.5
"""Smallest likeness (0 to 1, `difflib`'s ratio of common letters) at which a name is suggested."""
LONGEST_LIST = 12
"""Largest number of names that a message lists."""


def find_closest(name: str, names: Iterable[str]) -> str:
    """Return the known name that is most like a misspelled name, or an empty text if no name is like
    it.

    Words that both names begin with do not count: `table_9_9` is not like `table_C_3`.
    """
    # Candidates by all letters, then compared without the words that both begin with.
    close = difflib.get_close_matches(name, list(names), n=5, cutoff=LEAST_LIKENESS)
    for candidate in close:
        if candidate != name and _compute_likeness(name, candidate) >= LEAST_LIKENESS:
            return candidate
    return ""


def _compute_likeness(name: str, candidate: str) -> float:
    """Return the likeness (0 to 1) of two names, compared without the words that both begin with."""
    # A word ends with a character that is neither letter nor digit, such as `table_`.
    words = re.split(r"(?<=[^0-9A-Za-z])", name)
    other_words = re.split(r"(?<=[^0-9A-Za-z])", candidate)
    while words and other_words and words[0] == other_words[0]:
        del words[0], other_words[0]
    return difflib.SequenceMatcher(None, "".join(words), "".join(other_words)).ratio()


def list_names(names: Iterable[str], conjunction: str = "or") -> str:
    """Return a list of names for a message; a long list has its first names and the number of
    further ones.
    """
    # Of many names, the first ones and the number of the others fit into one line.
    listed = list(names)
    if len(listed) > LONGEST_LIST:
        rest = len(listed) - LONGEST_LIST
        return f"{', '.join(listed[:LONGEST_LIST])} {conjunction} {rest} more"
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} {conjunction} {listed[-1]}"


def advise_on_missing_file(path: object) -> str:
    """Return what to do about a file that does not exist; an address is not fetched."""
    # An option of type path has the address without its second slash.
    if ADDRESS.match(str(path)):
        return "an address is not fetched: download the file and name it"
    return "check the path"


def build_name_error(
    location: str, kind: str, name: str, names: Iterable[str]
) -> UserError:
    """Return the error about an unknown name, which suggests the closest known name and lists the
    known names.

    Args:
        location: The option or key that holds the name.
        kind: Word for what the name denotes, such as `model`.
        name: The unknown name.
        names: The known names.
    """
    known = list(names)
    closest = find_closest(name, known)
    # A long list of names helps nobody who merely misspelled one of them.
    if closest and len(known) > LONGEST_LIST:
        return UserError(
            f"{location}: unknown {kind} (got {name!r}); did you mean {closest!r}?"
        )
    if closest:
        advice = f"did you mean {closest!r}?"
    elif len(known) > 1:
        advice = "choose one of these"
    else:
        advice = "leave it out"
    return UserError(
        f"{location}: unknown {kind} (got {name!r}, expected {list_names(known)}); {advice}"
    )


def check_name(location: str, kind: str, name: str, names: Collection[str]) -> None:
    """Refuse a name that is not among the known names; arguments as of `build_name_error`.

    Raises:
        UserError: The name is unknown.
    """
    if name not in names:
        raise build_name_error(location, kind, name, names)


def suggest_name(name: str, names: Iterable[str]) -> str:
    """Return a hint at the closest known name, or an empty text."""
    closest = find_closest(name, names)
    return f" (did you mean {closest!r}?)" if closest else ""


def suggest_or_list(name: str, names: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the closest known name, or a list of all
    known names.
    """
    known = list(names)
    hint = suggest_name(name, known)
    if hint:
        return hint
    if not known:
        return "; there are none"
    return f"; there are {list_names(known, 'and')}"
