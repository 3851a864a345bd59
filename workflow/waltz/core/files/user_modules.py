"""Python modules of users, which a study names: in the working directory, or installed."""

import contextlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from waltz.core.errors import UserError, get_first_line

FUNCTION_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
"""Pattern of `module:name`."""


@contextlib.contextmanager
def search_working_directory() -> Iterator[None]:
    """Let imports in a block find modules in the working directory first."""
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def find_module_file(name: str) -> Path:
    """Return the file of the module of a name `module:name`; the module itself is not run.

    Raises:
        UserError: There is no such module, or it has no file.
    """
    module = name.partition(":")[0]
    fault = "there is no such module"
    origin = None
    try:
        with search_working_directory():
            spec = importlib.util.find_spec(module)
    except Exception as error:  # the package of a module is run, and can raise anything
        fault = get_first_line(error)
        spec = None
    if spec is not None:
        origin = spec.origin
    if origin is None or not Path(origin).is_file():
        raise UserError(
            f"{name}: {fault}; write module:function, of a module in {Path.cwd()} or of an installed package"
        )
    return Path(origin)
