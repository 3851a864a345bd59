import hashlib
import http.server
import threading

import pytest

from waltz.core import fetch
from waltz.core.errors import UserError

CONTENT = bytes(range(256)) * 4000
SHA = hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Serves CONTENT, misbehaving as `plan` says: one entry a request, the last one for ever."""

    plan: tuple[str, ...] = ("whole",)
    ranges: tuple[str | None, ...] = ()


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        asked = self.headers.get("Range")
        server.ranges = (*server.ranges, asked)
        action = server.plan[min(len(server.ranges), len(server.plan)) - 1]
        if action.isdigit():
            self.send_error(int(action))
            return
        first = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and action != "no-range" else 0
        body = CONTENT[first:] if action != "wrong" else b"x" * len(CONTENT)
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 3] if action == "cut" else body)


@pytest.fixture
def server():
    running = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield running
    running.shutdown()
    running.server_close()


@pytest.fixture
def get(server, tmp_path):
    def run(*plan, expected=SHA):
        server.plan = plan
        waits = []
        target = tmp_path / "data.bin"
        fetch.download(f"http://127.0.0.1:{server.server_port}/d", target, expected, "put it by hand", waits.append)
        assert target.read_bytes() == CONTENT
        assert [file.name for file in tmp_path.iterdir()] == ["data.bin"]
        return server.ranges, waits

    return run


def test_a_whole_file_comes_in_one_request(get):
    assert get("whole") == ((None,), [])


def test_a_cut_connection_goes_on_where_it_ended(get):
    (first, second), waits = get("cut", "whole")
    arrived = int(second.removeprefix("bytes=").removesuffix("-"))
    assert first is None
    assert len(CONTENT) // 3 - fetch.CHUNK_BYTES < arrived <= len(CONTENT) // 3
    assert waits == [1.0]


def test_a_server_without_ranges_sends_all_again(get):
    get("cut", "no-range")


def test_a_passing_fault_is_retried_with_growing_waits(get):
    assert get("500", "503", "whole")[1] == [1.0, 2.0]


def test_wrong_content_is_thrown_away_and_fetched_again(get):
    assert get("wrong", "whole")[0] == (None, None)


def test_a_lasting_refusal_is_not_retried_and_says_what_to_do(get, server):
    with pytest.raises(UserError, match=r"data\.bin: cannot be had from http.*HTTP 404.*put it by hand"):
        get("404")
    assert len(server.ranges) == 1


def test_a_wrong_checksum_to_the_end_names_both(get):
    with pytest.raises(UserError, match=f"sha256 .*not {SHA}"):
        get("wrong")


def test_no_server_says_no_connection(tmp_path):
    with pytest.raises(UserError, match=r"no connection to 127\.0\.0\.1:9"):
        fetch.download("http://127.0.0.1:9/d", tmp_path / "d", SHA, "by hand", lambda _: None)


def test_a_later_run_goes_on_with_what_an_earlier_one_left(get, server, tmp_path):
    (tmp_path / f".data.bin.{SHA[:16]}.part").write_bytes(CONTENT[:1000])
    assert get("whole")[0] == ("bytes=1000-",)


def test_a_local_copy_is_checked_before_it_is_taken(tmp_path):
    source = tmp_path / "own.bin"
    source.write_bytes(CONTENT)
    fetch.take(source, tmp_path / "raw" / "own.bin", SHA)
    assert (tmp_path / "raw" / "own.bin").read_bytes() == CONTENT
    with pytest.raises(UserError, match="sha256 is"):
        fetch.take(source, tmp_path / "raw" / "other.bin", "0" * 64)
    with pytest.raises(UserError, match="no such file"):
        fetch.take(tmp_path / "none", tmp_path / "raw" / "none", None)
    assert [file.name for file in (tmp_path / "raw").iterdir()] == ["own.bin"]
