"""What a rule's code says, apart from comments, docstrings and formatting.

Snakemake sees a script's file time, not the modules it imports. Each rule carries
`params: code=digest("<script>")`, so that an edit reruns exactly the rules whose code it changes.
"""

import ast
import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

import waltz

PACKAGE = Path(waltz.__file__).parent


def digest(script: str | Path, *modules: str) -> str:
    """Digest of a script and of every module of `waltz` that it imports, directly or not.

    Args:
        script: Path of a Python file.
        modules: Modules of `waltz` that it imports by a name that its code does not hold.
    Returns:
        16 hexadecimal digits.
    """
    return _digest(Path(script).resolve(), modules)


def needed(script: Path, modules: Iterable[str] = ()) -> dict[str, Path]:
    """Files of the modules of the package that a file and some modules need, by name of the module."""
    found = _files(modules)
    waiting = [script, *found.values()]
    while waiting:
        new = {name: file for name, file in _imports(waiting.pop()).items() if name not in found}
        found.update(new)
        waiting.extend(new.values())
    return found


@functools.cache
def _digest(script: Path, modules: tuple[str, ...]) -> str:
    total = hashlib.sha256(_syntax(script).encode())
    for name, file in sorted(needed(script, modules).items()):
        total.update(name.encode() + b"\0" + _syntax(file).encode())
    return total.hexdigest()[:16]


def _file(module: str) -> Path | None:
    """File of a module of the package, or None where the name is none (a function, a class)."""
    base = PACKAGE.joinpath(*module.split(".")[1:])
    package = base / "__init__.py"
    if package.is_file():
        return package
    plain = base.with_name(f"{base.name}.py")
    return plain if plain.is_file() else None


@functools.cache
def _imports(file: Path) -> dict[str, Path]:
    """Modules of the package that a file imports anywhere in it, with the packages they lie in."""
    named: set[str] = set()
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.Import):
            named.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            named.add(node.module)
            named.update(f"{node.module}.{alias.name}" for alias in node.names)
    return _files(named)


def _files(names: Iterable[str]) -> dict[str, Path]:
    """Files of the modules that some names stand for or lie in, by name."""
    parts = [name.split(".") for name in names if name.split(".")[0] == PACKAGE.name]
    modules = {".".join(part[:length]) for part in parts for length in range(1, len(part) + 1)}
    return {module: found for module in modules if (found := _file(module))}


@functools.cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


@functools.cache
def _syntax(file: Path) -> str:
    tree = _tree(file)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [
                statement
                for statement in node.body
                if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
            ]
    return ast.dump(tree)
