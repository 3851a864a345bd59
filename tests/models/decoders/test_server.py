"""Decoders behind a server give the numbers of the same network loaded here."""

import base64
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from stand_ins.models import tiny_gguf
from stand_ins.openai_server import MODEL, serve
from waltz import Explainer
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.core.redaction import list_encoded_forms
from waltz.evaluation.decoder_tasks import build_template
from waltz.evaluation.prompting.decoder_outputs import choose_label
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import EQUATIONS
from waltz.model_registry import (
    ModelSpec,
    compute_fingerprint,
    estimate_gpu_memory,
    list_weight_files,
    resolve_model,
)
from waltz.models.decoders import endpoint, load_decoder, served_model, server
from waltz.models.decoders.coalitions import (
    DecoderCoalitions,
    Game,
    build_equations_players,
)
from waltz.models.decoders.continuations import (
    FIRST_STEP,
    generate_texts,
    score_targets,
    score_targets_in_batches,
)
from waltz.models.decoders.decoder import ChatTurn
from waltz.models.decoders.server_replies import Reply
from waltz.models.text.causal import load_causal_model
from waltz.preflight import model_checks
from waltz.preflight.checks import State

CPU = Device("cpu", 1, "test")
SCORING = ["vllm", "llama.cpp"]
"""Dialects with the log-probabilities of any tokens."""
TEXTS = ["the answer is", "an answer is the A", "what?"]
SPOILT = [None, "x", -1, 10**9, [], {}, [None]]
"""Values in the places of a reply's own."""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tiny_gguf.write_gguf(
        tmp_path_factory.mktemp("models") / "tiny.gguf", tiny_gguf.network()
    )


@pytest.fixture(scope="module")
def local(file):
    return load_decoder(ModelSpec("local", weights=str(file), revision="local"), CPU)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(endpoint, "FIRST_DELAY", 0.001)
    monkeypatch.delenv(endpoint.API_KEY, raising=False)


def connect(stand_in, file, **entry):
    fields = {
        "weights": MODEL,
        "revision": "F32",
        "server": stand_in.url,
        "tokenizer": str(file),
    } | entry
    return load_decoder(resolve_model("served", fields), CPU)


@pytest.mark.parametrize("dialect", [*SCORING, "text"])
def test_log_probabilities_are_those_of_the_network(local, file, dialect):
    prompts = [local.build_prompt(text) for text in TEXTS]
    targets = [local.build_prompt(text).ids for text in (" A thing", " B", "!")]
    with serve(local, dialect) as stand_in:
        served = connect(stand_in, file)
        for value in ("log-probability", "probability", "log-odds"):
            scores = score_targets(served, prompts, [None] * 3, targets, value)
            expected = score_targets(local, prompts, [None] * 3, targets, value)
            for row, expected_row in zip(scores, expected, strict=True):
                assert row == pytest.approx(expected_row, abs=1e-5)
        table = score_targets_in_batches(served, prompts, targets[0], "log-odds")
        assert table == pytest.approx(
            score_targets_in_batches(local, prompts, targets[0], "log-odds"), abs=1e-5
        )


def test_tokens_that_llama_cpp_leaves_out_have_log_probabilities(local, file):
    prompt = local.build_prompt(TEXTS[0])
    left_out = [*local.build_prompt("\u00e9\u4e2d\U0001f600").ids, *local.ends]
    with serve(local, "llama.cpp") as stand_in:
        (scores,) = score_targets(
            connect(stand_in, file), [prompt], [None], [left_out], "log-probability"
        )
        taken = [
            body["logit_bias"][0][0]
            for path, body in stand_in.requests
            if body.get("n_probs", 0) > 1
        ]
    (expected,) = score_targets(local, [prompt], [None], [left_out], "log-probability")
    assert scores == pytest.approx(expected, abs=1e-5)
    assert len(taken) == 4  # the first bytes of three characters, and the end


def test_a_token_without_any_log_probability_is_named(local, file):
    prompt, (first, _) = local.build_prompt(TEXTS[0]), local.build_prompt("\u00e9").ids
    with serve(local, "llama.cpp") as stand_in:
        served = connect(stand_in, file)
        letter = {"id": local.build_prompt("a").ids[0], "logprob": -1.0}
        for replies in (
            {},
            {"completion_probabilities": []},
            {"completion_probabilities": [letter]},
        ):
            stand_in.replies["/completion"] = replies
            fault = (
                "took token"
                if replies.get("completion_probabilities")
                else "returns no log-probability of"
            )
            with pytest.raises(
                UserError, match=rf"served\.server: .*{fault}.* {first}"
            ):
                score_targets(served, [prompt], [None], [[first]], "probability")


def spoil(reply: Any) -> Iterator[Any]:
    """Yield a reply with one of its values exchanged or left out."""
    yield from SPOILT
    if isinstance(reply, dict):
        for name, value in reply.items():
            yield {other: kept for other, kept in reply.items() if other != name}
            yield from (reply | {name: spoilt} for spoilt in spoil(value))
    elif isinstance(reply, list) and reply:
        yield from ([spoilt, *reply[1:]] for spoilt in spoil(reply[0]))


@pytest.mark.parametrize("dialect", [*SCORING, "text", "likeliest"])
def test_a_reply_without_its_fields_is_one_line(local, file, dialect):
    prompt, faults = server.ServedPrompt(list(local.build_prompt(TEXTS[0]).ids)), []
    with serve(local, dialect) as stand_in:
        served = connect(stand_in, file).server
        likeliest = (
            stand_in.compute_log_probabilities(prompt.ids)[-1]
            .topk(server.TOP_TOKENS)
            .indices.tolist()
        )
        target = next(
            token for token in likeliest if tiny_gguf.VOCABULARY[token].isascii()
        )
        for call in (
            lambda: list(served.score([(prompt, [target])], "probability")),
            lambda: served.generate([prompt], 2, {}, [0], 0, keep_end=True),
        ):
            stand_in.requests.clear()
            call()
            path, body = stand_in.requests[0]
            for reply in spoil(stand_in.reply(path, body)):
                stand_in.replies[path] = reply
                with suppress(UserError):
                    call()
                    continue
                faults.append(reply)
            for reply in ("x", {}, {"choices": [{}]}):
                stand_in.replies[path] = reply
                with pytest.raises(
                    UserError,
                    match=r"models\.served\.server: .*(the reply of http://|returns no log-pro)",
                ):
                    call()
            stand_in.replies.clear()
    assert len(faults) > 20


@pytest.mark.parametrize(
    ("dialect", "path"),
    [
        ("vllm", "/v1/models"),
        ("vllm", "/version"),
        ("vllm", "/tokenize"),
        ("llama.cpp", "/props"),
    ],
)
def test_what_a_server_says_of_itself_may_be_anything(
    local, file, dialect, path, monkeypatch
):
    monkeypatch.setattr(served_model, "load_tokenizer", lambda spec: local.tokenizer)
    monkeypatch.setattr(
        served_model, "_find_scoring", lambda server, is_llama_cpp: server
    )
    with serve(local, dialect) as stand_in:
        opened = server.open_server(stand_in.url, MODEL, "models.served.server")
        monkeypatch.setattr(served_model, "open_server", lambda *_: opened)
        for reply in spoil(stand_in.reply(path, {"prompt": served_model.PROBE})):
            stand_in.replies[path] = reply
            with suppress(UserError):
                connect(stand_in, file)
        stand_in.replies["/v1/models"] = {"data": [{"name": MODEL}]}
        with pytest.raises(
            UserError,
            match=rf"the reply of {stand_in.url}/models has no usable data\.0\.id \(Field requ",
        ):
            connect(stand_in, file)


@pytest.mark.parametrize("dialect", [*SCORING, "text", "likeliest"])
def test_labels_differ_as_their_logits_do(local, file, dialect):
    prompt = local.build_prompt(TEXTS[0])
    ids = np.argsort(
        -score_targets(
            local, [prompt], [None], [range(len(tiny_gguf.VOCABULARY))], FIRST_STEP
        )[0]
    )
    # Others decode to one text.
    labels = [int(token) for token in ids if tiny_gguf.VOCABULARY[token].isascii()][:2]
    with serve(local, dialect) as stand_in:
        (scores,) = score_targets(
            connect(stand_in, file), [prompt], [None], [labels], FIRST_STEP
        )
    (expected,) = score_targets(local, [prompt], [None], [labels], FIRST_STEP)
    assert scores[0] - scores[1] == pytest.approx(expected[0] - expected[1], abs=1e-5)


@pytest.mark.parametrize("dialect", SCORING)
def test_generated_tokens_are_those_of_the_network(local, file, dialect):
    prompts = [local.build_prompt(text) for text in TEXTS]
    with serve(local, dialect) as stand_in:
        served = connect(stand_in, file)
        assert served.generate(prompts, [None] * 3, 6, None, [0] * 3) == local.generate(
            prompts, [None] * 3, 6, None, [0] * 3
        )


@pytest.mark.parametrize("dialect", SCORING)
def test_an_early_end_is_passed_over(local, file, dialect, monkeypatch):
    prompt = local.build_prompt(TEXTS[0])
    first, second = local.generate([prompt], [None], 2, None, [0])[0]
    expected = generate_texts(
        local, [prompt], [None], 1, None, [0], min_tokens=1, keep_end=True
    )
    with serve(local, dialect) as stand_in:
        served = connect(stand_in, file)
        for model in (local, served.server):
            monkeypatch.setitem(vars(model), "ends", frozenset({first}))
        own = generate_texts(
            local, [prompt], [None], 3, None, [0], min_tokens=1, keep_end=True
        )
        assert (
            generate_texts(
                served, [prompt], [None], 3, None, [0], min_tokens=1, keep_end=True
            )
            == own
            != [()]
        )
        assert generate_texts(
            served, [prompt], [None], 3, None, [0], keep_end=True
        ) == [(first,)]
        for model in (local, served.server):
            monkeypatch.setitem(vars(model), "ends", frozenset({second}))
        assert generate_texts(
            served, [prompt], [None], 3, None, [0], keep_end=True
        ) == [(first, second)]
    assert expected == [(first,)]


@pytest.mark.parametrize("dialect", SCORING)
def test_coalitions_have_the_values_of_the_network(local, file, dialect):
    prompt = local.build_prompt(TEXTS[1])
    targets = local.build_prompt(" B is").ids
    with serve(local, dialect) as stand_in:
        values = []
        for decoder in (local, connect(stand_in, file)):
            players = build_equations_players(decoder, prompt, None)
            coalitions = DecoderCoalitions(
                decoder, None, [Game(players, targets, "probability")]
            )
            masks = (
                np.random.default_rng(0)
                .integers(0, 2, (20, len(players.always_visible)))
                .astype(bool)
            )
            values.append(coalitions.values([masks])[0])
    assert np.ptp(values[0]) > 1e-4
    assert values[1] == pytest.approx(values[0], abs=1e-6)


def test_an_explainer_takes_a_url(local, file):
    options = {
        "question": "the answer is",
        "labels": ["A", "B"],
        "max_new_tokens": 2,
        "budget": 80,
    }
    own = Explainer(str(file), progress=False).explain(**options)
    with serve(local) as stand_in:
        explained = Explainer(stand_in.url, file, progress=False).explain(**options)
    assert explained.text == pytest.approx(own.text, abs=1e-6)
    assert explained.cc_shap == pytest.approx(own.cc_shap, abs=1e-4)


def test_masked_tokens_that_a_text_cannot_say_are_refused(local, file):
    # A text has them as one token.
    ids = tuple(tiny_gguf.VOCABULARY.index(token) for token in ("_", "_"))
    prompt = local.build_prompt("__")
    with serve(local, "text") as stand_in:
        served = connect(stand_in, file)
        with pytest.raises(UserError, match="takes texts and no token ids"):
            list(
                served.server.score(
                    [(server.ServedPrompt(list(ids)), prompt.ids)], "probability"
                )
            )


def test_what_a_server_lacks_is_one_line(local, file):
    prompt = local.build_prompt(TEXTS[0])
    ids = local.build_prompt("\u00e9").ids
    with serve(local, "bare") as stand_in:
        served = connect(stand_in, file)
        assert served.generate([prompt], [None], 2, None, [0]) != [()]
        with pytest.raises(
            UserError, match=r"served\.server: tiny is served without log-probabilities"
        ):
            score_targets(served, [prompt], [None], [ids], "probability")
    with (
        serve(local, "likeliest") as stand_in,
        pytest.raises(UserError, match=r"not among the \d+ likeliest tokens"),
    ):
        score_targets(
            connect(stand_in, file), [prompt], [None], [range(256)], FIRST_STEP
        )
    with serve(local) as stand_in:
        served = connect(stand_in, file)
        with pytest.raises(
            UserError, match="'logit' is not a function of log-probabilities"
        ):
            score_targets(served, [prompt], [None], [ids], "logit")
        with pytest.raises(
            UserError, match=r"no such model at the server \(got other, expected tiny"
        ):
            connect(stand_in, file, weights="other")
        url = stand_in.url
    with pytest.raises(
        UserError,
        match=rf"no reply from {url}/models in 5 attempts \(.*\); start the server",
    ):
        connect(stand_in, file)


def test_another_tokenizer_is_refused(local, file, tmp_path):
    network = tiny_gguf.network()
    words = tiny_gguf.VOCABULARY
    tiny_gguf.VOCABULARY = [*words[1:256], words[0], *words[256:]]
    try:
        other = tiny_gguf.write_gguf(tmp_path / "other.gguf", network)
    finally:
        tiny_gguf.VOCABULARY = words
    with (
        serve(local) as stand_in,
        pytest.raises(
            UserError, match=r"name the model's own under models\.served\.tokeni"
        ),
    ):
        connect(stand_in, other)


def test_a_busy_server_is_asked_again_and_the_log_says_so(local, file, caplog):
    with serve(local, failures=3) as stand_in:
        connect(stand_in, file)
        assert stand_in.failures == 0
    lines = [
        record.getMessage()
        for record in caplog.records
        if record.levelname == "WARNING"
    ]
    assert len(lines) == 3
    assert all("no reply from" in line and "status 503" in line for line in lines)


def test_the_key_is_that_of_the_environment(local, file, monkeypatch, caplog):
    with serve(local, key="secret-key") as stand_in:
        with pytest.raises(
            UserError,
            match=r"needs an API key: the environment variable WALTZ_API_KEY is not set",
        ):
            connect(stand_in, file)
        monkeypatch.setenv(endpoint.API_KEY, "wrong-key")
        with pytest.raises(UserError, match="WALTZ_API_KEY is wrong"):
            connect(stand_in, file)
        monkeypatch.setenv(endpoint.API_KEY, "secret-key")
        with caplog.at_level("DEBUG"):
            served = connect(stand_in, file)
    assert "secret-key" not in caplog.text + repr(served.spec) + served.forward_pass


@pytest.mark.parametrize(
    "encode", [str, lambda key: base64.b64encode(f"me:{key}".encode()).decode()]
)
def test_a_key_that_the_server_repeats_is_in_no_fact_or_text(
    local, file, monkeypatch, caplog, encode
):
    monkeypatch.setenv(endpoint.API_KEY, "secret-key/+7")
    monkeypatch.setattr(endpoint.time, "sleep", lambda _: None)
    repeated = encode("secret-key/+7")
    prompt = server.ServedPrompt(list(local.build_prompt(TEXTS[0]).ids))
    with serve(local, key="secret-key/+7") as stand_in:
        stand_in.replies["/version"] = {"version": repeated}
        stand_in.replies["/v1/models"] = {
            "data": [{"id": MODEL, "owned_by": repeated, "meta": {"a": [repeated]}}]
        }
        served = connect(stand_in, file)
        assert "<WALTZ_API_KEY>" in served.server.facts
        assert "the server repeats a secret" in caplog.text
        stand_in.replies["/v1/completions"] = {
            "choices": [{"text": 3, repeated: repeated}, repeated]
        }
        with pytest.raises(UserError) as error:
            served.server.generate([prompt], 3, {}, [0], 0, keep_end=False)
        served.server.post("completions", {}, Reply)
    shown = (
        caplog.text
        + repr(served.spec)
        + served.forward_pass
        + served.server.facts
        + str(error.value)
    )
    assert not any(form in shown for form in list_encoded_forms("secret-key/+7"))


@pytest.mark.parametrize(
    ("url", "key", "fault"),
    [
        (
            "http://me:secret@localhost:1/v1",
            "",
            "tiny: the server's url holds a password or key; set WALTZ_API_KEY",
        ),
        (
            "http://localhost:1/v1?key=secret",
            "",
            "tiny: the server's url holds a password or key; set WALTZ_API_KEY",
        ),
        ("http://[::1/v1", "", "here: no url of a server"),
        ("http://\u2603/v1", "", "here: no url of a server"),
        ("http://localhost:1/" + "a" * 70_000, "", "here: no url of a server"),
        ("http://localhost:1/v1", "secret\n", "WALTZ_API_KEY: holds other characters"),
        (
            "http://localhost:1/v1",
            "secret\u2603",
            "WALTZ_API_KEY: holds other characters",
        ),
    ],
)
def test_urls_and_keys_that_cannot_be_sent_are_refused_and_not_shown(
    url, key, fault, monkeypatch
):
    monkeypatch.setenv(endpoint.API_KEY, key)
    with pytest.raises(UserError, match=fault) as caught:
        server.open_server(url, MODEL, "here")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("owner", ["x\n\x1b[2J", "x" * 20_000])
def test_facts_that_are_no_short_line_are_refused(local, file, owner):
    with serve(local) as stand_in:
        stand_in.replies["/v1/models"] = {"data": [{"id": MODEL, "owned_by": owner}]}
        with pytest.raises(
            UserError, match="its description of itself is not a short line"
        ) as caught:
            connect(stand_in, file)
    assert len(str(caught.value)) < 300


def test_replies_without_end_and_texts_that_are_none_are_refused(
    local, file, monkeypatch
):
    prompt = server.ServedPrompt(list(local.build_prompt(TEXTS[0]).ids))
    with serve(local) as stand_in:
        served = connect(stand_in, file).server
        stand_in.replies["/v1/completions"] = {
            "choices": [{"text": "a", "token_ids": [5] * 50}]
        }
        assert served.generate([prompt], 3, {}, [0], 0, keep_end=False) == [(5, 5, 5)]
        stand_in.replies["/v1/completions"] = {"choices": [{"text": "\ud800"}]}
        with pytest.raises(
            UserError, match=r"returns no JSON \(unexpected end of hex escape"
        ):
            served.generate([prompt], 3, {}, [0], 0, keep_end=False)
        monkeypatch.setattr(endpoint, "LARGEST_REPLY", 1000)
        stand_in.replies["/v1/completions"] = {"choices": [{"text": "a" * 2000}]}
        with pytest.raises(
            UserError, match=r"the reply of .* has more than 1000 bytes"
        ):
            served.generate([prompt], 3, {}, [0], 0, keep_end=False)


def test_what_the_server_says_of_itself_is_part_of_the_fingerprint(local, file):
    fingerprints = set()
    for dialect in SCORING:
        with serve(local, dialect) as stand_in:
            served = connect(stand_in, file)
            fingerprints.add(compute_fingerprint(served.spec))
            assert dialect in served.forward_pass
    assert len(fingerprints) == 2
    assert all(fingerprint.startswith("tiny@F32 (") for fingerprint in fingerprints)


def test_an_entry_needs_no_weights_and_no_gpu(file):
    entry = {"weights": str(file), "revision": "Q4", "server": "http://localhost:1/v1"}
    spec = resolve_model("served", entry)
    assert (spec.gpus, estimate_gpu_memory(spec), list_weight_files(spec)) == (0, 0, [])
    with pytest.raises(
        UserError, match="perplexities are computed with the network itself"
    ):
        load_causal_model(spec, CPU)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            {"kind": "clip"},
            r"kind: a server runs decoders \(got clip, expected text or vision",
        ),
        ({"server": "localhost:8000"}, "server: no url"),
        ({"server": "http://me:secret@host/v1"}, "server: no url"),
        ({"server": "http://host/v1?key=secret"}, "server: no url"),
        ({"revision": ""}, "revision: missing"),
    ],
)
def test_faults_of_an_entry_are_one_line(change, fault):
    entry = {
        "weights": "m",
        "revision": "Q4",
        "server": "http://localhost:1/v1",
    } | change
    with pytest.raises(UserError, match=fault) as caught:
        resolve_model("served", entry)
    assert "secret" not in str(caught.value)


def test_log_odds_follow_from_a_log_probability():
    assert server.OUTCOMES["log-odds"](math.log(0.8)) == pytest.approx(math.log(4))
    assert server.OUTCOMES["log-odds"](-1e-12) == pytest.approx(
        math.log(1e12), rel=1e-6
    )


def test_preflight_says_what_the_server_returns(local, file):
    with serve(local) as stand_in:
        fields = {
            "weights": MODEL,
            "revision": "F32",
            "server": stand_in.url,
            "tokenizer": str(file),
        }
        check = model_checks._judge_server(resolve_model("served", fields))
        assert (check.state, stand_in.decoder) == (State.OK, local)
        assert "log-probabilities of given tokens" in check.finding
    check = model_checks._judge_server(resolve_model("served", fields))
    assert check.state == State.FAILURE
    assert "start the server" in check.finding


def test_the_chosen_label_is_that_of_the_network(local, file):
    question = Question(
        "1",
        "comve",
        "comve",
        None,
        {"first": "the", "second": "an"},
        ("A", "B"),
        ("A",),
        "A",
        None,
        "x",
    )
    with serve(local) as stand_in:
        chosen = []
        for decoder in (local, connect(stand_in, file)):
            template = build_template(decoder, EQUATIONS)
            prompt = decoder.build_prompt(
                decoder.render_chat([ChatTurn("user", "the answer is")])
            )
            chosen.append(choose_label(decoder, prompt, None, question, template))
    assert chosen[0] == chosen[1]
