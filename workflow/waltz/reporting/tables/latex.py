"""Tables as LaTeX (booktabs), in the layout of print: groups of rows under one name, the best value bold."""

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
    "Above a value: = equal to print, ≈ compatible, ≠ differs, a number: its reason. Below it: n, where not the same"
    " everywhere. ± the deviation. In brackets: print. Bold: best of several models. Underlined: at or below chance."
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
"""Letters of a text beyond which a column is as wide as a paragraph."""


def format_latex(declaration: Declaration, cells: Sequence[Cell]) -> str:
    """The table in each profile as a `table` environment; needs the packages booktabs, graphicx and amssymb."""
    parts = ["% needs \\usepackage{booktabs,graphicx,amssymb} and UTF-8"]
    for profile in dict.fromkeys(cell.profile for cell in cells):
        laid = lay_out_grid(declaration, [cell for cell in cells if cell.profile == profile])
        parts.append(_table(declaration, profile, laid))
    if not cells:
        parts.append("% no model of this study belongs in this table")
    return "\n".join(parts) + "\n"


INDEXED = re.compile(r"\b(acc|p|T-SHAP)\\_([crf])\b")
"""Names of metrics with an index, once escaped."""
FINE = 2
"""Fields of a row's name whose change, where there are more, leaves some space."""
LONG = 9
"""Letters of a heading that is broken at its hyphens."""


def escape_latex(text: str) -> str:
    """Text that LaTeX sets as it is; letters that it lacks become question marks."""
    shown = "".join(SPECIAL.get(letter, letter if ord(letter) < 0x180 else "?") for letter in text)
    return INDEXED.sub(r"\1$_{\2}$", shown)


def _table(declaration: Declaration, profile: str, laid: Grid) -> str:
    cells = [marked.cell for _, row in laid.rows for marked in row if marked is not None]
    sizes = {cell.n for cell in cells if cell.value is not None or cell.text == UNDEFINED}
    same = sizes.pop() if len(sizes) == 1 else None
    caption = f"{declaration.title} ({declaration.id}, profile {profile})."
    caption += f" n = {same} everywhere." if same else ""
    notes = "; ".join(f"{number}: {line}" for number, line in enumerate(format_notes(laid), 1))
    below = " ".join(filter(None, (LEGEND, f"{notes}." if notes else "", *laid.general)))
    columns = "l" * len(laid.corner) + "".join(map(_alignment, zip(*(row for _, row in laid.rows), strict=True)))
    body = "\n".join([*_head(laid), *_body(laid, same is None)])
    return (
        "\\begin{table}[p]\n\\centering\n"
        f"\\caption{{{escape_latex(caption)}}}\n\\label{{tab:{declaration.id}-{profile}}}\n"
        "\\resizebox*{!}{\\ifdim\\totalheight>.8\\textheight .8\\textheight\\else\\totalheight\\fi}{%\n"
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n"
        f"\\begin{{tabular}}{{@{{}}{columns}@{{}}}}\n\\toprule\n{body}\n\\bottomrule\n\\end{{tabular}}}}}}\n\n"
        f"\\smallskip\\parbox{{\\linewidth}}{{\\scriptsize {escape_latex(below)}}}\n\\end{{table}}\n"
    )


def _alignment(column: Sequence[MarkedCell | None]) -> str:
    """Numbers to the right, texts to the left, long ones as paragraphs."""
    texts = [marked.cell.text for marked in column if marked is not None and marked.cell.text != UNDEFINED]
    longest = max(map(len, texts), default=0)
    return "p{5cm}" if longest > WORDS else "l" if longest else "r"


def _head(laid: Grid) -> list[str]:
    """The headings, each level with rules below what spans several columns."""
    lines = []
    levels = len(laid.columns[0])
    for level in range(levels):
        last = level == levels - 1
        corner = [escape_latex(name) if last else "" for name in laid.corner]
        parts, rules, place = [], [], len(laid.corner) + 1
        for name, width in compute_spans(laid, level):
            parts.append(_stacked(name) if last else f"\\multicolumn{{{width}}}{{c}}{{{escape_latex(name)}}}")
            rules.append(f"\\cmidrule(lr){{{place}-{place + width - 1}}}")
            place += width
        lines.append(" & ".join([*corner, *parts]) + r" \\")
        lines += [] if last else ["".join(rules)]
    return [*lines, r"\midrule"]


def _stacked(name: str) -> str:
    """A heading in several lines, where it is long."""
    lines = name.split("-") if len(name) > LONG else [name]
    stacked = r" \\ ".join(map(escape_latex, lines))
    return stacked if len(lines) == 1 else f"\\shortstack[r]{{{stacked}}}"


def _body(laid: Grid, sizes: bool) -> list[str]:
    """Rows in groups of their first name, which is written once."""
    lines: list[str] = []
    groups = [list(group) for _, group in groupby(laid.rows, key=lambda entry: entry[0][:1])]
    ruled = len(laid.corner) > 1
    for number, group in enumerate(groups):
        if number and ruled:
            lines.append(r"\midrule")
        above: tuple[str, ...] = ()
        for names, row in group:
            if len(names) > FINE and above and names[:FINE] != above[:FINE]:
                lines.append(r"\addlinespace[2pt]")
            shown = [
                ""
                if ruled and names[: place + 1] == above[: place + 1] and place < len(names) - 1
                else escape_latex(name)
                for place, name in enumerate(names)
            ]
            lines.append(" & ".join([*shown, *(_cell(marked, sizes) for marked in row)]) + r" \\")
            above = names
    return lines


def _cell(marked: MarkedCell | None, sizes: bool) -> str:
    if marked is None:
        return ""
    cell = marked.cell
    shown = escape_latex(format_value(cell))
    if marked.best:
        shown = f"\\textbf{{{shown}}}"
    if marked.guessed:
        shown = f"\\underline{{{shown}}}"
    above = escape_latex(VERDICT_MARKS.get(cell.verdict, "")).strip("$") + (
        f"{{,}}{marked.note}" if marked.note else ""
    )
    above = above.removeprefix("{,}")
    below = str(cell.n) if sizes and cell.n and (cell.value is not None or cell.text == UNDEFINED) else ""
    if above or below:
        shown += "$" + (f"^{{{above}}}" if above else "") + (f"_{{{below}}}" if below else "") + "$"
    if cell.value is not None and cell.sd is not None:
        shown += f" {{\\scriptsize $\\pm${cell.sd:.{get_decimals(cell.metric)}f}}}"
    if printed := format_paper_value(cell):
        shown += f" {{\\scriptsize ({escape_latex(printed)})}}"
    return shown
