import hashlib
import http.server
import threading

import pytest

from waltz.core.errors import UserError
from waltz.core.files import fetch
from waltz.core.files.download_lock import read_recorded

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
        if action == "page":
            self.send_header("Content-Type", "text/html; charset=utf-8")
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
    fetch.copy_checked(source, tmp_path / "raw" / "own.bin", SHA)
    assert (tmp_path / "raw" / "own.bin").read_bytes() == CONTENT
    with pytest.raises(UserError, match="sha256 is"):
        fetch.copy_checked(source, tmp_path / "raw" / "other.bin", "0" * 64)
    with pytest.raises(UserError, match="no such file"):
        fetch.copy_checked(tmp_path / "none", tmp_path / "raw" / "none", None)
    assert [file.name for file in (tmp_path / "raw").iterdir()] == ["own.bin"]


@pytest.fixture
def locked(server, tmp_path):
    def run(*plan, size=None, said="lock", name="data.bin"):
        server.plan, server.ranges = plan, ()
        url = f"http://127.0.0.1:{server.server_port}/d#in/it.json"
        fetch.fetch(url, tmp_path / name, said, tmp_path / "lock.yaml", "by hand", size, lambda _: None)
        return url.partition("#")[0]

    return run


def test_what_comes_first_is_locked_and_another_content_later_is_refused(locked, tmp_path):
    url = locked("whole", size=len(CONTENT))
    assert read_recorded(tmp_path / "lock.yaml", url, "sha256") == SHA
    locked("whole", name="again.bin")
    assert (tmp_path / "again.bin").read_bytes() == CONTENT
    with pytest.raises(UserError, match=rf"what came has sha256 .*, not {SHA}\).*lock\.yaml holds what it gave first"):
        locked("wrong", name="other.bin")
    assert not (tmp_path / "other.bin").exists()


def test_a_cut_first_download_is_not_locked_before_it_is_whole(locked, tmp_path):
    url = locked("cut", "500", "whole")
    assert read_recorded(tmp_path / "lock.yaml", url, "sha256") == SHA
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_another_size_than_the_study_says_is_not_locked(locked, tmp_path):
    with pytest.raises(UserError, match=rf"gave {len(CONTENT)} bytes, the study says 7; by hand"):
        locked("whole", size=7)
    assert not (tmp_path / "lock.yaml").exists()


def test_a_page_in_the_place_of_a_file_is_refused(locked, tmp_path):
    with pytest.raises(UserError, match="a web page came in the place of the file"):
        locked("page")
    assert not (tmp_path / "lock.yaml").exists()


def test_a_known_checksum_needs_no_lock(locked, tmp_path):
    locked("whole", said=SHA)
    assert not (tmp_path / "lock.yaml").exists()


def test_files_are_asked_for_below_a_mirror(server, tmp_path, monkeypatch):
    monkeypatch.setenv("WALTZ_MIRROR", f"http://127.0.0.1:{server.server_port}/mirror")
    fetch.download("https://example.org/d", tmp_path / "d", SHA, "by hand", lambda _: None)
    assert (tmp_path / "d").read_bytes() == CONTENT
