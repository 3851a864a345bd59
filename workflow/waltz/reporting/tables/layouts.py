"""Tables as Markdown and HTML; `latex` formats them as LaTeX."""

import html
from collections.abc import Iterable, Sequence

from waltz.reporting.tables.cells import Cell
from waltz.reporting.tables.declaration import Declaration
from waltz.reporting.tables.grid import Grid, MarkedCell, lay_out_grid
from waltz.reporting.tables.metric_styles import get_decimals
from waltz.reporting.tables.numbers import UNDEFINED
from waltz.reporting.tables.verdicts import COMPATIBLE, DIFFERS, EQUAL

VERDICT_MARKS = {EQUAL: "=", COMPATIBLE: "≈", DIFFERS: "≠"}
CHANCE_MARK = "▽"
LEGEND = (
    "= equal to the paper, ≈ compatible, ≠ differs; [low, high] is the interval, ± the standard deviation; n counts"
    " items; (…) is the paper value; – is no value, with its reason below; bold is the best of several models; ▽ is at"
    " or below chance."
)


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


def format_markdown(declaration: Declaration, cells: Sequence[Cell]) -> str:
    """Format a table as Markdown in each profile, with its reasons below."""
    parts = [f"# {declaration.id}: {declaration.title}\n"]
    for profile in dict.fromkeys(cell.profile for cell in cells):
        grid = lay_out_grid(declaration, [cell for cell in cells if cell.profile == profile])
        parts += [f"## Profile `{profile}`\n", _markdown_grid(grid), ""]
        parts += [f"{number}. {line}" for number, line in enumerate(format_notes(grid), 1)]
        parts += ["", *grid.general, ""]
    if not cells:
        parts.append("No model of this study belongs in this table.\n")
    parts += [LEGEND, "", *declaration.notes]
    return "\n".join(parts) + "\n"


def format_html_table(declaration: Declaration, cells: Sequence[Cell]) -> str:
    """Format one profile's table as HTML, texts escaped."""
    grid = lay_out_grid(declaration, cells)
    if not cells:
        return "<p>No model of this study belongs in this table.</p>"
    levels = len(grid.columns[0])
    head = []
    for level in range(levels):
        corner = "".join(f'<th scope="col" rowspan="{levels}">{html.escape(name)}</th>' for name in grid.corner)
        names = "".join(
            f'<th scope="{"col" if width == 1 else "colgroup"}" colspan="{width}">{html.escape(name)}</th>'
            for name, width in compute_spans(grid, level)
        )
        head.append(f"<tr>{corner if level == 0 else ''}{names}</tr>")
    body = []
    group: tuple[str, ...] = ()
    for entries, row in grid.rows:
        first = ' class="group"' if len(entries) > 1 and entries[:1] != group else ""
        text = "".join(f'<th scope="row">{html.escape(name)}</th>' for name in entries)
        body.append(f"<tr{first}>{text}{''.join(map(_html_cell, row))}</tr>")
        group = entries[:1]
    notes = "".join(f"<li>{html.escape(line)}</li>" for line in format_notes(grid))
    general = "".join(f"<p class='general'>{html.escape(line)}</p>" for line in grid.general)
    return (
        f"<div class='scroll' tabindex='0'><table><thead>{''.join(head)}</thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
        f"<ol class='reasons'>{notes}</ol>{general}"
    )


def format_html_page(declaration: Declaration, cells: Sequence[Cell]) -> str:
    """Format a table as an HTML page, in each profile."""
    parts = [
        "<!doctype html>",
        f"<html lang='en'><head><meta charset='utf-8'><title>{html.escape(declaration.id)}</title>",
        f"<meta name='viewport' content='width=device-width'><style>{STYLE}</style></head><body>",
        f"<h1>{html.escape(declaration.id)}: {html.escape(declaration.title)}</h1>",
    ]
    for profile in dict.fromkeys(cell.profile for cell in cells):
        part = [cell for cell in cells if cell.profile == profile]
        parts += [f"<h2>Profile {html.escape(profile)}</h2>", format_html_table(declaration, part)]
    if not cells:
        parts.append(format_html_table(declaration, cells))
    parts += [f"<p>{html.escape(line)}</p>" for line in (LEGEND, *declaration.notes)]
    return "\n".join([*parts, "</body></html>"]) + "\n"


def format_cell(cell: Cell, intervals: bool = True) -> str:
    """Format a cell: value, standard deviation, interval, n, paper value, verdict."""
    text = format_value(cell)
    decimals = get_decimals(cell.metric)
    if cell.value is not None and cell.sd is not None:
        text += f" ± {cell.sd:.{decimals}f}"
    if intervals and cell.value is not None and cell.ci_low is not None and cell.ci_high is not None:
        text += f" [{cell.ci_low:.{decimals}f}, {cell.ci_high:.{decimals}f}]"
    if intervals and cell.n and cell.text in ("", UNDEFINED):
        text += f" n {cell.n}"
    if paper_text := format_paper_value(cell):
        text += f" ({paper_text})"
    return f"{text} {VERDICT_MARKS[cell.verdict]}" if cell.verdict else text


def format_value(cell: Cell) -> str:
    """Format our number or text alone; a dash for none."""
    if cell.value is None:
        return cell.text or "–"
    return f"{cell.value:.{get_decimals(cell.metric)}f}"


def format_paper_value(cell: Cell) -> str:
    """Format the paper value with its standard deviation."""
    if cell.published_sd is None:
        return cell.published_text
    return f"{cell.published_text} ± {cell.published_sd:g}"


def format_notes(grid: Grid) -> list[str]:
    """Return each reason with the number of its cells."""
    return [reason if count == 1 else f"{reason} ({count} cells)" for reason, count in grid.notes]


def list_reasons(declaration: Declaration, cells: Sequence[Cell]) -> list[str]:
    """Return each reason of one profile's cells once."""
    grid = lay_out_grid(declaration, cells)
    return [*format_notes(grid), *grid.general]


def compute_spans(grid: Grid, level: int) -> list[tuple[str, int]]:
    """Return the headings of one level, each with the number of columns that it spans."""
    headings: list[tuple[str, int]] = []
    previous: tuple[str, ...] | None = None
    for names in grid.columns:
        if names[: level + 1] == previous and level < len(names) - 1:
            headings[-1] = (headings[-1][0], headings[-1][1] + 1)
        else:
            headings.append((names[level], 1))
        previous = names[: level + 1]
    return headings


def _html_cell(marked: MarkedCell | None) -> str:
    if marked is None:
        return "<td></td>"
    cell = marked.cell
    text = html.escape(format_cell(cell))
    value = html.escape(format_value(cell))
    strong = f"<strong>{value}</strong>" if marked.best else value
    text = f"{CHANCE_MARK if marked.at_chance else ''}{strong}{text.removeprefix(value)}"
    note = f"<sup>{marked.note}</sup>" if marked.note else ""
    return f'<td class="{_classes(marked)}">{text}{note}</td>'


def _classes(marked: MarkedCell) -> str:
    verdict = marked.cell.verdict.replace(" ", "-")
    return " ".join(filter(None, (verdict, "best" * marked.best, "at-chance" * marked.at_chance)))


def _markdown_grid(grid: Grid) -> str:
    names = [*grid.corner, *(" ".join(filter(None, column)) for column in grid.columns)]
    lines = [_line(map(_plain, names)), _line(["---"] * len(names))]
    lines += [_line([*map(_plain, row), *map(_markdown_cell, marked)]) for row, marked in grid.rows]
    return "\n".join(lines)


def _markdown_cell(marked: MarkedCell | None) -> str:
    if marked is None:
        return ""
    value = format_value(marked.cell)
    text = f"**{value}**" if marked.best else value
    note = f"<sup>{marked.note}</sup>" if marked.note else ""
    rest = format_cell(marked.cell).removeprefix(value)
    return f"{CHANCE_MARK if marked.at_chance else ''}{_plain(text)}{_plain(rest)}{note}"


def _line(names: Iterable[str]) -> str:
    return "| " + " | ".join(names) + " |"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    escaped = text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
    return escaped
