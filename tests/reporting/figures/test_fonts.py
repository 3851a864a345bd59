"""Fonts for characters that the font of the style lacks."""

import warnings
from pathlib import Path
from shutil import copyfile

import matplotlib
import pytest
from matplotlib import font_manager

from waltz.reporting.figures import fonts
from waltz.reporting.figures.figure_files import save_figure, use_style
from waltz.reporting.figures.fonts import (
    FONT,
    choose_fonts,
    find_undrawable,
    list_fonts,
)
from waltz.reporting.figures.heatmaps import NotebookFigure, add_panel, write_text_at

ONLY_IN_STIX = "\u2a0b"
"""The sum with an integral, which DejaVu Sans lacks and STIXGeneral has."""
TIBETAN = "\u0f40\u0f41"


@pytest.fixture
def style_font(monkeypatch):
    """Leave the font of the style as the only installed font, and return the others."""
    entries = font_manager.fontManager.ttflist
    own = [entry for entry in entries if entry.name == FONT]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    fonts._index_fonts.cache_clear()
    fonts.warn_of_undrawable.cache_clear()
    yield own
    fonts._index_fonts.cache_clear()


@pytest.fixture
def stix(style_font, tmp_path):
    """Install STIXGeneral in a folder of the machine."""
    source = Path(matplotlib.get_data_path(), "fonts/ttf/STIXGeneral.ttf")
    file = copyfile(source, tmp_path / source.name)
    style_font.append(font_manager.ttfFontProperty(font_manager.get_font(str(file))))


def draw(text):
    with use_style():
        figure = NotebookFigure(figsize=(2, 1))
        write_text_at(add_panel(figure, 0, 0, 2, 1), 0.1, 0.5, text)
    return figure


def test_listed_fonts_of_the_machine_are_fonts_of_the_style(stix, monkeypatch):
    monkeypatch.setattr(fonts, "FALLBACK_FONTS", ("No Such Font", "STIXGeneral"))
    with use_style(**{"savefig.bbox": "standard"}):
        assert matplotlib.rcParams["font.family"] == [FONT, "STIXGeneral"]
        assert matplotlib.rcParams["savefig.bbox"] is None
    assert "STIXGeneral" not in matplotlib.rcParams["font.family"]


def test_any_font_of_the_machine_draws_what_the_style_lacks(stix):
    assert list_fonts() == choose_fonts("dog é שלום") == [FONT]
    assert choose_fonts(f"dog {ONLY_IN_STIX}") == [FONT, "STIXGeneral"]
    assert choose_fonts(TIBETAN) == [FONT]
    assert find_undrawable(f"{ONLY_IN_STIX} {TIBETAN}{TIBETAN}") == TIBETAN
    # Selectors, joiners and unknown spaces are no characters that one sees.
    assert find_undrawable("\ufe0f\u200d\u3000\n") == ""


def test_characters_that_no_font_has_are_named_in_one_line(
    style_font, tmp_path, caplog
):
    figure = draw(f"dog {TIBETAN} {ONLY_IN_STIX}")
    with warnings.catch_warnings(action="error"):
        figure.savefig(tmp_path / "a.png")
        figure._repr_png_()
        save_figure(figure, [tmp_path / "b.png", tmp_path / "b.pdf"])
    (message,) = caplog.messages
    assert (
        f"has 3 of its characters, drawn as boxes (such as {TIBETAN}{ONLY_IN_STIX})"
        in message
    )


def test_an_svg_and_known_characters_need_no_line(stix, tmp_path, caplog):
    save_figure(draw(TIBETAN), [tmp_path / "a.svg"])
    assert TIBETAN in (tmp_path / "a.svg").read_text(encoding="utf-8")
    with warnings.catch_warnings(action="error"):
        draw(ONLY_IN_STIX).savefig(tmp_path / "a.png")
    assert not caplog.records
