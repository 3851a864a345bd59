"""Imports go one way through the rooms of the library, without cycles
(docs/explanation/architecture.md).
"""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parents[1] / "workflow" / "waltz"
ORDER = (
    ("core",),
    (
        "fidelity",
        "instruments",
        "model_registry",
        "plan",
        "snakemake_compat",
        "valse_release",
    ),
    ("models",),
    ("scenes", "sources"),
    ("foils",),
    ("filters",),
    ("benchmark",),
    ("evaluation",),
    ("attribution",),
    ("consistency",),
    ("measures",),
    ("reporting", "export"),
    ("explainer", "preflight"),
    ("cli",),
)
"""Rooms from the bottom up; a room may import itself, those next to it and those before it."""
LEVELS = {room: level for level, rooms in enumerate(ORDER) for room in rooms}


def name_module(file: Path) -> str:
    parts = ("waltz", *file.relative_to(LIBRARY).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_module(file): file for file in LIBRARY.rglob("*.py")}


def list_imports(file: Path) -> set[str]:
    """Return the modules of the library that a file imports, also inside functions."""
    imports = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.split(".")[0] == "waltz"
        ):
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                imports.add(submodule if submodule in MODULES else node.module)
    return imports


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """The modules of the library that each of its modules imports."""
    return {
        module: list_imports(file) - {module, "waltz"}
        for module, file in MODULES.items()
    }


def test_every_room_has_a_level():
    assert {module.split(".")[1] for module in MODULES if "." in module} == set(LEVELS)


def test_no_module_imports_from_a_later_room(imports):
    back = [
        (module, imported)
        for module, names in imports.items()
        for imported in names
        if "." in module
        and LEVELS[imported.split(".")[1]] > LEVELS[module.split(".")[1]]
    ]
    assert not back


def test_there_are_no_cycles(imports):
    assert list(TopologicalSorter(imports).static_order())
