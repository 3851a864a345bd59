"""Replies of hostile, slow and broken servers of decoders: fields, or one line."""

import logging
import re
import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stand_ins.raw_server import RawServer
from waltz.core.downloads import http_limits
from waltz.core.errors import UserError
from waltz.models.decoders import endpoint, server
from waltz.models.decoders.server_replies import (
    Chat,
    Completion,
    NativeCompletion,
    PromptTokens,
    Scored,
    Text,
)

KEY = "secret-of-mine"
OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def raw():
    running = RawServer("v1")
    yield running
    running.listener.close()


@pytest.fixture
def client(raw, monkeypatch):
    monkeypatch.setattr(endpoint, "FIRST_DELAY", 0.001)
    monkeypatch.setenv(endpoint.API_KEY, KEY)
    raw.pause = 0.0
    return server.open_server(raw.url, "tiny", "models.tiny.server")


def ask(raw, client, reply, kind):
    """Return the line about a reply, empty where it is taken."""
    raw.parts = [reply]
    try:
        client.post("completions", {}, kind)
    except UserError as error:
        line = str(error)
    else:
        return ""
    assert line.startswith("models.tiny.server: ")
    assert "\n" not in line
    assert KEY not in line
    assert len(line) < 500
    return line


@pytest.mark.parametrize(
    ("body", "kind", "fault"),
    [
        (b'{"tokens": [true]}', NativeCompletion, "valid integer"),
        (b'{"tokens": ["2"]}', NativeCompletion, "valid integer"),
        (b'{"tokens": [2.5]}', NativeCompletion, "valid integer"),
        (b'{"tokens": [NaN]}', NativeCompletion, "valid integer"),
        (b'{"tokens": [-1]}', NativeCompletion, "greater than or equal to 0"),
        (b'{"tokens": [4294967296]}', NativeCompletion, "less than"),
        (
            b'{"tokens": [1], "tokens": [2]}',
            NativeCompletion,
            "ambiguous .key 'tokens' stands twice",
        ),
        (
            b'{"tokens": [1], "x": {"a": 1, "a": 2}}',
            NativeCompletion,
            "ambiguous .key 'a' stands twice",
        ),
        (b'{"tokens": ' + b"9" * 5000 + b"}", NativeCompletion, "returns no JSON"),
        (b"[" * 100_000, NativeCompletion, "returns no JSON"),
        (b"\xff\xfe", NativeCompletion, "returns no JSON"),
        (b"", NativeCompletion, "returns no JSON"),
        (b'{"choices": [{"text": 5}]}', Completion[Text], "valid string"),
        (
            b'{"choices": [{"text": "a", "finish_reason": false}]}',
            Completion[Text],
            "valid string",
        ),
        (b'{"choices": []}', Completion[Text], "at least 1 item"),
        (b'{"choices": {}}', Completion[Text], "valid array"),
        (
            b'{"choices": [{"logprobs": {"token_logprobs": [NaN]}}]}',
            Completion[Scored[PromptTokens]],
            "less than",
        ),
        (
            b'{"choices": [{"logprobs": {"token_logprobs": [1.5]}}]}',
            Completion[Scored[PromptTokens]],
            "less than",
        ),
        (
            b'{"choices": [{"logprobs": {"token_logprobs": [true]}}]}',
            Completion[Scored[PromptTokens]],
            "valid number",
        ),
        (
            b'{"choices": [{"logprobs": {"token_logprobs": ["-1"]}}]}',
            Completion[Scored[PromptTokens]],
            "valid number",
        ),
        (b'{"choices": [{"message": {"content": ["a"]}}]}', Chat, "valid string"),
        (
            b'{"choices": [{"message": {}}], "prompt_logprobs": [{"x": {"logprob": -1}}]}',
            Chat,
            "valid integer",
        ),
        (
            b'{"choices": [{"message": {}}], "usage": {"prompt_tokens": true}}',
            Chat,
            "valid integer",
        ),
        (b'{"tokens": ["' + KEY.encode() + b'"]}', NativeCompletion, "<WALTZ_API_KEY>"),
        (
            b'{"' + KEY.encode() + b'": 1, "' + KEY.encode() + b'": 1}',
            NativeCompletion,
            "<WALTZ_API_KEY>",
        ),
    ],
)
def test_a_reply_of_other_fields_is_one_line(raw, client, body, kind, fault):
    assert re.search(fault, ask(raw, client, OK + body, kind))


@pytest.mark.parametrize("status", [400, 404, 418, 500, 503])
def test_a_key_that_the_server_repeats_is_hidden(raw, client, status):
    raw.parts = [
        b"HTTP/1.1 %d x\r\nConnection: close\r\n\r\n{'error': 'bad key %s'}"
        % (status, KEY.encode())
    ]
    line = ask(raw, client, raw.parts[0], NativeCompletion)
    assert "bad key <WALTZ_API_KEY>" in line
    assert KEY.encode() in raw.received


@pytest.mark.parametrize("encoding", [b"gzip", b"gzip, gzip, gzip", b"br"])
def test_an_encoding_that_was_not_requested_is_refused(raw, client, encoding):
    head = (
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Encoding: "
        + encoding
        + b"\r\n\r\n"
    )
    assert "which was not requested" in ask(raw, client, head + b"{}", NativeCompletion)


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    status=st.integers(0, 700),
    head=st.sampled_from(
        [
            b"",
            b"Content-Length: 5\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"\xff: \xfe\r\n",
            b"x\r\n",
        ]
    ),
    body=st.binary(max_size=40)
    | st.sampled_from(
        [b"5\r\n{}", b'{"tokens": [1]}', b"\xff\xfe{\0}\0", b'{"tokens": 1e999}']
    ),
)
@example(status=200, head=b"", body=b'"\\ud800"')
@example(status=302, head=b"Location: file:///etc/passwd\r\n", body=b"")
def test_any_reply_is_taken_or_one_line(raw, client, status, head, body):
    ask(
        raw,
        client,
        b"HTTP/1.1 %d x\r\nConnection: close\r\n%s\r\n%s" % (status, head, body),
        NativeCompletion,
    )


@pytest.mark.parametrize(
    ("head", "part"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    ],
)
def test_a_reply_that_trickles_ends_in_a_line_and_the_log_says_that_it_is_awaited(
    raw, client, monkeypatch, caplog, head, part
):
    monkeypatch.setattr(endpoint, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(http_limits, "MINUTE", 0.1)
    raw.parts, raw.pause = [head, *[part] * 200], 0.05
    begin = time.monotonic()
    with (
        caplog.at_level(logging.INFO, "waltz"),
        pytest.raises(
            UserError,
            match=r"no reply from http.*/completions in 1 attempts .*not complete in time",
        ),
    ):
        client.post("completions", {}, NativeCompletion)
    assert time.monotonic() - begin < 3
    assert f"models.tiny.server: waiting for {raw.url}" in caplog.text


def test_a_server_that_asks_for_a_wait_gets_it_within_the_limit(
    raw, client, monkeypatch, caplog
):
    waits = []
    monkeypatch.setattr(endpoint.time, "sleep", waits.append)
    raw.parts = [b"HTTP/1.1 429 x\r\nConnection: close\r\nRetry-After: 7\r\n\r\nbusy"]
    with pytest.raises(UserError, match=r"in 5 attempts \(status 429: busy\)"):
        client.post("completions", {}, NativeCompletion)
    assert waits == [7.0] * 4
    assert "the next in 7 s" in caplog.text
    monkeypatch.setattr(endpoint, "REQUEST_SECONDS", 5.0)
    with pytest.raises(UserError, match=r"in 1 attempts \(status 429: busy\)"):
        client.post("completions", {}, NativeCompletion)
