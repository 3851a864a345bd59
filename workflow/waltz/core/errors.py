"""The one exception that is the user's to mend."""

import errno

SYSTEM_ERRORS = {
    errno.ENOSPC: "no space is left; make room and run again",
    errno.EDQUOT: "the quota is used up; make room and run again",
    errno.EROFS: "the file system is read-only; make it writable and run again",
    errno.EACCES: "permission denied; make it readable and writable and run again",
}
"""What the system refuses and a user can mend, by the error's number."""


class UserError(Exception):
    """Something the user can mend: a bad file, a misspelt key, a missing download.

    Its message is one line that says what is wrong, where (file, id, field) and what to do. A job
    prints it without a traceback; every other exception is a fault of the program and keeps its own.
    What an id or a file name holds beside printable characters stands in it as an escape.
    """

    def __str__(self) -> str:
        """The message."""
        return "".join(
            letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
            for letter in super().__str__()
        )


def convert_to_user_error(error: Exception) -> UserError | None:
    """The error where it is the user's to mend, those of the system among them; None for a fault of the program."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, OSError) and error.errno in SYSTEM_ERRORS:
        return UserError(f"{error.filename or 'writing a file'}: {SYSTEM_ERRORS[error.errno]}")
    return None
