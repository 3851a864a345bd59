"""The map of modules in docs/explanation/architecture.md, generated from docstrings.

Run `python tests/docs/module_map.py` after a module was added, moved or described anew.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "workflow" / "waltz"
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
START, END = "<!-- modules -->", "<!-- end of modules -->"


def describe(file: Path) -> str:
    """Return the first sentence of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return docstring.split("\n\n")[0].replace("\n", " ").strip()


def render_package(folder: Path) -> Iterator[str]:
    """Yield the lines of one package: its description and a table of its modules."""
    modules = [
        file for file in sorted(folder.glob("*.py")) if file.name != "__init__.py"
    ]
    if folder != LIBRARY:
        yield f"### `{folder.relative_to(LIBRARY).as_posix()}`\n"
        yield f"{describe(folder / '__init__.py')}\n"
    if modules:
        yield "| module | holds |\n|---|---|"
        yield from (
            f"| `{file.stem}` | {describe(file).replace('|', chr(92) + '|')} |"
            for file in modules
        )
        yield ""


def render_map() -> str:
    """Return the map of all packages as Markdown."""
    packages = [
        LIBRARY,
        *sorted(
            file.parent
            for file in LIBRARY.rglob("*/__init__.py")
            if file.parent != LIBRARY
        ),
    ]
    return "\n".join(line for folder in packages for line in render_package(folder))


def replace_map(page: str) -> str:
    """Return the page with a new map between its two markers."""
    head, _, rest = page.partition(START)
    _, _, tail = rest.partition(END)
    return f"{head}{START}\n{render_map()}\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(replace_map(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
