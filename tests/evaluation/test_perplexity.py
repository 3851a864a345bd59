import math

import numpy as np
import pytest
import torch

from conftest import build_network
from stand_ins.records import build_items
from waltz.core.files import parquet
from waltz.core.records import to_row
from waltz.core.schema import EVALUATION
from waltz.evaluation import perplexity
from waltz.fidelity import get_fidelity
from waltz.model_registry import ModelSpec
from waltz.models.text import causal

TEXTS = [
    "There are exactly four zebras in the picture.",
    "There are exactly six zebras in the picture.",
    "A man rides a horse on the table with the dog and the cat.",
    "zebra",
    "A cat",
    "A cat sits",
    "A cat sits.",
]


@pytest.fixture(params=["gpt2", "openai-gpt"])
def model(request, tokenizer):
    return causal.wrap_causal_model(
        ModelSpec(request.param, weights="none", revision="0"),
        build_network(request.param),
        tokenizer,
        "cpu",
    )


def _scores(model, texts, profile, folder, budget=32):
    return perplexity.compute_text_scores(
        texts, model, get_fidelity(profile), budget, folder, lambda _: None
    )


def _losses(network, ids, begin=0, end=None):
    window = torch.tensor([ids[begin:end]])
    with torch.inference_mode():
        logp = torch.log_softmax(network(input_ids=window).logits[0].double(), dim=-1)
    return [-float(logp[place, token]) for place, token in enumerate(window[0, 1:])]


def _released_script(network, ids, window, stride=3):
    """The released loop as its description reads: one forward pass a window, labels on its last
    three tokens.
    """
    if len(ids) <= stride:
        return math.inf  # it divides by the last window's first place, 0
    total, first = 0.0, 0
    for first in range(0, len(ids), stride):
        begin, end = max(first + stride - window, 0), min(first + stride, len(ids))
        losses = _losses(network, ids, begin, end)
        labelled = losses[-stride:] if end - begin > stride else losses
        total += stride * (sum(labelled) / len(labelled))
    return total / first


def test_equations_is_the_mean_loss_after_a_start_token(model, tmp_path):
    for sentence, score in _scores(
        model, TEXTS, "equations", tmp_path / "cache.sqlite"
    ).items():
        ids = [model.start, *model.tokenize(sentence)]
        expected = np.mean(_losses(model.network, ids))
        assert score.value == pytest.approx(-expected, abs=2e-5)
        assert score.tokens == len(ids) - 1


def test_published_is_the_released_loop(model, tmp_path):
    for sentence, score in _scores(
        model, TEXTS, "published", tmp_path / "cache.sqlite"
    ).items():
        ids = list(model.tokenize(sentence))
        assert score.value == pytest.approx(
            -_released_script(model.network, ids, model.window), abs=5e-5
        )


def test_published_on_texts_longer_than_the_window(model, tmp_path):
    long = " ".join(TEXTS[:3] * 3)
    assert len(model.tokenize(long)) > model.window
    (score,) = _scores(model, [long], "published", tmp_path / "cache.sqlite").values()
    expected = _released_script(model.network, list(model.tokenize(long)), model.window)
    assert score.value == pytest.approx(-expected, abs=5e-5)


def test_equations_refuses_what_does_not_fit_and_says_so(model, tmp_path):
    long = " ".join(TEXTS[:3] * 3)
    score = _scores(model, [long], "equations", tmp_path / "cache.sqlite")[long]
    assert score.value is None
    assert score.error == f"{score.tokens} tokens do not fit into a window of 64"


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_an_empty_text_has_no_score(model, tmp_path, profile):
    assert _scores(model, [""], profile, tmp_path / "cache.sqlite")[""].value is None


def test_without_a_start_token_the_first_token_is_context_only(tokenizer, tmp_path):
    from dataclasses import replace

    model = causal.wrap_causal_model(
        ModelSpec("m", weights="none", revision="0"),
        build_network("gpt2"),
        tokenizer,
        "cpu",
    )
    model = replace(model, start=None)
    scores = _scores(model, [TEXTS[0], "zebra"], "equations", tmp_path / "cache.sqlite")
    ids = list(model.tokenize(TEXTS[0]))
    assert scores[TEXTS[0]].value == pytest.approx(
        -np.mean(_losses(model.network, ids)), abs=2e-5
    )
    assert scores["zebra"].error == "no token has a context"


def test_what_was_computed_once_is_not_computed_again(model, tmp_path, monkeypatch):
    first = _scores(model, TEXTS, "equations", tmp_path / "cache.sqlite")
    monkeypatch.setattr(
        causal, "compute_node_losses", lambda *_: pytest.fail("computed again")
    )
    assert _scores(model, TEXTS, "equations", tmp_path / "cache.sqlite") == first


def test_other_weights_are_not_taken_for_these(model, tmp_path):
    from dataclasses import replace

    first = _scores(model, TEXTS, "equations", tmp_path / "cache.sqlite")
    other = causal.wrap_causal_model(
        model.spec, build_network("llama"), model.tokenizer, "cpu"
    )
    other = replace(other, fingerprint="other")
    assert _scores(other, TEXTS, "equations", tmp_path / "cache.sqlite") != first


def test_the_batch_size_changes_no_score_beyond_rounding(model, tmp_path):
    small = _scores(model, TEXTS, "equations", tmp_path / "a", budget=16)
    large = _scores(model, TEXTS, "equations", tmp_path / "b", budget=500)
    for sentence in TEXTS:
        assert small[sentence].value == pytest.approx(large[sentence].value, abs=2e-5)


def test_rows_carry_verdicts_and_ties_are_wrong(model, tmp_path):
    pairs = [
        (TEXTS[0], TEXTS[1]),
        (TEXTS[0], TEXTS[0]),
        ("zebra", "A cat"),
        ("", "zebra"),
    ]
    items = build_items(
        {"item_id": str(place), "image": "i", "caption": caption, "foil": foil}
        for place, (caption, foil) in enumerate(pairs)
    )
    rows = perplexity.score_pairs(
        items, model, ["published"], 64, tmp_path / "cache.sqlite", lambda _: None
    )
    parquet.build_table(list(map(to_row, rows)), EVALUATION)
    by_item = {(row.item_id, row.role): row for row in rows}
    better = by_item["0", "caption"].score > by_item["0", "foil"].score
    assert by_item["0", "caption"].prediction == ("caption" if better else "foil")
    assert by_item["0", "foil"].correct is better
    assert (
        by_item["1", "caption"].prediction,
        by_item["1", "caption"].correct,
    ) == ("tie", False)
    # Three tokens or fewer divide by zero.
    assert by_item["2", "caption"].score == -math.inf
    assert by_item["2", "caption"].prediction == "tie"
    assert by_item["3", "caption"].correct is None
    assert by_item["3", "caption"].error == "the text is empty"
    assert perplexity.count_ties(rows) == {"ties": 2, "unscored_items": 1}
