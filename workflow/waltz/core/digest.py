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
IGNORED_FIELDS = ("ctx", "kind", "type_ignores")
"""Fields of a syntax tree that follow from where a node stands, or mean nothing."""


def digest(script: str | Path, *modules: str) -> str:
    """Digest of a script and of every module of `waltz` that it imports, directly or not.

    Args:
        script: Path of a Python file.
        modules: Modules of `waltz` that it imports by a name that its code does not hold.
    Returns:
        16 hexadecimal digits.
    """
    return _compute_digest(Path(script).resolve(), modules)


def find_modules(script: Path, modules: Iterable[str] = ()) -> dict[str, Path]:
    """Files of the modules of the package that a file and some modules need, by name of the module."""
    found = _find_files(modules)
    waiting = [script, *found.values()]
    while waiting:
        new = {name: file for name, file in _find_imports(waiting.pop()).items() if name not in found}
        found.update(new)
        waiting.extend(new.values())
    return found


@functools.cache
def _compute_digest(script: Path, modules: tuple[str, ...]) -> str:
    total = hashlib.sha256(_parse(script)[0].encode())
    for name, file in sorted(find_modules(script, modules).items()):
        total.update(name.encode() + b"\0" + _parse(file)[0].encode())
    return total.hexdigest()[:16]


def _find_file(module: str) -> Path | None:
    """File of a module of the package, or None where the name is none (a function, a class)."""
    base = PACKAGE.joinpath(*module.split(".")[1:])
    package = base / "__init__.py"
    if package.is_file():
        return package
    plain = base.with_name(f"{base.name}.py")
    return plain if plain.is_file() else None


@functools.cache
def _find_imports(file: Path) -> dict[str, Path]:
    """Modules of the package that a file imports anywhere in it, with the packages they lie in."""
    return _find_files(_parse(file)[1])


def _find_files(names: Iterable[str]) -> dict[str, Path]:
    """Files of the modules that some names stand for or lie in, by name."""
    parts = [name.split(".") for name in names if name.split(".")[0] == PACKAGE.name]
    modules = {".".join(part[:length]) for part in parts for length in range(1, len(part) + 1)}
    return {module: found for module in modules if (found := _find_file(module))}


@functools.cache
def _parse(file: Path) -> tuple[str, frozenset[str]]:
    """Digest of a file's syntax and the names that it imports, in one look: this is most of Snakemake's start."""
    syntax: list[str] = []
    imported: set[str] = set()
    _visit(ast.parse(file.read_text(encoding="utf-8"), filename=str(file)), syntax, imported)
    return hashlib.sha256("\n".join(syntax).encode()).hexdigest(), frozenset(imported)


def _visit(node: ast.AST, syntax: list[str], imported: set[str]) -> None:
    """Add what a node says, unless it is a constant that stands alone, and what it imports."""
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
