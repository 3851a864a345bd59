"""Scores and texts of a scripted decoder, and their cache."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from stand_ins.models import tiny_decoders
from stand_ins.models.scripted_decoders import scripted
from waltz.core.errors import UserError
from waltz.evaluation.prompting.decoder_outputs import (
    BLOCK_SIZE,
    DecoderQuery,
    DecoderSession,
    add_leading_space,
    find_continuation_tokens,
    find_label_tokens,
    find_published_label_tokens,
    generate_tokens,
    score_continuations,
    split_into_blocks,
)
from waltz.models.decoders.continuations import FIRST_STEP
from waltz.models.decoders.decoder import Sampling

QUERY = st.builds(
    DecoderQuery, st.sampled_from([None, "a", "b", "c"]), st.text("xyz", max_size=4)
)


@given(st.lists(QUERY, max_size=300), st.randoms())
def test_blocks_are_those_of_the_set_and_split_no_image(queries, shuffle):
    cut = list(split_into_blocks(queries))
    shuffle.shuffle(queries)
    assert list(split_into_blocks(queries)) == cut
    assert sorted(repr(query) for block in cut for query in block) == sorted(
        map(repr, set(queries))
    )
    assert all(len(block) >= BLOCK_SIZE for block in cut[:-1])
    images = [
        query.image
        for block in cut
        for query in {query.image: query for query in block}.values()
    ]
    named = [image for image in images if image is not None]
    assert len(named) == len(set(named))


def test_texts_without_image_fill_blocks_of_one_size():
    assert [
        len(block)
        for block in split_into_blocks(
            [DecoderQuery(None, str(place)) for place in range(130)]
        )
    ] == [
        64,
        64,
        2,
    ]


def test_finished_blocks_are_taken_from_their_folder(tmp_path):
    colour = {"m": 0}
    decoder = scripted(lambda text: {"A": float(len(text))})

    def ask(*texts, value=FIRST_STEP, labels_of=("A", "B")):
        queries = [DecoderQuery("m", f"<image>{text}(", labels_of) for text in texts]
        session = DecoderSession(
            decoder,
            lambda name: Image.new("RGB", (2, 2), (colour[name], 0, 0)),
            tmp_path / "cache.sqlite",
        )
        before = len(decoder.network.read_texts)
        scores = score_continuations(session, queries, find_label_tokens, value)
        return [scores[query].scores for query in queries], len(
            decoder.network.read_texts
        ) - before

    assert ask("one", "three") == ([(4.0, 0.0), (6.0, 0.0)], 2)
    assert ask("three", "one") == ([(6.0, 0.0), (4.0, 0.0)], 0)
    assert ask("three") == ([(6.0, 0.0)], 1)
    assert ask("one", "three", labels_of=("B", "A"))[1] == 2
    assert ask("one", "three", value="probability")[1] == 2
    colour["m"] = 9
    assert ask("one", "three")[1] == 2
    decoder.spec = tiny_decoders.spec("other")
    assert ask("one", "three")[1] == 2


def test_generated_text_is_cached_with_its_seed(tmp_path):
    heard = []

    def says(prompt, seed):
        heard.append(seed)
        return f"{prompt}{seed}" if seed else ""

    decoder = scripted(lambda text: {}, says=says)
    session = DecoderSession(
        decoder, lambda name: Image.new("RGB", (2, 2)), tmp_path / "cache.sqlite"
    )
    queries = [DecoderQuery(None, "a", seed=5), DecoderQuery(None, "bb", seed=0)]
    for _ in range(2):
        generations = generate_tokens(session, queries, 4, Sampling())
        assert [
            decoder.decode_text(generations[query].token_ids) for query in queries
        ] == ["a5", ""]
    assert sorted(heard) == [0, 5]
    generate_tokens(session, queries, 4, None)
    generate_tokens(
        session, [DecoderQuery(None, "a", seed=6), queries[1]], 4, Sampling()
    )
    assert len(heard) == 6


def test_a_failed_query_takes_nothing_from_its_neighbors(tmp_path):
    decoder = scripted(lambda text: {"A": float(len(text))}, window=30)

    def load(name):
        if name == "gone":
            raise UserError("gone is missing")
        return Image.new("RGB", (2, 2))

    queries = [
        DecoderQuery("m", "<image>x("),
        DecoderQuery("gone", "<image>x("),
        DecoderQuery("m", "<image>" + "y" * 40),
    ]
    queries = [
        DecoderQuery(query.image, query.prompt, ("A", "B"))
        for query in [*queries, DecoderQuery("m", "<image>zzz(")]
    ]
    done = []
    scores = score_continuations(
        DecoderSession(decoder, load, tmp_path / "cache.sqlite", done.append),
        queries,
        find_label_tokens,
        FIRST_STEP,
    )
    assert [scores[query].scores for query in queries] == [
        (2.0, 0.0),
        None,
        None,
        (4.0, 0.0),
    ]
    assert scores[queries[1]].error == "gone is missing"
    assert scores[queries[1]].tokens == 4
    assert "1 to 30 are read" in scores[queries[2]].error
    assert sum(done) == 4


def test_a_number_that_is_none_is_an_error():
    decoder = scripted(lambda text: {"B": float("nan")})
    query = DecoderQuery(None, "x(", ("A", "B"))
    (output,) = score_continuations(
        DecoderSession(decoder, Image.open), [query], find_label_tokens, FIRST_STEP
    ).values()
    assert (output.scores, output.error) == (None, "the model's score is nan")


def test_a_text_follows_behind_a_blank_unless_there_is_one():
    assert [
        add_leading_space(prompt, "Yes")
        for prompt in ("is: (", "ASSISTANT:", "assistant\n", "is ")
    ] == [
        "Yes",
        " Yes",
        "Yes",
        "Yes",
    ]


def test_published_labels_are_the_second_id_or_the_only_one():
    started, bare = scripted(lambda text: {}), scripted(lambda text: {}, start=False)
    assert find_published_label_tokens(
        started, started.build_prompt("x"), ("A", "B")
    ) == (65, 66)
    assert find_published_label_tokens(bare, bare.build_prompt("x"), ("A", "B")) == (
        65,
        66,
    )
    assert find_published_label_tokens(bare, bare.build_prompt("x"), ("yes", "no")) == (
        ord("e"),
        ord("o"),
    )
    with pytest.raises(UserError, match="yes, red two begin with the same token"):
        find_published_label_tokens(bare, bare.build_prompt("x"), ("yes", "red"))


def test_a_continuation_is_all_that_follows_and_must_fit():
    decoder = scripted(lambda text: {}, window=20)
    prompt = decoder.build_prompt("<image>is:")
    assert spelt(find_continuation_tokens(decoder, prompt, ("a dog",))) == " a dog"
    query = DecoderQuery("m", "<image>is:", ("a dog in",))
    (output,) = score_continuations(
        DecoderSession(decoder, lambda _: Image.new("RGB", (2, 2))),
        [query],
        find_continuation_tokens,
        "logit",
    ).values()
    assert output.scores == (0.0,) * 9
    # with the image 8 positions stand before: 12 characters and a blank no longer fit
    query = DecoderQuery("m", "<image>is:", ("a dog in red",))
    (output,) = score_continuations(
        DecoderSession(decoder, lambda _: Image.new("RGB", (2, 2))),
        [query],
        find_continuation_tokens,
        "logit",
    ).values()
    assert "8 positions and 13 more, at most 20 are read" in output.error


def spelt(ids):
    return "".join(map(chr, ids))


@pytest.mark.parametrize("kind", ["llama", "llava"])
def test_scores_match_transformers_for_any_batch(kind):
    torch.set_num_threads(1)
    decoder = (
        tiny_decoders.causal("llama") if kind == "llama" else tiny_decoders.llava()
    )
    image = Image.fromarray(
        np.random.default_rng(0).integers(0, 255, (24, 24, 3), dtype=np.uint8)
    )
    name, mark = (None, "") if kind == "llama" else ("m", "<image> ")
    texts = [
        "what is this ?",
        "is this a dog ? (",
        "USER : a red car sits on a table ASSISTANT :",
    ]
    queries = [DecoderQuery(name, mark + text, ("A", "B")) for text in texts]
    session = DecoderSession(decoder, lambda _: image)
    scores = score_continuations(session, queries, find_label_tokens, FIRST_STEP)
    for query in queries:
        alone = score_continuations(session, [query], find_label_tokens, FIRST_STEP)[
            query
        ]
        # Prompts of an image share a pass: rounding differs.
        assert alone.scores == pytest.approx(scores[query].scores, rel=2e-6)
        expected = logits_of(decoder, query.prompt, image)[-1]
        ids = [
            decoder.find_label_id(decoder.build_prompt(query.prompt), label)
            for label in query.continuations
        ]
        assert scores[query].scores == pytest.approx(expected[ids].tolist(), abs=1e-5)
    query = DecoderQuery(name, f"{mark}what is this ?", ("a red car",))
    scores = score_continuations(
        session, [query], find_continuation_tokens, "log-probability"
    )[query]
    prompt = decoder.build_prompt(query.prompt)
    log_probabilities = logits_of(
        decoder, f"{query.prompt} a red car", image
    ).log_softmax(dim=-1)
    ids = decoder.build_prompt(f"{query.prompt} a red car").ids[len(prompt.ids) :]
    expected = [
        log_probabilities[len(log_probabilities) - len(ids) - 1 + place, one].item()
        for place, one in enumerate(ids)
    ]
    assert len(ids) == 3
    assert scores.scores == pytest.approx(expected, abs=1e-5)


@torch.inference_mode()
def logits_of(decoder, text, image):
    """Logits after each token, by the model's own forward pass on what its processor makes."""
    if decoder.reads_images:
        given = decoder.processor(text=[text], images=[image], return_tensors="pt")
        return decoder.network.model(**given).logits[0]
    return decoder.network.model(
        **decoder.tokenizer([text], return_tensors="pt")
    ).logits[0]
