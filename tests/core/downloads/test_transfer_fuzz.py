"""Replies of hostile and broken servers: a download gives the file, or one line."""

import hashlib
import re
import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stand_ins.raw_server import RawServer
from waltz.core.downloads import transfer
from waltz.core.errors import UserError

CONTENT = b"item,caption\r\n17,a dog" * 233 + b"\n"
SHA = hashlib.sha256(CONTENT).hexdigest()
LINE = re.compile(r"\S+: cannot be fetched from http://127[^\n]* \([^\n]+\); by hand")


@pytest.fixture(scope="module")
def server():
    running = RawServer("own.csv")
    yield running
    running.listener.close()


@pytest.fixture(scope="module", autouse=True)
def short_limits():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer, "ATTEMPTS", 1)
        patch.setattr(transfer, "ANSWER_SECONDS", 0.5)
        patch.setattr(transfer, "TIMEOUT_SECONDS", 0.4)
        patch.setattr(transfer, "SLOWEST_SECONDS", 0.3)
        yield


def fetch(server, folder, checksum="lock", **options):
    """Return the fault of a download, or an empty text; nothing but the file may be recorded."""
    target, lock, cache = folder / "own.csv", folder / "lock.yaml", folder / "cache"
    for file in (target, lock, *cache.glob("[!.]*"), *cache.glob(".*.part")):
        file.unlink(missing_ok=True)
    try:
        file = transfer.DownloadRequest(server.url, checksum, "by hand", **options)
        transfer.fetch(file, target, lock, cache, wait=lambda _: None)
    except UserError as error:
        fault = str(error)
    else:
        return ""
    assert not target.exists()
    assert not lock.exists()
    assert LINE.fullmatch(fault)
    return fault


statuses = st.one_of(
    st.sampled_from(
        [
            b"HTTP/1.1 200 OK",
            b"HTTP/1.0 200 OK",
            b"HTTP/1.1 206 Partial Content",
            b"HTTP/1.1 503 Busy",
        ]
    ),
    st.integers(0, 1100).map(lambda status: b"HTTP/1.1 %d x" % status),
    st.binary(max_size=30),
)
names = st.sampled_from(
    [
        b"Content-Length",
        b"Content-Range",
        b"Transfer-Encoding",
        b"Content-Encoding",
        b"Content-Type",
        b"Retry-After",
        b"Location",
        b"Set-Cookie",
        b"Connection",
    ]
)
values = st.one_of(
    st.sampled_from(
        [
            b"5127",
            b"7, 7",
            b"-1",
            b"9" * 5000,
            b"\xd9\xa3",
            b"chunked",
            b"gzip, chunked",
            b"gzip",
            b"identity",
            b"text/html; charset=no-such",
            b"bytes 0-5126/5127",
            b"bytes */*",
            b"/own.csv",
            b"file:///etc/hostname",
            b"http://[::1",
            b"http://" + b"a" * 300 + b".invalid/",
            b"//\xff\xfe/",
            b"Fri, 99 Foo 99999 00:00:00 GMT",
            b"a=b; Expires=no; Domain=\xe9",
        ]
    ),
    st.binary(max_size=20),
)
headers = st.lists(st.tuples(names | st.binary(max_size=8), values), max_size=5)
bodies = st.one_of(
    st.just(CONTENT),
    st.just(CONTENT[:100]),
    st.just(CONTENT + b"more"),
    st.just(b"1407\r\n" + CONTENT + b"\r\n0\r\n\r\n"),
    st.just(b"1407\r\n" + CONTENT),
    st.just(b"zz\r\n" + CONTENT),
    st.just(b"f" * 70),
    st.binary(max_size=60),
)


@settings(
    max_examples=250,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(status=statuses, fields=headers, body=bodies, known=st.booleans())
@example(
    status=b"HTTP/1.1 302 Found",
    fields=[(b"Location", b"/own.csv")],
    body=b"",
    known=False,
)
@example(
    status=b"HTTP/1.1 302 Found",
    fields=[(b"Location", b"http://\xff\xfe")],
    body=b"",
    known=False,
)
@example(
    status=b"HTTP/1.1 302 Found",
    fields=[(b"Location", b"http://" + b"a" * 99 + b".b/")],
    body=b"",
    known=False,
)
@example(
    status=b"HTTP/1.1 302 Found",
    fields=[(b"Location", b"http://127.0.0.1:99999/")],
    body=b"",
    known=False,
)
@example(
    status=b"HTTP/1.1 200 OK",
    fields=[(b"Content-Length", b"5127")] * 2,
    body=CONTENT,
    known=False,
)
@example(
    status=b"HTTP/1.1 200 OK",
    fields=[(b"Content-Length", b"9" * 5000)],
    body=CONTENT,
    known=False,
)
@example(
    status=b"HTTP/1.1 200 OK",
    fields=[(b"Content-Length", b"5137")],
    body=CONTENT,
    known=False,
)
@example(
    status=b"HTTP/1.1 200 OK",
    fields=[(b"X", b"y" * 200_000)],
    body=CONTENT,
    known=False,
)
@example(
    status=b"HTTP/1.1 200 OK", fields=[(b"X", b"y")] * 5000, body=CONTENT, known=False
)
def test_a_reply_is_the_file_or_one_line(server, tmp_path, status, fields, body, known):
    lines = [status, *(name + b": " + value for name, value in fields), b"", body]
    server.parts, server.pause = [b"\r\n".join(lines)], 0.0
    fault = fetch(server, tmp_path, SHA if known else "lock")
    if not fault:
        received = (tmp_path / "own.csv").read_bytes()
        assert received == CONTENT if known else received in body


@pytest.mark.parametrize(
    ("head", "part", "fault"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", "sends nothing"),
        (
            b"HTTP/1.1 100 Continue\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n",
            "sends nothing",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5127\r\n\r\n",
            b"a",
            "less than 10000 bytes",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"1\r\na\r\n",
            "less than 10000 bytes",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
            b"x",
            "less than 10000 bytes",
        ),
    ],
)
def test_a_server_that_trickles_is_given_up(server, tmp_path, head, part, fault):
    server.parts, server.pause = [head, *[part] * 200], 0.05
    begin = time.monotonic()
    assert re.search(fault, fetch(server, tmp_path))
    assert time.monotonic() - begin < 3


def test_a_redirect_loop_ends(server, tmp_path):
    server.parts, server.requests = (
        [
            b"HTTP/1.1 302 Found\r\nLocation: /own.csv\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        ],
        0,
    )
    assert "TooManyRedirects" in fetch(server, tmp_path)
    assert server.requests < 30
