"""Tables as LaTeX (booktabs), grid out as in the papers: rows grouped under one name, the best value bold."""

import re
from collections.abc import Sequence
from itertools import groupby

from waltz.reporting.tables.cells import Cell
from waltz.reporting.tables.declaration import Declaration
from waltz.reporting.tables.grid import Grid, MarkedCell, lay_out_grid
from waltz.reporting.tables.layouts import VERDICT_MARKS, compute_spans, format_notes, format_paper_value, format_value
from waltz.reporting.tables.metric_styles import get_decimals
from waltz.reporting.tables.numbers import UNDEFINED

LEGEND = (
    "Above a value: = equal to the paper, ≈ compatible, ≠ differs, a number: its reason. Below it: n, where it varies."
    " ± standard deviation. In brackets: the paper value. Bold: best of several models. Underlined: at or below chance."
    " – no value."
)
SPECIAL = {
    "&": r"\&",
    "%": r"\%",
    "_": r"\_",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "–": "--",
    "\\": r"\textbackslash{}",
    "α": r"$\alpha$",
    "ρ": r"$\rho$",
    "≈": r"$\approx$",
    "≠": r"$\neq$",
    "×": r"$\times$",
    "±": r"$\pm$",
    "→": r"$\rightarrow$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "·": r"\textperiodcentered{}",
    "…": r"\dots{}",
    "<": r"$<$",
    ">": r"$>$",
    "‘": "`",
    "’": "'",
    "“": "``",
    "”": "''",
}
WORDS = 34
"""Letters of a text beyond which a column is set as a paragraph."""


def format_latex(declaration: Declaration, cells: Sequence[Cell]) -> str:
    """Format a table as `table` environments, one per profile; needs booktabs, graphicx and amssymb."""
    parts = ["% needs \\usepackage{booktabs,graphicx,amssymb} and UTF-8"]
    for profile in dict.fromkeys(cell.profile for cell in cells):
        grid = lay_out_grid(declaration, [cell for cell in cells if cell.profile == profile])
        parts.append(_format_profile(declaration, profile, grid))
    if not cells:
        parts.append("% no model of this study belongs in this table")
    return "\n".join(parts) + "\n"


INDEXED = re.compile(r"\b(acc|p|T-SHAP)\\_([crf])\b")
"""Names of metrics with an index, after escaping."""
FINE = 2
"""Fields of a row's name before whose change some space is left, where rows have more fields."""
LONG = 9
"""Letters of a heading beyond which it is broken at its hyphens."""


def escape_latex(text: str) -> str:
    """Escape a text for LaTeX; letters that it lacks become question marks."""
    escaped = "".join(SPECIAL.get(letter, letter if ord(letter) < 0x180 else "?") for letter in text)
    return INDEXED.sub(r"\1$_{\2}$", escaped)


def _format_profile(declaration: Declaration, profile: str, grid: Grid) -> str:
    """Return the `table` environment of one profile."""
    cells = [marked.cell for _, row in grid.rows for marked in row if marked is not None]
    sizes = {cell.n for cell in cells if cell.value is not None or cell.text == UNDEFINED}
    common_size = sizes.pop() if len(sizes) == 1 else None
    caption = f"{declaration.title} ({declaration.id}, profile {profile})."
    caption += f" n = {common_size} everywhere." if common_size else ""
    notes = "; ".join(f"{number}: {line}" for number, line in enumerate(format_notes(grid), 1))
    below = " ".join(filter(None, (LEGEND, f"{notes}." if notes else "", *grid.general)))
    columns = "l" * len(grid.corner) + "".join(map(_align_column, zip(*(row for _, row in grid.rows), strict=True)))
    body = "\n".join([*_format_head(grid), *_format_body(grid, common_size is None)])
    return (
        "\\begin{table}[p]\n\\centering\n"
        f"\\caption{{{escape_latex(caption)}}}\n\\label{{tab:{declaration.id}-{profile}}}\n"
        "\\resizebox*{!}{\\ifdim\\totalheight>.8\\textheight .8\\textheight\\else\\totalheight\\fi}{%\n"
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n"
        f"\\begin{{tabular}}{{@{{}}{columns}@{{}}}}\n\\toprule\n{body}\n\\bottomrule\n\\end{{tabular}}}}}}\n\n"
        f"\\smallskip\\parbox{{\\linewidth}}{{\\scriptsize {escape_latex(below)}}}\n\\end{{table}}\n"
    )


def _align_column(column: Sequence[MarkedCell | None]) -> str:
    """Return a column's alignment: numbers to the right, texts to the left, long texts as paragraphs."""
    texts = [marked.cell.text for marked in column if marked is not None and marked.cell.text != UNDEFINED]
    longest = max(map(len, texts), default=0)
    return "p{5cm}" if longest > WORDS else "l" if longest else "r"


def _format_head(grid: Grid) -> list[str]:
    """Return the lines of the headings, each level with rules below headings of several columns."""
    lines = []
    levels = len(grid.columns[0])
    for level in range(levels):
        last = level == levels - 1
        corner = [escape_latex(name) if last else "" for name in grid.corner]
        parts, rules, place = [], [], len(grid.corner) + 1
        for name, width in compute_spans(grid, level):
            parts.append(_stack_heading(name) if last else f"\\multicolumn{{{width}}}{{c}}{{{escape_latex(name)}}}")
            rules.append(f"\\cmidrule(lr){{{place}-{place + width - 1}}}")
            place += width
        lines.append(" & ".join([*corner, *parts]) + r" \\")
        lines += [] if last else ["".join(rules)]
    return [*lines, r"\midrule"]


def _stack_heading(name: str) -> str:
    """Return a heading, in several lines where it is long."""
    lines = name.split("-") if len(name) > LONG else [name]
    stacked = r" \\ ".join(map(escape_latex, lines))
    return stacked if len(lines) == 1 else f"\\shortstack[r]{{{stacked}}}"


def _format_body(grid: Grid, sizes: bool) -> list[str]:
    """Return the lines of the rows, grouped by their first name, which is written once."""
    lines: list[str] = []
    groups = [list(group) for _, group in groupby(grid.rows, key=lambda entry: entry[0][:1])]
    ruled = len(grid.corner) > 1
    for number, group in enumerate(groups):
        if number and ruled:
            lines.append(r"\midrule")
        above: tuple[str, ...] = ()
        for names, row in group:
            if len(names) > FINE and above and names[:FINE] != above[:FINE]:
                lines.append(r"\addlinespace[2pt]")
            titles = [
                ""
                if ruled and names[: place + 1] == above[: place + 1] and place < len(names) - 1
                else escape_latex(name)
                for place, name in enumerate(names)
            ]
            lines.append(" & ".join([*titles, *(_format_marked(marked, sizes) for marked in row)]) + r" \\")
            above = names
    return lines


def _format_marked(marked: MarkedCell | None, sizes: bool) -> str:
    """Format a cell with its marks; with its number of items where `sizes`."""
    if marked is None:
        return ""
    cell = marked.cell
    text = escape_latex(format_value(cell))
    if marked.best:
        text = f"\\textbf{{{text}}}"
    if marked.at_chance:
        text = f"\\underline{{{text}}}"
    above = escape_latex(VERDICT_MARKS.get(cell.verdict, "")).strip("$") + (
        f"{{,}}{marked.note}" if marked.note else ""
    )
    above = above.removeprefix("{,}")
    below = str(cell.n) if sizes and cell.n and (cell.value is not None or cell.text == UNDEFINED) else ""
    if above or below:
        text += "$" + (f"^{{{above}}}" if above else "") + (f"_{{{below}}}" if below else "") + "$"
    if cell.value is not None and cell.sd is not None:
        text += f" {{\\scriptsize $\\pm${cell.sd:.{get_decimals(cell.metric)}f}}}"
    if paper_text := format_paper_value(cell):
        text += f" {{\\scriptsize ({escape_latex(paper_text)})}}"
    return text
