"""The one exception that is the user's to mend."""


class UserError(Exception):
    """Something the user can mend: a bad file, a misspelt key, a missing download.

    Its message is one line that says what is wrong, where (file, id, field) and what to do. A job
    prints it without a traceback; every other exception is a fault of the program and keeps its own.
    """
