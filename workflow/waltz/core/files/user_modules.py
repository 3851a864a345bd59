"""Python modules of users, which a study names: in a folder, by default the working directory, or
installed.
"""

import contextlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from waltz.core.errors import UserError, get_first_line

FUNCTION_NAME = re.compile(r"(.*/)?[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
"""Pattern of `module:name`, or of `folder/module:name`."""


@contextlib.contextmanager
def search_folder(name: str) -> Iterator[str]:
    """Let imports in a block find modules in the folder of a name first, and yield the module of the
    name.

    Args:
        name: A name `module:name` or `folder/module:name`.
    """
    folder_name, _, module = name.partition(":")[0].rpartition("/")
    folder = str(Path.cwd() / folder_name)
    sys.path.insert(0, folder)
    try:
        yield module
    finally:
        sys.path.remove(folder)


def find_module_file(name: str) -> Path:
    """Return the file of the module of a name `module:name` or `folder/module:name`; the module
    itself is not run.

    Raises:
        UserError: There is no such module, or it has no file.
    """
    fault = "there is no such module"
    origin = None
    try:
        with search_folder(name) as module:
            spec = importlib.util.find_spec(module)
    except Exception as error:  # the package of a module is run, and can raise anything
        fault = get_first_line(error)
        spec = None
    if spec is not None:
        origin = spec.origin
    if origin is None or not Path(origin).is_file():
        raise UserError(
            f"{name}: {fault}; write module:function, of a module in {Path.cwd()} or of an installed package, or"
            " folder/module:function"
        )
    return Path(origin)
