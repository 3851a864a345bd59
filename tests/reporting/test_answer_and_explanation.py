"""The figure of an answer above its explanation."""

import re
from dataclasses import replace

import numpy as np
from matplotlib import pyplot

from waltz.reporting.figures.answer_and_explanation import MAX_LINES, ExplainedText, draw_answer_and_explanation
from waltz.reporting.figures.frequencies import save_figure

CELLS = np.repeat(np.repeat(np.arange(4).reshape(2, 2), 10, axis=0), 10, axis=1)
IMAGE = np.random.default_rng(0).random((20, 20, 3))


def side(name, prompt, phi, generated_text="so", cells=None, **facts):
    spans = [{"start": word.start(), "end": word.end()} for word in re.finditer(r"\S+", prompt)]
    return ExplainedText(
        name, generated_text, prompt, ["?"] * len(spans), spans, np.asarray(phi, dtype=float), cells, **facts
    )


def written(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def numbers(figure):
    return [word for word in written(figure) if re.fullmatch(r"[+−]?[\d.]+", word)]


def boxes(figure):
    """The faces of the tokens' boxes: the answer's as they are and renormalised, then the explanation's."""
    return [patch.get_facecolor() for patch in figure.axes[0].patches if patch.get_fill()]


def test_mean_ratios_worked_by_hand():
    # the explanation's ratios: (1/4, -3/4) and (1, 0), their mean (5/8, -3/8)
    answer, explanation = side("answer", "a dog", [[1], [1]]), side("explanation", "a dog", [[1, 9], [-3, 0]])
    figure = draw_answer_and_explanation([answer, explanation], "title")
    assert numbers(figure) == ["+50", "+50", "+50", "+50", "+62", "−38", "+62", "−38"]
    assert written(figure)[0] == "title"
    assert "answer" in written(figure)
    assert len(figure.axes) == 1  # no image


def test_each_modality_is_renormalised():
    # text 1, 1 and image 0, 2, -6, 0
    phi = [[1], [1], [0], [2], [-6], [0]]
    shares = {"t_shap": 0.2, "t_shap_se": 0.013}
    sides = [side(name, "a dog", phi, cells=CELLS, **shares) for name in ("answer", "explanation")]
    figure = draw_answer_and_explanation(sides, "", IMAGE)
    assert numbers(figure)[:4] == ["+10", "+10", "+50", "+50"]
    patches = [text.get_text() for axes in figure.axes[1:4] for text in axes.texts]
    assert patches == ["0", "+20", "−60", "0", "0", "+25", "−75", "0"]
    assert {"answer, T-SHAP 20.0 ± 1.3 %", "explanation, T-SHAP 20.0 ± 1.3 %"} <= set(written(figure))
    assert len([axes for axes in figure.axes if axes.images]) == 6  # two ways to colour it and itself, on either side


def test_sides_share_one_scale_as_they_are():
    prompt = " ".join("abcdefghij")
    spread, one = side("answer", prompt, np.ones((10, 1))), side("explanation", "a b", [[1], [0]])
    faces = boxes(draw_answer_and_explanation([spread, one], ""))
    assert faces[0][0] > faces[20][0] + 0.2  # a tenth is paler than all
    assert faces[10] == faces[22]  # renormalised: the strongest of each side


def test_weak_tokens_are_left_out_and_nothing_is_not_a_number():
    weak = side("explanation", "a dog", [[1, 0], [0, 1e-4]])
    none = side("answer", "a dog", [[0], [0]], generated_text="")
    figure = draw_answer_and_explanation([none, weak], "")
    assert written(figure).count("NaN") == 4
    assert numbers(figure) == ["+100", "0", "+100", "0"]
    assert "(nothing)" in written(figure)


def test_long_explanations_are_cut_and_dollars_stay():
    text = "it costs $5 and $6, " * 100
    figure = draw_answer_and_explanation(
        [side("answer", "a", [[1]]), side("explanation", "a", [[1]], generated_text=text)], ""
    )
    lines = [line for line in written(figure) if line.startswith(("it", "costs", "$", "and"))]
    assert len(lines) == MAX_LINES
    assert lines[-1].endswith("…")


def test_nothing_leaves_the_page_or_stays_open(tmp_path):
    prompt = " ".join(f"word{place}" for place in range(50))
    phi = np.random.default_rng(1).normal(size=(54, 3))
    long = side("answer", prompt, phi, cells=CELLS)
    figure = draw_answer_and_explanation([long, replace(long, name="explanation")], "x", IMAGE)
    width, height = figure.get_size_inches()
    assert height < 40
    for patch in figure.axes[0].patches:
        assert 0 <= patch.get_x() <= patch.get_x() + patch.get_width() <= width
        assert 0 <= patch.get_y() <= patch.get_y() + patch.get_height() <= height
    save_figure(figure, [tmp_path / "a.svg"])
    save_figure(
        draw_answer_and_explanation([long, replace(long, name="explanation")], "x", IMAGE), [tmp_path / "b.svg"]
    )
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert not pyplot.get_fignums()
