"""Fonts of figures: the font of the style, and installed fonts for characters that it lacks."""

import logging
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import matplotlib
from matplotlib import font_manager

log = logging.getLogger(__name__)
FONT = "DejaVu Sans"
FALLBACK_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "Microsoft YaHei",
    "PingFang SC",
    "Hiragino Sans",
    "Yu Gothic",
    "Malgun Gothic",
    "Noto Sans Devanagari",
    "Noto Sans Bengali",
    "Noto Sans Thai",
    "Noto Emoji",
    "Segoe UI Emoji",
    "Symbola",
)
"""Fonts for characters that the font of the style lacks, such as Chinese, in the order in which
they are tried before all other fonts.
"""
COLOR_EMOJI, LAST_RESORT = "Color Emoji", "Last Resort"
"""Parts of names of fonts that are not used: matplotlib draws no colors, and the last resort is a
box.
"""
LISTED_CHARACTERS = 12
"""Largest number of characters that a message lists."""


@contextmanager
def allow_missing_glyphs() -> Iterator[None]:
    """Suppress warnings about characters that no font has; they are drawn as empty boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def list_fonts() -> list[str]:
    """Return the font of the style, followed by the installed fonts of `FALLBACK_FONTS`."""
    installed = _find_font_files()
    return [FONT, *(name for name in FALLBACK_FONTS if name in installed)]


def choose_fonts(text: str) -> list[str]:
    """Return the fonts that draw a text: the font of the style, and installed fonts that have the
    characters which it lacks, those of `FALLBACK_FONTS` first.
    """
    fonts = [FONT]
    missing = _find_missing(text, fonts)
    for name in dict.fromkeys([*list_fonts(), *sorted(_find_font_files())]):
        still_missing = _find_missing(missing, [name])
        if still_missing != missing:
            fonts.append(name)
            missing = still_missing
    return fonts


def find_undrawable(text: str) -> str:
    """Return the characters of a text that no installed font has, each once."""
    return _find_missing(text, choose_fonts(text))


@cache
def warn_of_undrawable(characters: str) -> None:
    """Log one line about characters that a figure shows as boxes, once for the same characters."""
    if not characters:
        return
    log.warning(
        "figure: no installed font has %d of its characters, drawn as boxes (such as %s); install a font that has"
        " them, such as Noto Sans CJK or Noto Emoji, or write an SVG",
        len(characters),
        characters[:LISTED_CHARACTERS],
    )


def _find_missing(text: str, fonts: list[str]) -> str:
    """Return the visible characters of a text that none of the fonts has, each once."""
    # Most texts are ASCII, which the font of the style has.
    if text.isascii():
        return ""
    files = _find_font_files()
    covered: set[int] = set()
    for name in fonts:
        covered |= _read_characters(files[name])
    missing = [character for character in text if ord(character) not in covered]
    return "".join(filter(_is_visible, dict.fromkeys(missing)))


def _is_visible(character: str) -> bool:
    """Return whether a character needs a glyph: no space, control or selector of a variation."""
    is_selector = "\ufe00" <= character <= "\ufe0f"
    return not is_selector and unicodedata.category(character)[0] not in "CZ"


def _find_font_files() -> dict[str, str]:
    """Return the file of each font that is installed on the machine, by its name."""
    return _index_fonts(len(font_manager.fontManager.ttflist))


@cache
def _index_fonts(count: int) -> dict[str, str]:
    """Return the files of fonts by name; `count` renews them after a font was added."""
    # Fonts of matplotlib, other than that of the style, are for formulas.
    own_folder = Path(matplotlib.get_data_path())
    files: dict[str, str] = {}
    for font in font_manager.fontManager.ttflist:
        if COLOR_EMOJI in font.name or LAST_RESORT in font.name:
            continue
        is_own = own_folder in Path(font.fname).parents
        if font.style == "normal" and (font.name == FONT or not is_own):
            files.setdefault(font.name, font.fname)
    return files


@cache
def _read_characters(file: str) -> frozenset[int]:
    """Return the code points of the characters that a font file has; none if it cannot be read."""
    try:
        return frozenset(font_manager.get_font(file).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()
