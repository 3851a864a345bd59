"""Tables to be read: Markdown, LaTeX (booktabs) and HTML of tidy cells."""

import html
from collections.abc import Sequence

import pandas as pd

from waltz.reporting.declarations import Declaration
from waltz.reporting.tables import Cell
from waltz.reporting.verdicts import COMPATIBLE, DIFFERS, EQUAL

MARKS = {EQUAL: "=", COMPATIBLE: "≈", DIFFERS: "≠"}
LEGEND = (
    "= equal to print, ≈ compatible, ≠ differs; [low, high] is the interval; (…) is the printed value; – is no value."
)
PLACES = {
    "js": 3,
    "js_valid": 3,
    "alpha": 3,
    "alpha_valid": 3,
    "instances": 0,
    "valid": 0,
    "unanimous": 0,
    "lexical_items": 0,
}
"""Decimal places by metric; shares have one."""


def markdown(declaration: Declaration, cells: Sequence[Cell]) -> str:
    """The table in each profile, with its reasons below."""
    parts = [f"# {declaration.id}: {declaration.title}\n"]
    for profile in dict.fromkeys(cell.profile for cell in cells):
        part = [cell for cell in cells if cell.profile == profile]
        parts.append(f"## Profile `{profile}`\n\n{grid(declaration, part).to_markdown()}\n")
        parts += [f"- {line}" for line in reasons(part)]
        parts.append("")
    parts += [LEGEND, "", *declaration.notes]
    return "\n".join(parts) + "\n"


def latex(declaration: Declaration, cells: Sequence[Cell]) -> str:
    """The table in each profile as a `table` environment; needs the packages booktabs and graphicx."""
    parts = []
    for profile in dict.fromkeys(cell.profile for cell in cells):
        part = [cell for cell in cells if cell.profile == profile]
        body = _latex_grid(grid(declaration, part, intervals=False))
        caption = f"{_escaped(declaration.title)} ({declaration.id}, profile {profile}). {_escaped(LEGEND)}"
        parts.append(
            "\\begin{table}\n\\centering\n\\resizebox{\\linewidth}{!}{%\n"
            f"{body}}}\n\\caption{{{caption}}}\n"
            f"\\label{{tab:{declaration.id}-{profile}}}\n\\end{{table}}\n"
        )
    return "% needs \\usepackage{booktabs,graphicx}\n" + "\n".join(parts)


def html_table(declaration: Declaration, cells: Sequence[Cell]) -> str:
    """One profile's table as HTML, texts escaped."""
    frame = grid(declaration, cells)
    listed = "".join(f"<li>{html.escape(line)}</li>" for line in reasons(cells))
    return f"{frame.to_html(border=0, escape=True, index_names=False)}<ul class='reasons'>{listed}</ul>"


def grid(declaration: Declaration, cells: Sequence[Cell], intervals: bool = True) -> pd.DataFrame:
    """The declared rows and columns of one profile, each cell as text; rows of a metric stand together."""
    order = {metric: place for place, metric in enumerate(declaration.metrics)}
    by_metric = sorted(cells, key=lambda cell: order.get(cell.metric, -1)) if "metric" in declaration.rows else cells
    shown: dict[tuple[str, ...], dict[str, str]] = {}
    for cell in by_metric:
        names = tuple(_heading(declaration, name, getattr(cell, name)) for name in declaration.rows)
        column = _heading(declaration, declaration.columns, getattr(cell, declaration.columns))
        shown.setdefault(names, {})[column] = text(cell, intervals)
    index = pd.Index([" · ".join(filter(None, names)) for names in shown])
    frame = pd.DataFrame(list(shown.values()), index=index).fillna("")
    frame.index.name = " · ".join(declaration.rows)
    return frame


def text(cell: Cell, intervals: bool = True) -> str:
    """A cell in a few characters: value, interval, printed value, verdict."""
    places = PLACES.get(cell.metric, 1)
    shown = "–" if cell.value is None else f"{cell.value:.{places}f}"
    if intervals and cell.value is not None and cell.ci_low is not None and cell.ci_high is not None:
        shown += f" [{cell.ci_low:.{places}f}, {cell.ci_high:.{places}f}]"
    if cell.published is not None:
        shown += f" ({cell.published:.{places}f})"
    return f"{shown} {MARKS[cell.verdict]}" if cell.verdict else shown


def reasons(cells: Sequence[Cell]) -> list[str]:
    """Each reason once, with the cells that it stands for."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.reason:
            found.setdefault(cell.reason, []).append(cell)
    lines = []
    for reason, those in found.items():
        place = " ".join(filter(None, (those[0].metric, those[0].model, those[0].dataset, those[0].setting)))
        lines.append(f"{reason}: {place}" if len(those) == 1 else f"{reason}: {len(those)} cells")
    return lines


def _heading(declaration: Declaration, field: str, name: str) -> str:
    return declaration.metrics.get(name, name) if field == "metric" else name


def _latex_grid(frame: pd.DataFrame) -> str:
    escaped = frame.map(_escaped)
    escaped.columns = pd.Index([_escaped(str(name)) for name in frame.columns])
    escaped.index = pd.Index([_escaped(str(name)) for name in frame.index], name=frame.index.name)
    return str(escaped.to_latex(column_format="l" + "r" * len(frame.columns), index_names=False))


def _escaped(value: str) -> str:
    special = {
        "&": r"\&",
        "%": r"\%",
        "_": r"\_",
        "#": r"\#",
        "$": r"\$",
        "{": r"\{",
        "}": r"\}",
        "–": "--",
        "\\": r"\textbackslash{}",
    }
    special |= {
        "α": r"$\alpha$",
        "≈": r"$\approx$",
        "≠": r"$\neq$",
        "×": r"$\times$",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    }
    special |= {"·": r"\textperiodcentered{}", "…": r"\dots{}", "<": r"$<$", ">": r"$>$"}
    return "".join(special.get(character, character) for character in value)
