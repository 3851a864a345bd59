"""VL decoders behind a server give the numbers of the same network loaded here."""

import numpy as np
import pytest
from PIL import Image

from stand_ins.models import tiny_chat
from stand_ins.openai_server import MODEL, serve
from stand_ins.records import build_items
from waltz import Explainer
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.core.records import to_row
from waltz.evaluation.decoder_rows import GenerationSettings
from waltz.evaluation.decoder_tasks import build_template, evaluate_pairs
from waltz.evaluation.prompting.decoder_outputs import DecoderSession
from waltz.fidelity import EQUATIONS
from waltz.model_registry import ModelSpec, resolve_model
from waltz.models.decoders import endpoint, load_decoder, server
from waltz.models.decoders.coalitions import (
    DecoderCoalitions,
    Game,
    build_equations_players,
    build_published_players,
)
from waltz.models.decoders.continuations import FIRST_STEP, score_targets
from waltz.models.decoders.decoder import ChatTurn

CPU = Device("cpu", 1, "test")
SCORING = ["vllm", "untrusting", "llama.cpp"]
"""Dialects with the log-probabilities of any tokens."""
CHATS = [
    [ChatTurn("user", "what is the A?", image=True)],
    [
        ChatTurn("user", "what is this?", image=True),
        ChatTurn("assistant", "the answer is ("),
    ],
    [
        ChatTurn("user", "A or B?", image=True),
        ChatTurn("assistant", "A"),
        ChatTurn("user", "why?"),
        ChatTurn("assistant", "it is"),
    ],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_chat.write_llava(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def local(folder):
    return load_decoder(ModelSpec("local", "vision", str(folder), "local"), CPU)


@pytest.fixture(scope="module")
def image():
    levels = np.random.default_rng(0).integers(
        0, 256, (tiny_chat.SIDE, tiny_chat.SIDE, 3), dtype=np.uint8
    )
    return Image.fromarray(levels)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(endpoint, "FIRST_DELAY", 0.001)
    monkeypatch.delenv(endpoint.API_KEY, raising=False)


def connect(stand_in, folder, **entry):
    fields = {
        "kind": "vision",
        "weights": MODEL,
        "revision": "1",
        "server": stand_in.url,
        "tokenizer": str(folder),
    }
    return load_decoder(resolve_model("served", fields | entry), CPU)


def score_both(local, served, chats, image, targets, value):
    """Return the outcomes of targets after chats by the network, and by its server."""
    prompts = [local.build_prompt(local.render_chat(chat)) for chat in chats]
    return [
        score_targets(
            decoder,
            prompts,
            [decoder.prepare_image(image)] * len(prompts),
            targets,
            value,
        )
        for decoder in (local, served)
    ]


@pytest.mark.parametrize("dialect", SCORING)
def test_log_probabilities_are_those_of_the_network(local, folder, image, dialect):
    targets = [local.build_prompt(text).ids for text in (" A thing", "B)", "!")]
    if dialect == "llama.cpp":
        # The beginning of a character, which it leaves out.
        targets[2] = local.build_prompt("\u00e9").ids[:1]
    with serve(local, dialect) as stand_in:
        expected, scores = score_both(
            local, connect(stand_in, folder), CHATS, image, targets, "log-probability"
        )
    for row, expected_row in zip(scores, expected, strict=True):
        assert row == pytest.approx(expected_row, abs=1e-5)


@pytest.mark.parametrize("dialect", [*SCORING, "likeliest"])
def test_labels_differ_as_their_logits_do(local, folder, image, dialect):
    vocabulary = range(len(local.tokenizer))
    prompt = local.build_prompt(local.render_chat(CHATS[1]))
    (table,) = score_targets(
        local, [prompt], [local.prepare_image(image)], [vocabulary], FIRST_STEP
    )
    labels = [
        int(token)
        for token in np.argsort(-table)
        if local.tokenizer.decode([token]).isascii()
    ][:2]
    with serve(local, dialect) as stand_in:
        (expected,), (scores,) = score_both(
            local, connect(stand_in, folder), CHATS[1:2], image, [labels], FIRST_STEP
        )
    assert scores[0] - scores[1] == pytest.approx(expected[0] - expected[1], abs=1e-5)


@pytest.mark.parametrize("dialect", ["vllm", "untrusting"])
def test_generated_tokens_are_those_of_the_network(local, folder, image, dialect):
    prompts = [local.build_prompt(local.render_chat(chat)) for chat in CHATS]
    with serve(local, dialect) as stand_in:
        served = connect(stand_in, folder)
        own, generated = (
            decoder.generate(
                prompts, [decoder.prepare_image(image)] * 3, 6, None, [0] * 3
            )
            for decoder in (local, served)
        )
    assert generated == own
    assert len(set(own)) > 1


@pytest.mark.parametrize("dialect", ["llama.cpp", "likeliest", "bare"])
def test_a_text_without_ids_is_tokenized_again(
    local, folder, image, dialect, monkeypatch
):
    prompt = local.build_prompt(local.render_chat(CHATS[1]))
    (expected,) = local.generate([prompt], [local.prepare_image(image)], 6, None, [0])
    with serve(local, dialect) as stand_in:
        served = connect(stand_in, folder)
        (tokens,) = served.generate(
            [prompt], [served.prepare_image(image)], 6, None, [0]
        )
    text = local.tokenizer.decode(expected)
    assert tokens == tuple(local.tokenizer(text, add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize(
    "build_players", [build_equations_players, build_published_players]
)
def test_coalitions_of_words_and_patches_have_the_values_of_the_network(
    local, folder, image, build_players
):
    prompt, targets = (
        local.build_prompt(local.render_chat(CHATS[1])),
        local.build_prompt("A is").ids,
    )
    options = (
        {}
        if build_players is build_equations_players
        else {"masked_id": local.masked_id, "raw": True}
    )
    with serve(local) as stand_in:
        values = []
        for decoder in (local, connect(stand_in, folder)):
            picture = decoder.prepare_image(image)
            players = build_players(decoder, prompt, picture, grid=3, **options)
            coalitions = DecoderCoalitions(
                decoder, picture, [Game(players, targets, "probability")]
            )
            masks = (
                np.random.default_rng(0)
                .integers(0, 2, (30, len(players.always_visible)))
                .astype(bool)
            )
            values.append(coalitions.values([masks | players.always_visible])[0])
        images = {
            part["image_url"]["url"]
            for _, body in stand_in.requests
            for part in list_images(body)
        }
    assert np.ptp(values[0]) > 1e-4
    assert values[1] == pytest.approx(values[0], abs=1e-6)
    assert len(images) > 20


def list_images(body):
    content = body["messages"][0]["content"] if "messages" in body else []
    return [
        part
        for part in content
        if not isinstance(part, str) and part["type"] == "image_url"
    ]


def test_words_of_the_chat_template_cannot_be_masked_by_the_template_of_the_server(
    local, folder, image
):
    prompt, targets = (
        local.build_prompt(local.render_chat(CHATS[1])),
        local.build_prompt("A").ids,
    )
    words = [
        place for place, token in enumerate(prompt.tokens) if token in ("Ġis", "Ġth")
    ]
    values = []
    with serve(local, "untrusting") as stand_in:
        for decoder in (local, connect(stand_in, folder)):
            picture = decoder.prepare_image(image)
            players = build_equations_players(
                decoder, prompt, picture, positions=words, grid=2
            )
            coalitions = DecoderCoalitions(
                decoder, picture, [Game(players, targets, "log-probability")]
            )
            values.append(coalitions.values([np.tri(len(words) + 4, dtype=bool)])[0])
        assert values[1] == pytest.approx(values[0], abs=1e-5)
        players = build_equations_players(decoder, prompt, picture, grid=2)
        coalitions = DecoderCoalitions(
            decoder, picture, [Game(players, targets, "log-probability")]
        )
        with pytest.raises(
            UserError,
            match=r"served\.server: .* start vLLM with --trust-request-chat-template",
        ):
            coalitions.values([np.zeros((1, len(players.always_visible)), dtype=bool)])


def test_answers_about_pairs_are_those_of_the_network(local, folder, image, tmp_path):
    items = [
        {"item_id": "i0", "caption": "a dog", "foil": "no dog"},
        {"item_id": "i1", "caption": "the A", "foil": "the B"},
    ]
    common = {
        "instrument": "d",
        "image": "0.png",
        "caption_phrases": [],
        "foil_phrases": [],
    }
    items = build_items(item | common for item in items)
    orders = {"i0": True, "i1": False}
    tables = []
    with serve(local) as stand_in:
        for decoder in (local, connect(stand_in, folder)):
            session = DecoderSession(
                decoder, lambda name: image, tmp_path / f"{decoder.spec.name}.sqlite"
            )
            template = build_template(decoder, EQUATIONS)
            tables.append(
                list(
                    map(
                        to_row,
                        evaluate_pairs(
                            session,
                            items,
                            "d",
                            template,
                            orders,
                            GenerationSettings(7, cot_tokens=4),
                        ),
                    )
                )
            )
        stand_in.requests.clear()
        evaluate_pairs(
            session, items, "d", template, orders, GenerationSettings(7, cot_tokens=4)
        )
        assert not stand_in.requests  # stored
    assert len(tables[0]) == len(tables[1]) == 24
    for own, served in zip(*tables, strict=True):
        assert not own["error"]
        assert served["probability"] == (
            own["probability"] and pytest.approx(own["probability"], abs=1e-5)
        )
        numbers = dict.fromkeys(("model", "score", "rounding", "probability"))
        assert own | numbers == served | numbers
        # Else a logit, which differs by one number.
        if own["setting"] in (
            "vqascore",
            "likelihood",
        ):
            assert served["score"] == pytest.approx(own["score"], abs=1e-5)
            assert served["rounding"] == pytest.approx(own["rounding"], abs=1e-9)


def test_an_explainer_takes_a_url(local, folder, image):
    options = {
        "question": "what is this?",
        "labels": ["A", "B"],
        "max_new_tokens": 2,
        "budget": 200,
    }
    own = Explainer(str(folder), progress=False).explain(image, **options)
    with serve(local) as stand_in:
        explained = Explainer(stand_in.url, str(folder), progress=False).explain(
            image, **options
        )
    assert explained.text == pytest.approx(own.text, abs=1e-6)
    assert explained.image == pytest.approx(own.image, abs=1e-6)
    assert explained.cc_shap == pytest.approx(own.cc_shap, abs=1e-4)


def test_what_a_server_lacks_is_one_line(local, folder, image):
    def score(dialect, chat, targets):
        with serve(local, dialect) as stand_in:
            return score_both(
                local, connect(stand_in, folder), [chat], image, [targets], FIRST_STEP
            )

    ids = local.build_prompt("\u00e9").ids
    with pytest.raises(UserError, match=r"tiny is served without log-probabilities"):
        score("bare", CHATS[0], ids)
    with pytest.raises(UserError, match=r"tiny is served without log-probabilities"):
        score("strict", CHATS[0], ids)
    with pytest.raises(UserError, match=r"not among the \d+ likeliest tokens"):
        score("likeliest", CHATS[0], range(256))
    with pytest.raises(
        UserError,
        match=r"begins a new turn where an answer is to be continued \('the answer is \('",
    ):
        score("turns", CHATS[1], ids)
    with serve(local, "strict") as stand_in:
        served, prompts = (
            connect(stand_in, folder),
            [local.build_prompt(local.render_chat(chat)) for chat in CHATS[:2]],
        )
        assert served.generate(
            prompts[:1], [served.prepare_image(image)], 3, None, [0]
        ) != [()]
        with pytest.raises(UserError, match="begins a new turn"):
            served.generate(prompts[1:], [served.prepare_image(image)], 3, None, [0])


def test_a_server_with_another_chat_template_is_refused(local, folder):
    template = tiny_chat.CHAT.replace(
        "{% for message", "{{ 'system' }}{% for message", 1
    )
    processor = local.processor
    for dialect in ("untrusting", "likeliest", "bare"):
        try:
            processor.chat_template = template
            with (
                serve(local, dialect) as stand_in,
                pytest.raises(
                    UserError,
                    match=r"served\.server: the server makes \d+ tokens of a chat that has \d+ ",
                ),
            ):
                connect(stand_in, folder)
        finally:
            processor.chat_template = tiny_chat.CHAT


def test_a_server_that_reads_no_images_is_named(local, folder):
    with serve(local, "bare") as stand_in:
        stand_in.replies["/v1/chat/completions"] = {"choices": []}
        with pytest.raises(UserError, match=r"has no usable choices"):
            connect(stand_in, folder)


def test_masked_tokens_that_a_text_cannot_say_are_refused(local, folder):
    underscore = local.tokenizer.convert_tokens_to_ids("_")
    ids = [
        *local.build_prompt(local.render_chat([ChatTurn("user", "A")])).ids,
        underscore,
    ]
    with serve(local) as stand_in:
        served = connect(stand_in, folder).server
        list(
            served.score(
                [(server.ServedPrompt(ids), [local.build_prompt("A").ids[0]])],
                "probability",
            )
        )
        with pytest.raises(
            UserError, match=r"no text has the tokens of the prompt .*masked_token$"
        ):
            list(
                served.score([(server.ServedPrompt(ids), [underscore])], "probability")
            )
