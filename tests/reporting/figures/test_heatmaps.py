"""Heatmaps of Shapley values."""

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib import pyplot, rcParams
from matplotlib.colors import to_rgb

from waltz.reporting.figures.figure_files import save_figure
from waltz.reporting.figures.heatmaps import (
    WIDTH,
    Heatmap,
    HeatmapPanel,
    draw_heatmaps,
    lay_out_tokens,
)


def spans_of(text):
    return [
        {"start": word.start(), "end": word.end()} for word in re.finditer(r"\S+", text)
    ]


def sample(text="a dog runs", grid=2, phi=None, side=20, spans=None, **facts):
    spans = spans_of(text) if spans is None else spans
    edges = side // grid * np.arange(grid + 1)
    cells = np.full((side, side), grid**2)
    for patch in range(grid**2):
        row, column = divmod(patch, grid)
        cells[edges[row] : edges[row + 1], edges[column] : edges[column + 1]] = patch
    phi = (
        np.linspace(-1, 1, len(spans) + grid**2)
        if phi is None
        else np.asarray(phi, dtype=float)
    )
    facts = {
        "score": 2.5,
        "t_shap": 0.4321,
        "t_shap_se": 0.012,
        "heading": "caption",
        **facts,
    }
    return HeatmapPanel(
        text=text,
        tokens=["token"] * len(spans),
        spans=spans,
        cells=cells,
        phi=phi,
        **facts,
    )


def image(side=20):
    return np.random.default_rng(0).random((side, side, 3))


def written(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def boxes(figure):
    """Rectangles with a face: the tokens' boxes, those of the first row first, then the legend's."""
    return [patch for patch in figure.axes[0].patches if patch.get_fill()]


def test_the_title_says_score_and_share():
    assert "caption: score 2.5, T-SHAP 43.2 ± 1.2 %" in written(
        draw_heatmaps(image(), [sample()])
    )
    without = sample(t_shap_se=math.nan, score=-1.0)
    assert "caption: score −1, T-SHAP 43.2 %" in written(
        draw_heatmaps(image(), [without])
    )
    assert "caption: score 2.5, T-SHAP not defined" in written(
        draw_heatmaps(image(), [sample(t_shap=math.nan, t_shap_se=math.nan)])
    )


def test_values_as_they_are_and_percents_of_their_modality():
    # text 1, -3: 25 % and -75 %; image -2, 0, 0, 6: -25 % and 75 %
    figure = draw_heatmaps(image(), [sample("a dog", phi=[1, -3, -2, 0, 0, 6])])
    words = written(figure)
    assert [word for word in words if word[:1] in ("+", "−", "0")] == [
        *("+1.0", "−3.0", "+25", "−75"),
        *("−2.0", "0", "0", "+6.0", "−25", "0", "0", "+75"),
    ]


def test_blue_speaks_for_red_against_with_hatching():
    figure = draw_heatmaps(image(), [sample("a dog", phi=[3, -3, 0, 0, 0, 0])])
    for_it, against = (patch.get_facecolor()[:3] for patch in boxes(figure)[:2])
    assert for_it[2] > for_it[0] + 0.2
    assert against[0] > against[2] + 0.2
    hatched = [patch.get_xy() for patch in figure.axes[0].patches if patch.get_hatch()]
    assert boxes(figure)[1].get_xy() in hatched
    assert boxes(figure)[0].get_xy() not in hatched


def test_letters_can_be_read_on_every_color():
    def luminance(colour):
        linear = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
            for part in to_rgb(colour)
        ]
        return np.dot(linear, [0.2126, 0.7152, 0.0722])

    figure = draw_heatmaps(
        image(), [sample("a b c d e", phi=[-4, -2, 0, 2, 4, 0, 0, 0, 0])]
    )
    for box in boxes(figure):
        assert (luminance(box.get_facecolor()[:3]) + 0.05) / 0.05 > 3.5


def test_caption_and_foil_share_one_scale():
    small = sample("dog", phi=[1, 0, 0, 0, 0])
    figure = draw_heatmaps(
        image(), [small, sample("dog", phi=[10, 0, 0, 0, 0], heading="foil")]
    )
    first, second, third, fourth = (
        patch.get_facecolor() for patch in (boxes(figure)[place] for place in range(4))
    )
    assert first[2] - first[0] < third[2] - third[0]  # as they are: a tenth
    assert second == fourth  # renormalized: all of the text's


def test_pixels_of_no_patch_keep_their_grey():
    figure = draw_heatmaps(image(21), [sample(side=21, phi=[1, 1, 1, -5, -5, -5, -5])])
    shown = figure.axes[1].images[0].get_array()
    assert (np.ptp(shown[20, :], axis=-1) < 0.01).all()
    assert (np.ptp(shown[:20, :20], axis=-1) > 0.05).all()


def test_relevance_is_a_third_row():
    relevance = Heatmap(np.array([1.0, 3.0]), np.arange(9.0).reshape(3, 3))
    words = written(draw_heatmaps(image(), [sample("a dog", relevance=relevance)]))
    assert "attention relevance, in %" in words
    assert [word for word in words if word in ("25", "75")] == ["25", "75"]


def test_pieces_of_a_word_touch():
    spans = [{"start": 0, "end": 4}, {"start": 4, "end": 8}, {"start": 9, "end": 12}]
    first, second, third = lay_out_tokens(
        "skateing dog", ["skate", "##ing", "dog"], spans, WIDTH
    )
    assert (second.joined, third.joined) == (True, False)
    assert second.left == first.left + first.width
    assert third.left > second.left + second.width


def test_special_tokens_show_themselves():
    spans = [{"start": 0, "end": 0}, {"start": 0, "end": 3}]
    assert [
        box.label for box in lay_out_tokens("dog", ["[CLS]", "dog</w>"], spans, WIDTH)
    ] == ["[CLS]", "dog"]


def test_bytes_of_one_character_show_it_once():
    spans = [{"start": 0, "end": 1}] * 3
    assert [
        box.label for box in lay_out_tokens("é", ["Ã", "©", "x"], spans, WIDTH)
    ] == ["é", "·", "·"]


def test_spans_in_any_order_show_their_text():
    spans = [{"start": 6, "end": 14}, {"start": 0, "end": 5}, {"start": 15, "end": 19}]
    boxes = lay_out_tokens("a dog red ball here", ["?"] * 3, spans, WIDTH)
    assert [box.label for box in boxes] == ["red ball", "a dog", "here"]
    assert not any(box.joined for box in boxes)


def test_lines_keep_within_their_width_and_nothing_overlaps():
    text = " ".join(f"word{place}" * (1 + place % 4) for place in range(77))
    placed = lay_out_tokens(text, ["?"] * 77, spans_of(text), WIDTH)
    assert all(box.left >= 0 and box.left + box.width <= WIDTH + 1e-9 for box in placed)
    assert [box.label for box in placed] == text.split()
    for before, after in pairwise(placed):
        assert after.line == before.line + 1 or after.left >= before.left + before.width
    assert placed[-1].line >= 10


def test_a_word_longer_than_a_line_is_cut():
    (box,) = lay_out_tokens("x" * 500, ["?"], [{"start": 0, "end": 500}], WIDTH)
    assert box.label.endswith("x…")
    assert box.width <= WIDTH


def test_a_text_from_the_right_runs_from_the_right():
    text = "שלום עולם"
    first, second = lay_out_tokens(text, ["?", "?"], spans_of(text), WIDTH)
    assert first.left + first.width == pytest.approx(WIDTH)
    assert second.left + second.width < first.left


@pytest.mark.parametrize(
    "case",
    [
        sample("dog", grid=1),
        sample(" ".join(["word"] * 77), grid=9, side=225),
        sample("🐕 שלום مرحبا $x_1$ 犬 <b>&"),
        sample("", spans=[]),
        sample("dog", phi=[math.nan, 1, math.nan, 0, 0]),
        sample("dog", phi=np.zeros(5)),
        sample("dog", phi=[1e-9, 0, 0, 0, 1e-8]),
    ],
    ids=["one token", "77 tokens", "scripts", "no token", "NaN", "zeros", "tiny"],
)
def test_every_text_has_a_figure(case, tmp_path, recwarn):
    figure = draw_heatmaps(image(case.cells.shape[0]), [case])
    labels = [
        box.label for box in lay_out_tokens(case.text, case.tokens, case.spans, WIDTH)
    ]
    # As computed and renormalized.
    assert [text for text in written(figure) if text in labels] == 2 * labels
    save_figure(figure, [tmp_path / "x.svg"])
    assert ElementTree.parse(tmp_path / "x.svg").getroot().tag.endswith("svg")
    assert not recwarn.list


def test_the_same_sample_gives_the_same_bytes_and_leaves_nothing_behind(tmp_path):
    before = dict(rcParams), pyplot.get_fignums()
    for name in ("a", "b"):
        save_figure(
            draw_heatmaps(image(), [sample()], "title"),
            [tmp_path / f"{name}.svg", tmp_path / f"{name}.png"],
        )
    for form in ("svg", "png"):
        assert (tmp_path / f"a.{form}").read_bytes() == (
            tmp_path / f"b.{form}"
        ).read_bytes()
    assert "<dc:date>" not in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert (dict(rcParams), pyplot.get_fignums()) == before
