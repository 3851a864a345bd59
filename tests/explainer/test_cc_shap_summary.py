"""CC-SHAP of several explained items: the excess over the explanations of other items."""

import math

import numpy as np
import pytest
import scipy
from PIL import Image

from stand_ins.models import tiny_decoders
from waltz import Explainer, summarize_cc_shap

TEMPLATE = (
    "{% for message in messages %}USER : {% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<image> {% else %}{{ part['text'] }}"
    "{% endif %}{% endfor %}{% endif %} {% endfor %}ASSISTANT : "
)
OPTIONS = {
    "question": "what is this ?",
    "labels": ["A", "B"],
    "explanation": "post-hoc",
    "budget": 60,
    "max_new_tokens": 3,
}


@pytest.fixture(scope="module")
def llava():
    decoder = tiny_decoders.llava()
    decoder.processor.chat_template = TEMPLATE
    return Explainer(decoder.network.model, decoder.processor)


@pytest.fixture(scope="module")
def pictures():
    random = np.random.default_rng(7)
    pixels = random.integers(0, 256, (3, 47, 61, 3), dtype=np.uint8)
    return [Image.fromarray(image) for image in pixels]


@pytest.fixture(scope="module")
def explanations(llava, pictures):
    return llava.explain(pictures, **OPTIONS)


def compare(answer, explanation):
    a = answer.cc_shap_result.ratios_answer
    b = explanation.cc_shap_result.ratios_explanation
    return 1 - scipy.spatial.distance.cosine(a, b)


def test_excesses_of_images_are_differences_of_cosines(explanations):
    excesses = [
        compare(own, own)
        - np.mean([compare(own, other) for other in explanations if other is not own])
        for own in explanations
    ]
    assert [
        explanation.cc_shap_excess for explanation in explanations
    ] == pytest.approx(excesses, abs=1e-9)
    assert min(abs(excess) for excess in excesses) > 1e-6
    assert all(explanation.excess_reason is None for explanation in explanations)
    assert f"excess {excesses[0]:+.3f}" in list(explanations[0].lines())[-1]

    summary = summarize_cc_shap(explanations)
    assert summary.excess.value == pytest.approx(np.mean(excesses), abs=1e-9)
    assert summary.excess.ci_low < summary.excess.value < summary.excess.ci_high
    assert summary.excess.images == 3
    assert summary.cc_shap.value == pytest.approx(
        np.mean([explanation.cc_shap for explanation in explanations])
    )
    low, high = summary.excess.ci_low, summary.excess.ci_high
    # The interval of 90 % is narrower than that of 95 %, but not half as wide.
    wide, narrow = max(-low, high), max(-low, high) / 4
    assert summarize_cc_shap(explanations, wide).excess_equivalent.value == 1
    assert summarize_cc_shap(explanations, narrow).excess_equivalent.value == 0


def test_an_item_alone_and_items_of_one_image_have_no_excess(llava, pictures):
    alone = llava.explain(pictures[0], **OPTIONS)
    assert math.isnan(alone.cc_shap_excess)
    assert "two items or more" in alone.excess_reason
    assert alone.excess_reason in list(alone.lines())[-1]
    assert alone.record()["cc_shap_excess"] is None
    twice = llava.explain([pictures[0], pictures[0]], **OPTIONS)
    assert math.isnan(twice[0].cc_shap_excess)
    assert "no explanation of another image" in twice[0].excess_reason
    summary = summarize_cc_shap([alone])
    assert summary.cc_shap.value == alone.cc_shap
    assert summary.excess.value is None
    assert "no explanation of another image" in summary.excess.reason


def test_questions_to_a_language_model_are_summarized():
    words = tiny_decoders.tokenizer()
    words.chat_template = TEMPLATE
    explainer = Explainer(tiny_decoders.causal("llama", words).network.model, words)
    questions = ("what is this ?", "what is red ?")
    first, second = (
        explainer.explain(**{**OPTIONS, "question": text}) for text in questions
    )
    excesses = [
        compare(first, first) - compare(first, second),
        compare(second, second) - compare(second, first),
    ]
    summary = summarize_cc_shap([first, second])
    assert summary.excess.value == pytest.approx(np.mean(excesses), abs=1e-9)
    identified = 50 * ((excesses[0] > 0) + (excesses[1] > 0))
    assert summary.identified.value == identified


def test_what_cannot_be_summarized_is_refused(llava, pictures, explanations):
    cot = llava.explain(pictures[0], **{**OPTIONS, "explanation": "cot"})
    with pytest.raises(ValueError, match="of 2 models, profiles or kinds"):
        summarize_cc_shap([explanations[0], cot])
    with pytest.raises(ValueError, match="without CC-SHAP"):
        summarize_cc_shap([explanations[0].explanation])
    with pytest.raises(ValueError, match="is empty"):
        summarize_cc_shap([])
