"""Urls lose what may be a key, and texts the values of known secrets, in any usual encoding."""

import base64
import json
import logging
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltz.core import redaction
from waltz.core.errors import UserError
from waltz.core.redaction import (
    RedactingFormatter,
    contains_known_secret,
    describe_value,
    has_user,
    hide_known_secrets,
    hide_secrets,
    name_url,
    redact_url,
    redact_urls,
)

KEY = "sk-4/7+é\"'&<Q9="


@pytest.fixture(autouse=True)
def no_secrets(monkeypatch, tmp_path):
    """Leave no secret but those of a test."""
    for name in [
        name for name in redaction.os.environ if redaction.SECRET_NAME.search(name)
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


@pytest.mark.parametrize(
    ("url", "redacted"),
    [
        ("https://host/a/b.zip", "https://host/a/b.zip"),
        ("https://me:secret@host:8443/a?token=secret#secret", "https://host:8443/a"),
        ("HTTPS://me@host/a", "HTTPS://host/a"),
        ("https://a@b@c/d", "https://c/d"),
        ("https://me:p%40ss@host/a", "https://host/a"),
        ("https://me:secret%40host/a", "https://host/a"),
        ("https://me:pa/ss@host/a", "https://host/a"),
        ("https://me:pa?ss@host/a", "https://host/a"),
        ("https://me:pa#ss@host/a?secret", "https://host/a"),
        ("https://me:pa\\ss@host/a", "https://host/a"),
        ("https://m e:s e@host/a", "https://host/a"),
        ("https:\\\\me:secret@host\\a", "https:\\\\host\\a"),
        ("https:/me:secret@host/a", "https:/host/a"),
        ("https://me:secret@[::1]:80/a?x", "https://[::1]:80/a"),
        ("https://[::1]:80/a/@b", "https://[::1]:80/a/@b"),
        ("https://host:80/@scope/a@1", "https://host:80/@scope/a@1"),
        ("https://host?secret", "https://host"),
        ("s3://id:secret@bucket/a", "s3://bucket/a"),
        ("hf://datasets/owner/name@main/a?x", "hf://datasets/owner/name@main/a"),
        ("data:text/plain;base64,c2VjcmV0", "data:"),
        ("//me:secret@host/a?x", "//host/a"),
        ("git@host:group/a", "host:group/a"),
        ("ssh://git@host:22/a", "ssh://host:22/a"),
        ("a/b@c.csv", "a/b@c.csv"),
        ("", ""),
    ],
)
def test_a_url_without_what_may_be_a_key(url, redacted):
    assert redact_url(url) == redacted
    assert redact_url(redacted) == redacted
    assert has_user(url) == (
        any(text in url for text in ("me", "m e", "a@b@", "id:", "git@"))
        and "name@" not in url
    )


SAFE = st.text("abcXYZ019-._~!$&'()*+,;=", min_size=1, max_size=12)


@given(
    st.sampled_from(["http", "HTTPS", "s3", "hf", "ssh", "git+https"]),
    st.text("xyz:@\\ %'\"[]", max_size=8),
    st.sampled_from(["host", "host:80", "[::1]", "[2001:db8::1]:8443", "127.0.0.1"]),
    st.lists(SAFE, max_size=3),
    SAFE,
)
def test_no_url_keeps_user_query_or_fragment(scheme, noise, host, path, rest):
    place = "/".join([host, *path])
    url = f"{scheme}://USER{noise}:PASSWORD{noise}@{place}?QUERY={rest}#FRAGMENT{rest}"
    assert redact_url(url) == f"{scheme}://{place}"
    named = name_url(url)
    assert named.startswith(f"{scheme}://{place}?sha256-")
    assert name_url(named) == named
    for text in (
        redact_url(url),
        named,
        hide_secrets(repr(url)),
        hide_secrets(json.dumps(url)),
    ):
        assert not any(
            secret in text for secret in ("USER", "PASSWORD", "QUERY", "FRAGMENT")
        )


@given(st.text(max_size=60))
def test_any_text_is_redacted_once(text):
    assert redact_url(redact_url(text)) == redact_url(text)
    assert name_url(name_url(text)) == name_url(text)
    hide_secrets(text)


def test_names_tell_queries_apart():
    names = {
        name_url(f"https://host/a{ending}")
        for ending in ("", "?id=1", "?id=2", "?id=2#a")
    }
    assert len(names) == 4
    assert "https://host/a" in names


ENCODINGS = {
    "plain": str,
    "percent": lambda key: quote(key, safe=""),
    "percent of a path": quote,
    "plus": quote_plus,
    "small percent": lambda key: re.sub(
        "%..", lambda match: match[0].lower(), quote(key, safe="")
    ),
    "json": lambda key: json.dumps({"key": key}),
    "json of PHP": lambda key: json.dumps({"key": key}).replace("/", "\\/"),
    "repr": repr,
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 for urls": lambda key: base64.urlsafe_b64encode(key.encode()).decode(),
    "header": lambda key: base64.b64encode(f"me:{key}".encode()).decode(),
    "header of another user": lambda key: base64.b64encode(
        f"you:{key}:more".encode()
    ).decode(),
    "digits": lambda key: key.encode().hex(),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("key", ["secret-key", KEY, "hf_AbCdEfGhIjKlMnOp"])
def test_a_key_is_hidden_in_every_encoding(encoding, key, monkeypatch):
    monkeypatch.setenv("WALTZ_API_KEY", key)
    encoded = ENCODINGS[encoding](key)
    text = hide_secrets(f"status 500: got {encoded}; retry")
    assert "<WALTZ_API_KEY>" in text
    for form in redaction.list_encoded_forms(key):
        assert form not in text
    assert contains_known_secret(encoded.encode())


@given(st.binary(min_size=1, max_size=3), st.binary(max_size=3))
def test_base64_of_a_longer_text_hides_the_key(before, after):
    encoded = base64.b64encode(before + b"a-long-secret-key" + after).decode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MY_TOKEN", "a-long-secret-key")
        assert "<MY_TOKEN>" in hide_secrets(encoded)


def test_where_secrets_come_from(monkeypatch, tmp_path):
    (tmp_path / "token").write_text("hf_stored_token\n")
    (tmp_path / "netrc").write_text("machine host login me password netrc-password\n")
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_environment")
    monkeypatch.setenv(
        "WALTZ_MIRROR", "http://me:mirror-password@host/?signature=mirror-signature"
    )
    monkeypatch.setenv("HTTPS_PROXY", "http://me:proxy-password@host:3128")
    header = base64.b64encode(b"me:netrc-password").decode()
    text = hide_secrets(
        "hf_stored_token netrc-password hf_of_the_environment mirror-password mirror-signature proxy-password "
        + header
    )
    labels = [
        "<token of the hub>",
        "<netrc>",
        "<HF_TOKEN>",
        "<WALTZ_MIRROR>",
        "<WALTZ_MIRROR>",
        "<HTTPS_PROXY>",
    ]
    assert text.startswith(" ".join([*labels, "<netrc>"]))


def test_short_values_are_words(monkeypatch):
    monkeypatch.setenv("WALTZ_API_KEY", "none")
    monkeypatch.setenv("OTHER_TOKEN", "caption")
    assert hide_secrets("none of them") == "none of them"
    assert hide_known_secrets({"text": ["the caption", 3]}) == {
        "text": ["the caption", 3]
    }
    monkeypatch.setenv("OTHER_TOKEN", "caption-key")
    assert hide_known_secrets({"text": ["a caption-key", 3]}) == {
        "text": ["a <OTHER_TOKEN>", 3]
    }


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("see https://host/a?t=secret; correct it", "see https://host/a; correct it"),
        ("(https://me:secret@host/a)", "(https://host/a)"),
        (
            "got 'https://m e:s%e@host/a b', expected",
            "got 'https://host/a b', expected",
        ),
        ('{"url": "https://me:it\'s@host"}', '{"url": "https://host"}'),
        (
            "Max retries exceeded with url: /a?t=secret (Caused by",
            "Max retries exceeded with url: /a (Caused by",
        ),
        ('"GET /a?t=secret HTTP/1.1" 200', '"GET /a HTTP/1.1" 200'),
        (
            "folder/https:/me:secret@host/a: no such folder",
            "folder/https:/host/a: no such folder",
        ),
        ("is it? me@host", "is it? me@host"),
    ],
)
def test_urls_in_texts(text, hidden):
    assert hide_secrets(text) == hidden


def test_parts_of_a_url_that_a_server_repeats():
    url = "https://host/a?signature=abc%2Fdefgh&dl=1"
    assert (
        hide_secrets("no abc/defgh, no abc%2Fdefgh, dl=1", url)
        == "no <hidden>, no <hidden>, dl=1"
    )


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("http_proxy", "me:proxy-password@host:3128", "proxy-password"),
        ("ALL_PROXY", "me:proxy-password@host:3128", "proxy-password"),
        ("PGPASSWORD", "database-password", "database-password"),
        ("GITHUBTOKEN", "ghp-of-mine", "ghp-of-mine"),
    ],
)
def test_other_usual_names_and_forms_of_secrets_in_the_environment(
    monkeypatch, name, value, secret
):
    monkeypatch.setenv(name, value)
    assert hide_secrets(f"HTTP 407 no {secret} here") == f"HTTP 407 no <{name}> here"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("Authorization: Bearer sk-abc.def_1", "Authorization: <hidden>"),
        (
            "{'authorization': 'Basic bWU6c2VjcmV0', 'a': 1}",
            "{'authorization': '<hidden>', 'a': 1}",
        ),
        (
            '"Proxy-Authorization": "Basic bWU6c2VjcmV0"}',
            '"Proxy-Authorization": "<hidden>"}',
        ),
        (
            "no access with Bearer hf_abcdefghijklmnop.",
            "no access with Bearer <hidden>.",
        ),
        (
            "authorization: needed; ask the owner",
            "authorization: needed; ask the owner",
        ),
        ("a bearer token is missing", "a bearer token is missing"),
    ],
)
def test_headers_of_a_request_that_a_server_repeats(text, hidden):
    assert hide_secrets(text) == hidden


def test_errors_and_logs_hold_no_secret(monkeypatch):
    monkeypatch.setenv("WALTZ_API_KEY", "secret-key")
    error = UserError("https://me:it@host/a?b: secret-key")
    assert str(error) == "https://host/a: <WALTZ_API_KEY>"
    assert "secret" not in repr(error) + repr(error.args)
    record = logging.LogRecord(
        "a",
        logging.INFO,
        "a.py",
        1,
        "%s",
        ("http://host?secret-key and secret-key",),
        None,
    )
    assert RedactingFormatter().format(record) == "http://host and <WALTZ_API_KEY>"


def test_wrong_values_are_shown_without_what_keys_hold():
    value = {
        "url": "https://me:p w@host/a",
        "api_key": "short",
        "key": ["a"],
        "sizes": [1, "a"],
    }
    assert describe_value(value) == (
        "{'url': 'https://host/a', 'api_key': '<hidden>', 'key': '<hidden>', 'sizes': [1, 'a']}"
    )


def test_urls_of_a_study_are_hidden_wherever_they_stand():
    url = "https://host.example/a?token=tell-nobody"
    study = {"a": url, "b": [url, {"c": url}, [url]], "d": {"e": url}, "f": [1, "text"]}
    redact_urls(study)
    assert "tell-nobody" not in str(study)
    assert study["f"] == [1, "text"]
    assert str(study).count("https://host.example/a") == 5
