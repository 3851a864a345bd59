"""Log-likelihood and VQAScore of texts with their images, worked by hand."""

import math
from dataclasses import replace

import pytest
from PIL import Image

from stand_ins.models.scripted_decoders import VOCABULARY, scripted
from stand_ins.records import build_items
from waltz.core.intervals import Resampling
from waltz.evaluation.decoder_rows import score_likelihood, score_vqascore
from waltz.evaluation.metrics.pair_metrics import NOT_APPLICABLE
from waltz.evaluation.metrics.summary import build_metric_records
from waltz.evaluation.prompting.decoder_outputs import DecoderSession
from waltz.evaluation.prompting.prompts import (
    build_equations_template,
    build_published_template,
)
from waltz.evaluation.prompting.questions import build_single_questions

HOW = Resampling(200, 0.95, 0)
ITEMS = build_items(
    [
        {
            "item_id": "i0",
            "instrument": "existence",
            "image": "m.png",
            "caption": "aab",
            "foil": "bbbbb",
        },
        {
            "item_id": "i1",
            "instrument": "existence",
            "image": "m.png",
            "caption": "abbb",
            "foil": "ab",
        },
    ]
)
VOICES = {
    "equations": lambda decoder: build_equations_template(decoder.render_chat),
    "published": lambda _: build_published_template("llava-vicuna"),
}


def session(decoder):
    return DecoderSession(decoder, lambda name: Image.new("RGB", (2, 2)))


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_a_text_is_worth_its_tokens(profile):
    """`a` follows everything with logit 3, all else with 0; prompts end in a line break, so no
    blank is added.
    """
    decoder = scripted(lambda text: {"a": 3.0})
    rows = score_likelihood(
        session(decoder), build_single_questions(ITEMS, "d"), VOICES[profile](decoder)
    )
    rest = math.log(math.exp(3) + VOCABULARY - 1)
    sums = {
        "aab": 6 - 3 * rest,
        "bbbbb": -5 * rest,
        "abbb": 3 - 4 * rest,
        "ab": 3 - 2 * rest,
    }
    by_key = {(row.item_id, row.role, row.setting): row for row in rows}
    for item in ITEMS:
        for role in ("caption", "foil"):
            text = getattr(item, role)
            mean, total = (
                by_key[item.item_id, role, f"log-likelihood{end}"]
                for end in ("", "-sum")
            )
            assert total.score == pytest.approx(sums[text], rel=1e-6)
            assert mean.score == pytest.approx(sums[text] / len(text), rel=1e-6)
            assert mean.tokens == len(text)
    metrics = {
        (row.setting, row.metric): row
        for row in build_metric_records({("m", "d"): rows}, [profile], HOW)
    }
    # mean: aab 2/3, bbbbb 0; abbb 1/4, ab 1/2 of their tokens are a. sum: fewer tokens, and more a
    assert metrics["log-likelihood", "acc_r"].measure.value == 50
    assert metrics["log-likelihood", "auroc"].measure.value == pytest.approx(
        100 * (1 + 1 + 1 + 0) / 4
    )
    assert metrics["log-likelihood-sum", "acc_r"].measure.value == 50
    assert metrics["log-likelihood-sum", "auroc"].measure.value == pytest.approx(
        100 * (1 + 0 + 1 + 0) / 4
    )
    assert metrics["log-likelihood", "p_c"].measure.reason == NOT_APPLICABLE


def test_a_blank_between_prompt_and_text_belongs_to_the_text():
    """Vocabularies of pieces have a token for a word and its blank, so that a text cannot begin
    after one.
    """
    decoder = scripted(lambda text: {" ": 2.0} if text.endswith("[/INST]") else {})
    rows = score_likelihood(
        session(decoder),
        build_single_questions(ITEMS[:1], "d"),
        build_published_template("llava-mistral"),
    )
    (row,) = [
        row
        for row in rows
        if (row.role, row.setting) == ("caption", "log-likelihood-sum")
    ]
    blank = 2 - math.log(math.exp(2) + VOCABULARY - 1)
    assert (row.tokens, row.score) == (
        4,
        pytest.approx(blank - 3 * math.log(VOCABULARY), rel=1e-6),
    )


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_vqascore_is_the_probability_of_yes(profile):
    logits = {"aab": 4.0, "bbbbb": 2.0, "abbb": 1.0, "ab": 5.0}

    def script(text):
        assert "Does this figure show" in text
        return next(
            {"Y": logit} for words, logit in logits.items() if f'"{words}"' in text
        )

    decoder = scripted(script)
    rows = score_vqascore(
        session(decoder), build_single_questions(ITEMS, "d"), VOICES[profile](decoder)
    )
    assert [row.role for row in rows] == ["caption", "foil"] * 2
    for row, text in zip(rows, logits, strict=True):
        expected = math.exp(logits[text]) / (math.exp(logits[text]) + VOCABULARY - 1)
        assert row.score == pytest.approx(expected, rel=1e-6)
        assert (row.probability, row.correct) == (None, None)
    metrics = {
        row.metric: row.measure.value
        for row in build_metric_records({("m", "d"): rows}, [profile], HOW)
    }
    assert (metrics["acc_r"], metrics["auroc"]) == (50, 25)  # 4 and 1 against 2 and 5


def test_a_text_that_cannot_be_read_has_an_error():
    decoder = scripted(lambda text: {}, window=100)
    items = [replace(ITEMS[0], foil="b" * 100)]
    template = build_equations_template(decoder.render_chat)
    for rows in (
        score_likelihood(
            session(decoder), build_single_questions(items, "d"), template
        ),
        score_vqascore(session(decoder), build_single_questions(items, "d"), template),
    ):
        assert {row.role for row in rows if row.error is None} == {"caption"}
        assert all((row.score is None) == (row.error is not None) for row in rows)
