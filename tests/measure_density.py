"""How dense the library's code is, package by package.

`python tests/measure_density.py` prints the measures, and writes them as limits if `--write` is
given (`tests/test_density.py` holds the code against the limits).
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

LIBRARY = Path(__file__).parents[1] / "workflow" / "waltz"
LIMITS_FILE = Path(__file__).with_name("density_limits.yaml")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.match_case,
)
UNTYPED_MAPPING = re.compile(r"(dict|Mapping)\[str, Any\]")
FILLER_NAMES = frozenset(
    (
        *(
            "own",
            "owns",
            "place",
            "places",
            "side",
            "sides",
            "where",
            "how",
            "most",
            "least",
            "given",
            "drawn",
        ),
        *("found", "made", "whole", "other", "others", "one", "ones", "kept", "taken"),
    )
)
"""Names that fill a gap and say nothing."""


@dataclass(frozen=True)
class Density:
    """Measures of one package.

    Attributes:
        decisions: Branches, loops, conditions and handlers, per 100 lines of function bodies.
        ternaries: Conditional expressions, per 1,000 lines of code.
        comprehensions: Comprehensions, per 1,000 lines of code.
        fillers: Filler names, per 1,000 bindings of names.
        untyped_mappings: Annotations `dict[str, Any]` and `Mapping[str, Any]`.
        comments: Lines of comments, in percent of all lines.
    """

    decisions: float
    ternaries: float
    comprehensions: float
    fillers: float
    untyped_mappings: int
    comments: float


def list_packages() -> list[str]:
    """Return the names of the library's packages, and `.` for the modules outside of them."""
    packages = [
        folder.name for folder in LIBRARY.iterdir() if any(folder.rglob("*.py"))
    ]
    return [".", *sorted(packages)]


def list_modules(package: str) -> list[Path]:
    """Return the modules of a package, those of its subpackages included."""
    if package == ".":
        return sorted(LIBRARY.glob("*.py"))
    return sorted((LIBRARY / package).rglob("*.py"))


def measure_package(package: str) -> Density:
    """Measure the density of a package."""
    counts: Counter[str] = Counter()
    for module in list_modules(package):
        counts += count_module(module.read_text(encoding="utf-8"))
    return Density(
        decisions=round(100 * counts["decisions"] / max(1, counts["body lines"]), 1),
        ternaries=round(1000 * counts["ternaries"] / counts["code lines"], 1),
        comprehensions=round(1000 * counts["comprehensions"] / counts["code lines"], 1),
        fillers=round(1000 * counts["fillers"] / max(1, counts["bindings"]), 1),
        untyped_mappings=counts["untyped mappings"],
        comments=round(100 * counts["comment lines"] / counts["lines"], 1),
    )


def count_module(text: str) -> Counter[str]:
    """Count lines, decisions and names of a module."""
    tree = ast.parse(text)
    lines = text.splitlines()
    docstring_lines = find_docstring_lines(tree)
    comment_lines = find_comment_lines(text)
    blank_lines = {
        number for number, line in enumerate(lines, 1) if not line.strip()
    } - docstring_lines
    silent_lines = docstring_lines | comment_lines | blank_lines

    counts = Counter(
        {
            "lines": len(lines),
            "comment lines": len(comment_lines),
            "code lines": len(lines) - len(silent_lines),
            "untyped mappings": len(UNTYPED_MAPPING.findall(text)),
        }
    )
    for function in list_outer_functions(tree):
        body_lines = set(range(function.body[0].lineno, (function.end_lineno or 0) + 1))
        counts["body lines"] += len(body_lines - silent_lines)
        counts["decisions"] += sum(map(count_decisions, function.body))
    for node in ast.walk(tree):
        counts["ternaries"] += isinstance(node, ast.IfExp)
        counts["comprehensions"] += isinstance(node, COMPREHENSIONS)
        names = list_bound_names(node)
        counts["bindings"] += len(names)
        counts["fillers"] += len(FILLER_NAMES.intersection(names))
    return counts


def find_docstring_lines(tree: ast.AST) -> set[int]:
    """Return the numbers of the lines of all docstrings."""
    numbers: set[int] = set()
    for node in ast.walk(tree):
        if (
            not isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS))
            or ast.get_docstring(node, clean=False) is None
        ):
            continue
        docstring = node.body[0]
        numbers.update(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return numbers


def find_comment_lines(text: str) -> set[int]:
    """Return the numbers of the lines that hold nothing but a comment."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {
        token.start[0]
        for token in tokens
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#")
    }


def list_outer_functions(
    tree: ast.AST,
) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield functions and methods, without those inside of them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, FUNCTIONS):
            yield node
        else:
            yield from list_outer_functions(node)


def count_decisions(statement: ast.AST) -> int:
    """Count the decisions of a statement: each further operand of `and` or `or`, and each condition
    counts as one.
    """
    count = 0
    for node in ast.walk(statement):
        if isinstance(node, BRANCHES):
            count += 1
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            count += 1 + len(node.ifs)
    return count


def list_bound_names(node: ast.AST) -> list[str]:
    """Return the names that a node binds: a variable, or the parameters of a function."""
    if isinstance(node, FUNCTIONS):
        parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        return [parameter.arg for parameter in parameters]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    return []


def has_nested_ternary(tree: ast.AST) -> bool:
    """Return whether a conditional expression stands inside another."""
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp) and any(
            isinstance(inner, ast.IfExp)
            for inner in ast.walk(node)
            if inner is not node
        ):
            return True
    return False


if __name__ == "__main__":
    measures = {
        package: asdict(measure_package(package)) for package in list_packages()
    }
    text = yaml.safe_dump(measures, sort_keys=False)
    print(text, end="")
    if "--write" in sys.argv[1:]:
        LIMITS_FILE.write_text(text, encoding="utf-8")
