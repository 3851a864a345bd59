"""Tables as Markdown, HTML and LaTeX."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby

from waltz.reporting.tables.best import SignificanceTests
from waltz.reporting.tables.cells import Cell
from waltz.reporting.tables.declaration import Declaration, get_style
from waltz.reporting.tables.grid import UNPAIRED, Grid, MarkedCell, lay_out_grid, lay_out_profiles
from waltz.reporting.tables.numbers import UNDEFINED
from waltz.reporting.tables.paper_values import COMPATIBLE, DIFFERS, EQUAL

VERDICT_MARKS = {EQUAL: "=", COMPATIBLE: "≈", DIFFERS: "≠"}
CHANCE_MARK = "▽"
LEGEND = (
    "= equal to the paper, ≈ compatible, ≠ differs; [low, high] is the interval, ± the standard deviation; n counts"
    " items; (…) is the paper value; – is no value, with its reason below; bold is the best of several models where its"
    " lead over the second best is at least the smallest difference that a test (paired where items are common) detects"
    " with a power of 80 % at the level of the intervals; a smaller lead may be significant, but such differences are"
    " often missed, and both models are chosen after looking; ▽ is at or below chance."
)


def format_cell(cell: Cell, intervals: bool = True) -> str:
    """Format a cell: value, standard deviation, interval, n, paper value, verdict."""
    text = _format_value(cell)
    decimals = get_style(cell.metric).places
    if cell.value is not None and cell.sd is not None:
        text += f" ± {cell.sd:.{decimals}f}"
    if intervals and cell.value is not None and cell.ci_low is not None and cell.ci_high is not None:
        text += f" [{cell.ci_low:.{decimals}f}, {cell.ci_high:.{decimals}f}]"
    if intervals and cell.n and cell.text in ("", UNDEFINED):
        text += f" n {cell.n}"
    if paper_text := _format_paper_value(cell):
        text += f" ({paper_text})"
    return f"{text} {VERDICT_MARKS[cell.verdict]}" if cell.verdict else text


def _format_value(cell: Cell) -> str:
    """Format our number or text alone; a dash for none."""
    if cell.value is None:
        return cell.text or "–"
    return f"{cell.value:.{get_style(cell.metric).places}f}"


def _format_paper_value(cell: Cell) -> str:
    """Format the paper value with its standard deviation."""
    return cell.paper_text + ("" if cell.paper_sd is None else f" ± {cell.paper_sd:g}")


def list_reasons(declaration: Declaration, cells: Sequence[Cell]) -> list[str]:
    """Return each reason of one profile's cells once."""
    grid = lay_out_grid(declaration, cells)
    return [*_format_notes(grid), *grid.general]


def _format_notes(grid: Grid) -> list[str]:
    """Return each reason with the number of its cells."""
    return [reason if count == 1 else f"{reason} ({count} cells)" for reason, count in grid.notes]


def _compute_spans(grid: Grid, level: int) -> list[tuple[str, int]]:
    """Return the headings of one level, each with the number of columns that it spans."""
    is_lowest = level == len(grid.columns[0]) - 1
    groups = groupby(enumerate(grid.columns), key=lambda column: column[0] if is_lowest else column[1][: level + 1])
    spans = [[names for _, names in group] for _, group in groups]
    return [(columns[0][level], len(columns)) for columns in spans]


# Markdown


def format_markdown(declaration: Declaration, cells: Sequence[Cell], significance: SignificanceTests = UNPAIRED) -> str:
    """Format a table as Markdown in each profile, with its reasons below."""
    parts = [f"# {declaration.id}: {declaration.title}\n"]
    for profile, grid in lay_out_profiles(declaration, cells, significance).items():
        names = [*grid.corner, *(" ".join(filter(None, column)) for column in grid.columns)]
        parts += [f"## Profile `{profile}`\n", _markdown_row(map(_escape_markdown, names))]
        parts.append(_markdown_row(["---"] * len(names)))
        for row_names, row in grid.rows:
            parts.append(_markdown_row([*map(_escape_markdown, row_names), *map(_markdown_cell, row)]))
        parts += ["", *(f"{number}. {line}" for number, line in enumerate(_format_notes(grid), 1))]
        parts += ["", *grid.general, ""]
    if not cells:
        parts.append("No model of this study belongs in this table.\n")
    parts += [LEGEND, "", *declaration.notes]
    return "\n".join(parts) + "\n"


def _markdown_cell(marked: MarkedCell | None) -> str:
    if marked is None:
        return ""
    value = _format_value(marked.cell)
    text = f"**{value}**" if marked.best else value
    note = f"<sup>{marked.note}</sup>" if marked.note else ""
    rest = format_cell(marked.cell).removeprefix(value)
    return f"{CHANCE_MARK if marked.at_chance else ''}{_escape_markdown(text + rest)}{note}"


def _markdown_row(texts: Iterable[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _escape_markdown(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


# HTML

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .5rem; text-align: left; white-space: nowrap; }
th { font-weight: normal; }
thead th, .group > * { border-top: 1px solid; }
tbody { border-block: 1px solid; }
"""
"""Style of a page that holds one table."""


def format_html_page(
    declaration: Declaration, cells: Sequence[Cell], significance: SignificanceTests = UNPAIRED
) -> str:
    """Format a table as an HTML page, in each profile."""
    parts = [
        "<!doctype html>",
        f"<html lang='en'><head><meta charset='utf-8'><title>{escape(declaration.id)}</title>",
        f"<meta name='viewport' content='width=device-width'><style>{STYLE}</style></head><body>",
        f"<h1>{escape(declaration.id)}: {escape(declaration.title)}</h1>",
    ]
    for profile, grid in lay_out_profiles(declaration, cells, significance).items():
        parts += [f"<h2>Profile {escape(profile)}</h2>", _html_grid(grid)]
    if not cells:
        parts.append("<p>No model of this study belongs in this table.</p>")
    parts += [f"<p>{escape(line)}</p>" for line in (LEGEND, *declaration.notes)]
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _html_grid(grid: Grid) -> str:
    """Return one profile as HTML, texts escaped."""
    levels = len(grid.columns[0])
    head = []
    for level in range(levels):
        corner = "".join(f'<th scope="col" rowspan="{levels}">{escape(name)}</th>' for name in grid.corner)
        names = "".join(
            f'<th scope="{"col" if width == 1 else "colgroup"}" colspan="{width}">{escape(name)}</th>'
            for name, width in _compute_spans(grid, level)
        )
        head.append(f"<tr>{corner if level == 0 else ''}{names}</tr>")
    body = []
    group: tuple[str, ...] = ()
    for names_of_row, row in grid.rows:
        first = ' class="group"' if len(names_of_row) > 1 and names_of_row[:1] != group else ""
        text = "".join(f'<th scope="row">{escape(name)}</th>' for name in names_of_row)
        body.append(f"<tr{first}>{text}{''.join(map(_html_cell, row))}</tr>")
        group = names_of_row[:1]
    notes = "".join(f"<li>{escape(line)}</li>" for line in _format_notes(grid))
    general = "".join(f"<p class='general'>{escape(line)}</p>" for line in grid.general)
    return (
        f"<div class='scroll' tabindex='0'><table><thead>{''.join(head)}</thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
        f"<ol class='reasons'>{notes}</ol>{general}"
    )


def _html_cell(marked: MarkedCell | None) -> str:
    if marked is None:
        return "<td></td>"
    classes = (marked.cell.verdict.replace(" ", "-"), "best" * marked.best, "at-chance" * marked.at_chance)
    value = escape(_format_value(marked.cell))
    strong = f"<strong>{value}</strong>" if marked.best else value
    rest = escape(format_cell(marked.cell)).removeprefix(value)
    note = f"<sup>{marked.note}</sup>" if marked.note else ""
    mark = CHANCE_MARK if marked.at_chance else ""
    return f'<td class="{" ".join(filter(None, classes))}">{mark}{strong}{rest}{note}</td>'


# LaTeX

LATEX_LEGEND = (
    "Above a value: = equal to the paper, ≈ compatible, ≠ differs, a number: its reason. Below it: n, where it varies."
    " ± standard deviation. In brackets: the paper value. Bold: best of several models, where its lead over"
    " the second best is at least the smallest difference that a test (paired where items are common) detects with a"
    " power of 80 % at the level of the intervals; a smaller lead may be significant, but such differences are often"
    " missed, and both models are chosen after looking. Underlined: at or below chance. – no value."
)
SPECIAL = {
    **{letter: f"\\{letter}" for letter in "&%_#${}"},
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
INDEXED = re.compile(r"\b(acc|p|T-SHAP)\\_([crf])\b")
"""Names of metrics with an index, after escaping."""
PARAGRAPH = 34
"""Letters of a text beyond which a column is set as a paragraph."""
FINE = 2
"""Fields of a row's name before whose change some space is left, where rows have more fields."""
LONG = 9
"""Letters of a heading beyond which it is broken at its hyphens."""


def format_latex(declaration: Declaration, cells: Sequence[Cell], significance: SignificanceTests = UNPAIRED) -> str:
    """Format a table as `table` environments, one per profile; needs booktabs, graphicx and amssymb.

    As in the papers, rows are grouped under one name, and the best value is bold where a test shows it.
    """
    parts = ["% needs \\usepackage{booktabs,graphicx,amssymb} and UTF-8"]
    for profile, grid in lay_out_profiles(declaration, cells, significance).items():
        parts.append(_latex_table(declaration, profile, grid))
    if not cells:
        parts.append("% no model of this study belongs in this table")
    return "\n".join(parts) + "\n"


def escape_latex(text: str) -> str:
    """Escape a text for LaTeX; letters that it lacks become question marks."""
    escaped = "".join(SPECIAL.get(letter, letter if ord(letter) < 0x180 else "?") for letter in text)
    return INDEXED.sub(r"\1$_{\2}$", escaped)


def _latex_table(declaration: Declaration, profile: str, grid: Grid) -> str:
    """Return the `table` environment of one profile."""
    cells = [marked.cell for _, row in grid.rows for marked in row if marked is not None]
    sizes = {cell.n for cell in cells if cell.value is not None or cell.text == UNDEFINED}
    common_size = sizes.pop() if len(sizes) == 1 else None
    caption = f"{declaration.title} ({declaration.id}, profile {profile})."
    caption += f" n = {common_size} everywhere." if common_size else ""
    notes = "; ".join(f"{number}: {line}" for number, line in enumerate(_format_notes(grid), 1))
    below = " ".join(filter(None, (LATEX_LEGEND, f"{notes}." if notes else "", *grid.general)))
    columns = "l" * len(grid.corner) + "".join(map(_align_column, zip(*(row for _, row in grid.rows), strict=True)))
    body = "\n".join([*_latex_head(grid), *_latex_body(grid, common_size is None)])
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
    return "p{5cm}" if longest > PARAGRAPH else "l" if longest else "r"


def _latex_head(grid: Grid) -> list[str]:
    """Return the lines of the headings, each level with rules below headings of several columns."""
    lines = []
    levels = len(grid.columns[0])
    for level in range(levels):
        last = level == levels - 1
        corner = [escape_latex(name) if last else "" for name in grid.corner]
        headings, rules, place = [], [], len(grid.corner) + 1
        for name, width in _compute_spans(grid, level):
            headings.append(_stack_heading(name) if last else f"\\multicolumn{{{width}}}{{c}}{{{escape_latex(name)}}}")
            rules.append(f"\\cmidrule(lr){{{place}-{place + width - 1}}}")
            place += width
        lines.append(" & ".join([*corner, *headings]) + r" \\")
        lines += [] if last else ["".join(rules)]
    return [*lines, r"\midrule"]


def _stack_heading(name: str) -> str:
    """Return a heading, in several lines where it is long."""
    lines = name.split("-") if len(name) > LONG else [name]
    stacked = r" \\ ".join(map(escape_latex, lines))
    return stacked if len(lines) == 1 else f"\\shortstack[r]{{{stacked}}}"


def _latex_body(grid: Grid, sizes: bool) -> list[str]:
    """Return the lines of the rows, grouped by their first name, which is written once."""
    lines: list[str] = []
    is_ruled = len(grid.corner) > 1
    for _, group in groupby(grid.rows, key=lambda row: row[0][:1]):
        if lines and is_ruled:
            lines.append(r"\midrule")
        above: tuple[str, ...] = ()
        for names, row in group:
            if len(names) > FINE and above and names[:FINE] != above[:FINE]:
                lines.append(r"\addlinespace[2pt]")
            titles = [
                ""
                if is_ruled and names[: place + 1] == above[: place + 1] and place < len(names) - 1
                else escape_latex(name)
                for place, name in enumerate(names)
            ]
            lines.append(" & ".join([*titles, *(_latex_cell(marked, sizes) for marked in row)]) + r" \\")
            above = names
    return lines


def _latex_cell(marked: MarkedCell | None, sizes: bool) -> str:
    """Format a cell with its marks; with its number of items where `sizes`."""
    if marked is None:
        return ""
    cell = marked.cell
    text = escape_latex(_format_value(cell))
    if marked.best:
        text = f"\\textbf{{{text}}}"
    if marked.at_chance:
        text = f"\\underline{{{text}}}"
    verdict = escape_latex(VERDICT_MARKS.get(cell.verdict, "")).strip("$")
    above = "{,}".join(filter(None, (verdict, str(marked.note or ""))))
    below = str(cell.n) if sizes and cell.n and (cell.value is not None or cell.text == UNDEFINED) else ""
    if above or below:
        text += "$" + (f"^{{{above}}}" if above else "") + (f"_{{{below}}}" if below else "") + "$"
    if cell.value is not None and cell.sd is not None:
        text += f" {{\\scriptsize $\\pm${cell.sd:.{get_style(cell.metric).places}f}}}"
    if paper_text := _format_paper_value(cell):
        text += f" {{\\scriptsize ({escape_latex(paper_text)})}}"
    return text
