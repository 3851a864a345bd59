"""Digest of the code of a rule, without comments, docstrings and formatting.

Snakemake sees the modification time of a script, not the modules that it imports. Each rule has
`params: code=digest("<script>")`, so that an edit reruns exactly the rules whose code it changes.
"""

import ast
import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

import waltz

PACKAGE = Path(waltz.__file__).parent
INFRASTRUCTURE = frozenset(
    {
        "waltz",  # the version
        "waltz.core.devices",
        "waltz.core.digest",
        "waltz.core.errors",
        "waltz.core.files.atomic",
        "waltz.core.files.content_checks",
        "waltz.core.files.downloads",
        "waltz.core.files.packages",
        "waltz.core.job_records",
        "waltz.core.run_lock",
    }
)
"""Modules that say how a job runs, and decide none of the values that it writes: they are in no digest."""
IGNORED_FIELDS = ("ctx", "kind", "type_ignores")
"""Fields of syntax tree nodes that carry no further information."""


@functools.cache
def digest(script: str | Path, *modules: str) -> str:
    """Return the digest of a script and of every module of `waltz` that it imports, directly or indirectly.

    Modules of the infrastructure do not count, so that a new fact in run records, or a new version, reruns nothing.

    Args:
        script: Path of a Python file.
        modules: Modules of `waltz` that it imports by computed names.
    Returns:
        16 hexadecimal digits.
    """
    total = hashlib.sha256(_parse(Path(script).resolve())[0].encode())
    for name, file in sorted(find_modules(Path(script).resolve(), modules).items()):
        total.update(name.encode() + b"\0" + _parse(file)[0].encode())
    return total.hexdigest()[:16]


def find_modules(script: Path, modules: Iterable[str] = ()) -> dict[str, Path]:
    """Return the files of the modules of the package that a script and some modules import, by module name."""
    files = _find_files(modules)
    unvisited = [script, *files.values()]
    while unvisited:
        new = {name: file for name, file in _find_imports(unvisited.pop()).items() if name not in files}
        files.update(new)
        unvisited.extend(new.values())
    return files


def find_file(module: str) -> Path | None:
    """Return the file of a module of the package, or None if the name is a function or a class."""
    base = PACKAGE.joinpath(*module.split(".")[1:])
    package = base / "__init__.py"
    if package.is_file():
        return package
    plain = base.with_name(f"{base.name}.py")
    return plain if plain.is_file() else None


@functools.cache
def _find_imports(file: Path) -> dict[str, Path]:
    """Return the modules of the package that a file imports anywhere, with the packages that contain them."""
    return _find_files(_parse(file)[1])


def _find_files(names: Iterable[str]) -> dict[str, Path]:
    """Return the files of the modules that imported names denote or belong to, by module name."""
    parts = [name.split(".") for name in names if name.split(".")[0] == PACKAGE.name]
    modules = {".".join(part[:length]) for part in parts for length in range(1, len(part) + 1)}
    return {module: file for module in modules - INFRASTRUCTURE if (file := find_file(module))}


@functools.cache
def _parse(file: Path) -> tuple[str, frozenset[str]]:
    """Return the digest of a file's syntax and the names that it imports.

    One pass over the tree gives both, because parsing is most of the time that Snakemake needs to start.
    """
    syntax: list[str] = []
    imported: set[str] = set()
    _visit(ast.parse(file.read_text(encoding="utf-8"), filename=str(file)), syntax, imported)
    return hashlib.sha256("\n".join(syntax).encode()).hexdigest(), frozenset(imported)


def _visit(node: ast.AST, syntax: list[str], imported: set[str]) -> None:
    """Add the content of a node, except for docstrings, to `syntax`, and the names that it imports to `imported`."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Import):
        imported.update(alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        imported.add(node.module)
        imported.update(f"{node.module}.{alias.name}" for alias in node.names)
    syntax.append(f"{type(node).__name__}(")
    for field in node._fields:
        if field in IGNORED_FIELDS:
            continue
        value = getattr(node, field)
        syntax.append(field)
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                _visit(part, syntax, imported)
            else:
                syntax.append(repr(part))
    syntax.append(")")
