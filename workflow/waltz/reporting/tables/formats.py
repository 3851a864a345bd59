"""Tables as Markdown, HTML and LaTeX."""

import itertools
import re
from collections.abc import Iterable, Sequence
from html import escape

from waltz.reporting.tables.best import BOLD_RULE, SignificanceTests
from waltz.reporting.tables.cells import SMALL_MARK, Cell, is_small
from waltz.reporting.tables.declaration import Declaration
from waltz.reporting.tables.declarations import get_style
from waltz.reporting.tables.grid import (
    UNPAIRED,
    Grid,
    MarkedCell,
    Names,
    lay_out_grid,
    lay_out_profiles,
)
from waltz.reporting.tables.numbers import UNDEFINED
from waltz.reporting.tables.paper_values import COMPATIBLE, DIFFERS, EQUAL, EQUIVALENT

VERDICT_MARKS = {EQUAL: "=", EQUIVALENT: "≃", COMPATIBLE: "≈", DIFFERS: "≠"}
CHANCE_MARK = "▽"
LEGEND = (
    "= equal to the paper, ≈ compatible, ≠ differs; [low, high] is the interval, ± the standard deviation; n counts"
    " items; (…) is the paper value; – is no value, with its reason below; bold is the best of several models where its"
    f" lead over the second best is significant ({BOLD_RULE}); ▽ is at or below chance."
)


def format_cell(cell: Cell, intervals: bool = True) -> str:
    """Return a cell as a text: value, standard deviation, interval, n, paper value, verdict.

    Args:
        cell: The cell.
        intervals: Whether the interval and n are included.
    """
    text = _format_value(cell) + _format_sd(cell)
    if intervals:
        text += _format_interval(cell)
        # Texts such as captions have no n; an undefined number has one.
        has_sample = cell.text in ("", UNDEFINED)
        if cell.n and has_sample:
            text += f" n {cell.n}"
    paper_text = _format_paper_value(cell)
    if paper_text:
        text += f" ({paper_text})"
    if cell.verdict:
        text += f" {VERDICT_MARKS[cell.verdict]}"
    return text


def format_short_cell(cell: Cell) -> str:
    """Return our number or text with the interval of the number; a dash if there is neither.

    A number from too few items or images gets `SMALL_MARK`.
    """
    text = _format_value(cell)
    if cell.value is not None and is_small(cell.n, cell.images):
        text += SMALL_MARK
    return text + _format_interval(cell)


def _format_value(cell: Cell) -> str:
    """Return our number or text without anything else; a dash if there is neither."""
    if cell.value is None:
        return cell.text or "–"
    return _format_decimals(cell, cell.value)


def _format_decimals(cell: Cell, number: float) -> str:
    """Return a number of a cell with the decimals of its metric."""
    return f"{number:.{get_style(cell.metric).decimals}f}"


def _format_sd(cell: Cell) -> str:
    """Return the standard deviation as it follows a number; an empty text if there is none."""
    if cell.value is None or cell.sd is None:
        return ""
    return f" ± {_format_decimals(cell, cell.sd)}"


def _format_interval(cell: Cell) -> str:
    """Return the interval as it follows a number; an empty text if there is none."""
    if cell.value is None or cell.interval is None:
        return ""
    low, high = cell.interval
    return f" [{_format_decimals(cell, low)}, {_format_decimals(cell, high)}]"


def _format_paper_value(cell: Cell) -> str:
    """Return the paper value with its standard deviation if the paper gives one."""
    if cell.paper_sd is None:
        return cell.paper_text
    return f"{cell.paper_text} ± {cell.paper_sd:g}"


def list_reasons(declaration: Declaration, cells: Sequence[Cell]) -> list[str]:
    """Return the reasons of one profile's cells, each once: reasons of single cells, then reasons
    of all cells.
    """
    grid = lay_out_grid(declaration, cells)
    return [*format_notes(grid), *grid.general]


def format_notes(grid: Grid) -> list[str]:
    """Return the reasons of single cells in the order of their numbers, each with its number of
    cells if several.
    """
    lines = []
    for reason, count in grid.notes:
        if count > 1:
            reason += f" ({count} cells)"
        lines.append(reason)
    return lines


def _number_notes(grid: Grid, form: str) -> list[str]:
    """Return the reasons of single cells with their numbers; `form` puts a number before a reason."""
    return [form.format(*entry) for entry in enumerate(format_notes(grid), 1)]


def _compute_heading_spans(grid: Grid, level: int) -> list[tuple[str, int]]:
    """Return the headings of one level, each with the number of columns that it spans.

    A heading spans adjacent columns that have the same headings down to this level. A heading of
    the lowest level spans one column.
    """
    if level == len(grid.columns[0]) - 1:
        return [(names[level], 1) for names in grid.columns]
    spans = []
    # Columns are sorted by their headings, so equal headings are adjacent.
    for names, columns in itertools.groupby(
        grid.columns, key=lambda names: names[: level + 1]
    ):
        spans.append((names[level], len(list(columns))))
    return spans


# Markdown


def format_markdown(
    declaration: Declaration,
    cells: Sequence[Cell],
    significance: SignificanceTests = UNPAIRED,
) -> str:
    """Return a table as Markdown: a section for each profile, with its reasons below the rows."""
    parts = [f"# {declaration.id}: {declaration.title}\n"]
    for profile, grid in lay_out_profiles(declaration, cells, significance).items():
        parts.append(f"## Profile `{profile}`\n")
        parts += _format_markdown_grid(grid)
    if not cells:
        parts.append("No model of this study belongs in this table.\n")
    parts += [LEGEND, "", *declaration.notes]
    return "\n".join(parts) + "\n"


def _format_markdown_grid(grid: Grid) -> list[str]:
    """Return the lines of one profile: header, rows, numbered reasons, general reasons."""
    columns = [" ".join(filter(None, names)) for names in grid.columns]
    headings = [_escape_markdown(name) for name in (*grid.corner, *columns)]
    lines = [
        _format_markdown_row(headings),
        _format_markdown_row(["---"] * len(headings)),
    ]
    for names, entries in grid.rows:
        texts = [*map(_escape_markdown, names), *map(_format_markdown_cell, entries)]
        lines.append(_format_markdown_row(texts))
    lines.append("")
    lines += _number_notes(grid, "{}. {}")
    return [*lines, "", *grid.general, ""]


def _format_markdown_cell(marked: MarkedCell | None) -> str:
    if marked is None:
        return ""
    value = _format_value(marked.cell)
    # Only the value itself is bold; deviation, interval and paper value follow as they are.
    rest = format_cell(marked.cell).removeprefix(value)
    bold = "**" * marked.best
    text = _escape_markdown(f"{bold}{value}{bold}{rest}")
    return f"{CHANCE_MARK * marked.at_chance}{text}{_format_note_number(marked)}"


def _format_note_number(marked: MarkedCell) -> str:
    if not marked.note:
        return ""
    return f"<sup>{marked.note}</sup>"


def _format_markdown_row(texts: Iterable[str]) -> str:
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
"""Style sheet of an HTML page with one table."""


def format_html_page(
    declaration: Declaration,
    cells: Sequence[Cell],
    significance: SignificanceTests = UNPAIRED,
) -> str:
    """Return a table as an HTML page: a section for each profile, with its reasons below the rows."""
    parts = [
        "<!doctype html>",
        f"<html lang='en'><head><meta charset='utf-8'><title>{escape(declaration.id)}</title>",
        f"<meta name='viewport' content='width=device-width'><style>{STYLE}</style></head><body>",
        f"<h1>{escape(declaration.id)}: {escape(declaration.title)}</h1>",
    ]
    for profile, grid in lay_out_profiles(declaration, cells, significance).items():
        parts += [f"<h2>Profile {escape(profile)}</h2>", _format_html_grid(grid)]
    if not cells:
        parts.append("<p>No model of this study belongs in this table.</p>")
    parts += [f"<p>{escape(line)}</p>" for line in (LEGEND, *declaration.notes)]
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _format_html_grid(grid: Grid) -> str:
    """Return the table of one profile and its reasons as HTML; all texts are escaped."""
    notes = "".join(f"<li>{escape(line)}</li>" for line in format_notes(grid))
    general = "".join(f"<p class='general'>{escape(line)}</p>" for line in grid.general)
    return (
        f"<div class='scroll' tabindex='0'><table><thead>{_format_html_head(grid)}</thead>"
        f"<tbody>{_format_html_body(grid)}</tbody></table></div>"
        f"<ol class='reasons'>{notes}</ol>{general}"
    )


def _format_html_head(grid: Grid) -> str:
    """Return the rows of headings as HTML; headings above the names of rows span all levels."""
    levels = len(grid.columns[0])
    corner = "".join(
        f'<th scope="col" rowspan="{levels}">{escape(name)}</th>'
        for name in grid.corner
    )
    rows = []
    for level in range(levels):
        headings = []
        for name, width in _compute_heading_spans(grid, level):
            scope = "col"
            if width > 1:
                scope = "colgroup"
            headings.append(
                f'<th scope="{scope}" colspan="{width}">{escape(name)}</th>'
            )
        rows.append(f"<tr>{corner}{''.join(headings)}</tr>")
        # The headings above the names of rows stand in the first row alone and span the others.
        corner = ""
    return "".join(rows)


def _format_html_body(grid: Grid) -> str:
    """Return the rows as HTML; if rows have several names, the first row of each group gets a
    class.
    """
    rows = []
    group: tuple[str, ...] = ()
    for names, entries in grid.rows:
        is_first = len(names) > 1 and names[:1] != group
        group = names[:1]
        css_class = ""
        if is_first:
            css_class = ' class="group"'
        headings = "".join(f'<th scope="row">{escape(name)}</th>' for name in names)
        rows.append(
            f"<tr{css_class}>{headings}{''.join(map(_format_html_cell, entries))}</tr>"
        )
    return "".join(rows)


def _format_html_cell(marked: MarkedCell | None) -> str:
    if marked is None:
        return "<td></td>"
    classes = (
        marked.cell.verdict.replace(" ", "-"),
        "best" * marked.best,
        "at-chance" * marked.at_chance,
    )
    value = escape(_format_value(marked.cell))
    rest = escape(format_cell(marked.cell)).removeprefix(value)
    if marked.best:
        value = f"<strong>{value}</strong>"
    css_class = " ".join(filter(None, classes))
    text = f"{CHANCE_MARK * marked.at_chance}{value}{rest}{_format_note_number(marked)}"
    return f'<td class="{css_class}">{text}</td>'


# LaTeX

LATEX_LEGEND = (
    "Above a value: = equal to the paper, ≈ compatible, ≠ differs, a number: its reason. Below it: n, where it varies."
    " ± standard deviation. In the line below: the interval. In brackets: the paper value. Bold: best of several"
    f" models, where its lead over the second best is significant ({BOLD_RULE}). Underlined: at or below chance. – no"
    " value."
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
"""LaTeX for letters that it does not take as they are."""
UNKNOWN_LETTER = re.compile(rf"[^\x00-\u017f{re.escape(''.join(SPECIAL))}]")
"""Pattern of letters that LaTeX does not know."""
INDEXED = re.compile(r"\b(acc|p|T-SHAP)\\_([crf])\b")
"""Pattern of the names of metrics with an index, after escaping for LaTeX."""
PARAGRAPH = 34
"""Largest number of letters of a text in a column that is not set as a paragraph."""
FINE = 2
"""Number of fields of a row's name: where one of the first fields changes, rows with more fields
get some space.
"""
LONG = 9
"""Largest number of letters of a heading that is not broken at its hyphens."""


def format_latex(
    declaration: Declaration,
    cells: Sequence[Cell],
    significance: SignificanceTests = UNPAIRED,
) -> str:
    """Return a table as LaTeX: one `table` environment for each profile, which needs booktabs,
    graphicx and amssymb.

    As in the papers, rows with the same first name form a group, and the best value is bold where a
    test shows it.
    """
    parts = ["% needs \\usepackage{booktabs,graphicx,amssymb} and UTF-8"]
    for profile, grid in lay_out_profiles(declaration, cells, significance).items():
        parts.append(_format_latex_table(declaration, profile, grid))
    if not cells:
        parts.append("% no model of this study belongs in this table")
    return "\n".join(parts) + "\n"


def escape_latex(text: str) -> str:
    """Return a text escaped for LaTeX; letters that LaTeX does not know become question marks."""
    known_letters = UNKNOWN_LETTER.sub("?", text)
    escaped = "".join(SPECIAL.get(letter, letter) for letter in known_letters)
    return INDEXED.sub(r"\1$_{\2}$", escaped)


def _format_latex_table(declaration: Declaration, profile: str, grid: Grid) -> str:
    """Return the `table` environment of one profile."""
    # A number of items that all numbers share is said once in the caption.
    common_n = _find_common_n(grid)
    caption = f"{declaration.title} ({declaration.id}, profile {profile})."
    if common_n:
        caption += f" n = {common_n} everywhere."
    below = [LATEX_LEGEND]
    if grid.notes:
        below.append("; ".join(_number_notes(grid, "{}: {}")) + ".")
    below += grid.general
    entries_by_column = zip(*(entries for _, entries in grid.rows), strict=True)
    columns = "l" * len(grid.corner) + "".join(map(_align_column, entries_by_column))
    body = "\n".join(
        [*_format_latex_head(grid), *_format_latex_body(grid, common_n is None)]
    )
    # The table shrinks to the page: first to 80 % of its height, then to the width of a line.
    return (
        "\\begin{table}[p]\n\\centering\n"
        f"\\caption{{{escape_latex(caption)}}}\n\\label{{tab:{declaration.id}-{profile}}}\n"
        "\\resizebox*{!}{\\ifdim\\totalheight>.8\\textheight .8\\textheight\\else\\totalheight\\fi}{%\n"
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n"
        f"\\begin{{tabular}}{{@{{}}{columns}@{{}}}}\n\\toprule\n{body}\n\\bottomrule\n\\end{{tabular}}}}}}\n\n"
        f"\\smallskip\\parbox{{\\linewidth}}{{\\scriptsize {escape_latex(' '.join(below))}}}\n\\end{{table}}\n"
    )


def _find_common_n(grid: Grid) -> int | None:
    """Return the number of items that all numbers of a grid have; None if they have different
    numbers of items.
    """
    sizes = set()
    for _, entries in grid.rows:
        sizes |= {
            marked.cell.n
            for marked in filter(None, entries)
            if _shows_number(marked.cell)
        }
    if len(sizes) != 1:
        return None
    return sizes.pop()


def _shows_number(cell: Cell) -> bool:
    """Return whether a cell shows a number; an undefined number counts."""
    return cell.value is not None or cell.text == UNDEFINED


def _align_column(column: Sequence[MarkedCell | None]) -> str:
    """Return the alignment of a column: `r` for numbers, `l` for texts, a paragraph for long texts."""
    texts = {marked.cell.text for marked in column if marked}
    longest = max(map(len, texts - {UNDEFINED}), default=0)
    if longest > PARAGRAPH:
        return "p{5cm}"
    if longest > 0:
        return "l"
    return "r"


def _format_latex_head(grid: Grid) -> list[str]:
    """Return the lines of the headings, level by level, with a rule below each heading of several
    columns.
    """
    lines = []
    lowest = len(grid.columns[0]) - 1
    # Upper levels: headings of several columns, each with a rule that spans the same columns
    # (counted from 1).
    for level in range(lowest):
        headings = [""] * len(grid.corner)
        rules = []
        first_column = len(grid.corner) + 1
        for name, width in _compute_heading_spans(grid, level):
            headings.append(f"\\multicolumn{{{width}}}{{c}}{{{escape_latex(name)}}}")
            rules.append(f"\\cmidrule(lr){{{first_column}-{first_column + width - 1}}}")
            first_column += width
        lines.append(" & ".join(headings) + r" \\")
        lines.append("".join(rules))
    # Lowest level: a heading for each column, those of the names of rows included.
    headings = [escape_latex(name) for name in grid.corner]
    headings += [
        _stack_heading(name) for name, _ in _compute_heading_spans(grid, lowest)
    ]
    lines.append(" & ".join(headings) + r" \\")
    lines.append(r"\midrule")
    return lines


def _stack_heading(name: str) -> str:
    """Return a heading for LaTeX; a long one is broken into several lines."""
    if len(name) <= LONG or "-" not in name:
        return escape_latex(name)
    lines = r" \\ ".join(map(escape_latex, name.split("-")))
    return f"\\shortstack[r]{{{lines}}}"


def _format_latex_body(grid: Grid, shows_n: bool) -> list[str]:
    """Return the lines of the rows in groups with the same first name, which is written once.

    Args:
        grid: The profile.
        shows_n: Whether each number is written with its number of items.
    """
    lines: list[str] = []
    above: Names = ()
    for names, entries in grid.rows:
        lines += _separate_rows(above, names)
        texts = [escape_latex(name) for name in _omit_repeated_names(names, above)]
        texts += [_format_latex_cell(marked, shows_n) for marked in entries]
        lines.append(" & ".join(texts) + r" \\")
        lines += _format_latex_intervals(len(names), entries)
        above = names
    return lines


def _format_latex_intervals(
    names: int, entries: Sequence[MarkedCell | None]
) -> list[str]:
    """Return the line of the intervals below a row, as a list of at most one line.

    Args:
        names: Number of names of the row, which the line leaves empty.
        entries: Cells of the row.
    """
    intervals = []
    for marked in entries:
        interval = ""
        if marked is not None:
            interval = _format_interval(marked.cell).strip()
        if interval:
            interval = f"{{\\scriptsize {interval}}}"
        intervals.append(interval)
    if not any(intervals):
        return []
    return [" & ".join([""] * names + intervals) + r" \\"]


def _separate_rows(above: Names, names: Names) -> list[str]:
    """Return the rule or space between two rows, as a list of at most one line.

    Args:
        above: Names of the upper row; empty above the first row.
        names: Names of the lower row.
    """
    if not above:
        return []
    # The last name is different in each row, so it separates nothing.
    group, group_above = names[:-1], above[:-1]
    if group[:1] != group_above[:1]:
        return [r"\midrule"]
    # Rows with three names or more also get space where one of the first two names changes.
    if group[:FINE] != group_above[:FINE]:
        return [r"\addlinespace[2pt]"]
    return []


def _omit_repeated_names(names: Names, above: Names) -> Names:
    """Return the names of a row without the names that it repeats from the row above.

    A name is repeated if it and all names before it are the same in both rows. Repeated names
    become empty texts; the last name always stays.
    """
    titles = list(names)
    for position in range(len(names) - 1):
        if names[: position + 1] == above[: position + 1]:
            titles[position] = ""
    return tuple(titles)


def _format_latex_cell(marked: MarkedCell | None, shows_n: bool) -> str:
    """Return a cell with its marks for LaTeX; `shows_n` says whether its number of items is added."""
    if marked is None:
        return ""
    cell = marked.cell
    text = escape_latex(_format_value(cell))
    if marked.best:
        text = f"\\textbf{{{text}}}"
    if marked.at_chance:
        text = f"\\underline{{{text}}}"
    text += _format_latex_scripts(marked, shows_n)
    if cell.value is not None and cell.sd is not None:
        text += f" {{\\scriptsize $\\pm${_format_decimals(cell, cell.sd)}}}"
    paper_text = _format_paper_value(cell)
    if paper_text:
        text += f" {{\\scriptsize ({escape_latex(paper_text)})}}"
    return text


def _format_latex_scripts(marked: MarkedCell, shows_n: bool) -> str:
    """Return the superscript (verdict, note) and subscript (number of items) of a value; an empty
    text for neither.
    """
    cell = marked.cell
    # Marks such as ≈ are escaped as formulas; here they stand in one already, so the dollar signs
    # go.
    verdict = escape_latex(VERDICT_MARKS.get(cell.verdict, "")).strip("$")
    above = "{,}".join(filter(None, (verdict, str(marked.note or ""))))
    has_n = bool(cell.n) and _shows_number(cell)
    scripts = ""
    if above:
        scripts += f"^{{{above}}}"
    if shows_n and has_n:
        scripts += f"_{{{cell.n}}}"
    if not scripts:
        return ""
    return f"${scripts}$"
