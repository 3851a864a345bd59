"""Digest of the code of a rule, without comments, docstrings and formatting.

Snakemake sees the modification time of a script, not the modules that it imports. Each rule has
`params: code=digest("<script>")`, so that an edit reruns exactly the rules whose code it changes.
"""

import ast
import functools
import hashlib
import itertools
import json
from collections.abc import Iterable
from pathlib import Path

import yaml

import waltz

PACKAGE = Path(waltz.__file__).parent
"""Folder of the package waltz."""
INFRASTRUCTURE = frozenset(
    {
        "waltz",  # the version
        "waltz.core.digest",
        "waltz.core.downloads.checksums",
        "waltz.core.downloads.content_checks",
        "waltz.core.downloads.http_limits",
        "waltz.core.downloads.lock_file",
        "waltz.core.downloads.transfer",
        "waltz.core.downloads.urls",
        "waltz.core.errors",
        "waltz.core.files.atomic",
        "waltz.core.files.packages",
        "waltz.core.jobs.devices",
        "waltz.core.jobs.records",
        "waltz.core.jobs.run_lock",
    }
)
"""Modules that decide how a job runs, but no value that it writes; no digest contains them."""
IGNORED_FIELDS = ("ctx", "kind", "type_ignores")
"""Fields of syntax tree nodes that carry no further information."""


@functools.cache
def digest(script: str | Path, *modules: str) -> str:
    """Return the digest of a script and of every module of `waltz` that it imports, directly or
    indirectly.

    Modules of the infrastructure do not count, so that a new fact in run records, or a new version,
    reruns nothing.

    Args:
        script: Path of a Python file.
        modules: Modules of `waltz` that it imports by computed names.
    Returns:
        16 hexadecimal digits.
    """
    file = Path(script).resolve()
    script_syntax, _ = _parse(file)
    # The names of modules count as well, in a fixed order.
    total = hashlib.sha256(script_syntax.encode())
    for name, module_file in sorted(find_modules(file, modules).items()):
        module_syntax, _ = _parse(module_file)
        total.update(name.encode() + b"\0" + module_syntax.encode())
    return total.hexdigest()[:16]


def find_modules(script: Path, modules: Iterable[str] = ()) -> dict[str, Path]:
    """Return the files of all modules of waltz that a script and `modules` import, also indirectly,
    by module name.
    """
    files = _find_files(modules)
    # Walk the graph of imports; each module is visited once, so that cycles end.
    unvisited = [script, *files.values()]
    while unvisited:
        imported = _find_imports(unvisited.pop())
        for name, file in imported.items():
            if name not in files:
                files[name] = file
                unvisited.append(file)
    return files


@functools.cache
def find_file(module: str) -> Path | None:
    """Return the file of a module of waltz, or None if the name belongs to a function or a class."""
    base = PACKAGE.joinpath(*module.split(".")[1:])
    package = base / "__init__.py"
    if package.is_file():
        return package
    plain = base.with_name(f"{base.name}.py")
    return plain if plain.is_file() else None


@functools.cache
def _find_imports(file: Path) -> dict[str, Path]:
    """Return the modules of waltz that a file imports anywhere, and the packages that contain them,
    by name.
    """
    return _find_files(_parse(file)[1])


def _find_files(names: Iterable[str]) -> dict[str, Path]:
    """Return for imported names the files of their modules, by module name; names of other packages
    are ignored.
    """
    modules: set[str] = set()
    for name in names:
        parts = name.split(".")
        if parts[0] == PACKAGE.name:
            # The import of a.b.c runs the modules a, a.b and a.b.c.
            modules.update(itertools.accumulate(parts, "{}.{}".format))

    files: dict[str, Path] = {}
    for module in modules - INFRASTRUCTURE:
        file = find_file(module)
        if file is not None:
            files[module] = file
    return files


def digest_files(files: Iterable[str | Path]) -> str:
    """Return the digest of files that a job reads from the package; of YAML, only the values count,
    so that a comment or another layout reruns nothing.

    Args:
        files: Paths in the package, or whole paths.
    Returns:
        16 hexadecimal digits.
    """
    total = hashlib.sha256()
    for file in files:
        total.update(_digest_file(PACKAGE / file))
    return total.hexdigest()[:16]


@functools.cache
def _digest_file(file: Path) -> bytes:
    """Return the digest of the values of a YAML file, or of the bytes of another file."""
    content = file.read_bytes()
    if file.suffix == ".yaml":
        values = yaml.load(
            content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        )
        # The order of entries is kept: it is the order of tables on the page.
        content = json.dumps(values, default=str).encode()
    return hashlib.sha256(content).digest()


@functools.cache
def _parse(file: Path) -> tuple[str, frozenset[str]]:
    """Return a file's digest, which ignores comments, docstrings and formatting, and the names that
    it imports.

    One pass over the tree gives both, because parsing is most of the time that Snakemake needs to
    start.
    """
    syntax: list[str] = []
    imported: set[str] = set()
    _visit(
        ast.parse(file.read_text(encoding="utf-8"), filename=str(file)),
        syntax,
        imported,
    )
    return hashlib.sha256("\n".join(syntax).encode()).hexdigest(), frozenset(imported)


def _visit(node: ast.AST, syntax: list[str], imported: set[str]) -> None:
    """Add the content of a node, except for docstrings, to `syntax`, and the names that it imports
    to `imported`.
    """
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    # A lone text is a docstring: it changes no value.
    if is_docstring:
        return
    imported.update(_list_imported_names(node))
    syntax.append(f"{type(node).__name__}(")
    for field in node._fields:
        if field in IGNORED_FIELDS:
            continue
        syntax.append(field)
        value = getattr(node, field)
        parts = value if isinstance(value, list) else [value]
        for part in parts:
            if isinstance(part, ast.AST):
                _visit(part, syntax, imported)
            else:
                syntax.append(repr(part))
    syntax.append(")")


def _list_imported_names(node: ast.AST) -> list[str]:
    """Return the full names that a statement imports; none of a relative import or another
    statement.
    """
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    # `from a import b` may import the module a.b or a name of a, so both are listed.
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []
