"""Downloads: retries, checksums, mirrors, archives and the lock file of what was fetched."""

import hashlib
import http.server
import multiprocessing
import threading

import pytest
import yaml

from waltz.core.errors import UserError
from waltz.core.files import downloads
from waltz.core.files.downloads import (
    apply_mirror,
    get_archive_member,
    get_copy_path,
    get_file_name,
    read_recorded,
    record_download,
)

CONTENT = bytes(range(256)) * 4000
SHA = hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Serves CONTENT, misbehaving as `plan` says: one entry per request, the last one for all further requests."""

    plan: tuple[str, ...] = ("whole",)
    ranges: tuple[str | None, ...] = ()


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        requested = self.headers.get("Range")
        server.ranges = (*server.ranges, requested)
        action = server.plan[min(len(server.ranges), len(server.plan)) - 1]
        if action.isdigit():
            self.send_error(int(action))
            return
        first = int(requested.removeprefix("bytes=").removesuffix("-")) if requested and action != "no-range" else 0
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
        downloads.download(f"http://127.0.0.1:{server.server_port}/d", target, expected, "put it by hand", waits.append)
        assert target.read_bytes() == CONTENT
        assert [file.name for file in tmp_path.iterdir()] == ["data.bin"]
        return server.ranges, waits

    return run


def test_a_complete_file_needs_one_request(get):
    assert get("whole") == ((None,), [])


def test_an_interrupted_download_continues_where_it_ended(get):
    (first, second), waits = get("cut", "whole")
    arrived = int(second.removeprefix("bytes=").removesuffix("-"))
    assert first is None
    assert len(CONTENT) // 3 - downloads.CHUNK_BYTES < arrived <= len(CONTENT) // 3
    assert waits == [1.0]


def test_a_server_without_ranges_sends_the_complete_file_again(get):
    get("cut", "no-range")


def test_a_temporary_error_is_retried_with_growing_waits(get):
    assert get("500", "503", "whole")[1] == [1.0, 2.0]


def test_wrong_content_is_deleted_and_fetched_again(get):
    assert get("wrong", "whole")[0] == (None, None)


def test_a_permanent_error_is_not_retried_and_says_what_to_do(get, server):
    with pytest.raises(UserError, match=r"data\.bin: cannot be fetched from http.*HTTP 404.*put it by hand"):
        get("404")
    assert len(server.ranges) == 1


def test_a_wrong_checksum_in_every_attempt_is_an_error_with_both(get):
    with pytest.raises(UserError, match=f"sha256 .*not {SHA}"):
        get("wrong")


def test_a_missing_server_is_an_error_of_connection(tmp_path):
    with pytest.raises(UserError, match=r"no connection to 127\.0\.0\.1:9"):
        downloads.download("http://127.0.0.1:9/d", tmp_path / "d", SHA, "by hand", lambda _: None)


def test_a_later_run_continues_the_download_of_an_earlier_one(get, server, tmp_path):
    (tmp_path / f".data.bin.{SHA[:16]}.part").write_bytes(CONTENT[:1000])
    assert get("whole")[0] == ("bytes=1000-",)


def test_a_local_copy_is_checked_before_it_is_copied(tmp_path):
    source = tmp_path / "own.bin"
    source.write_bytes(CONTENT)
    downloads.copy_checked(source, tmp_path / "raw" / "own.bin", SHA)
    assert (tmp_path / "raw" / "own.bin").read_bytes() == CONTENT
    with pytest.raises(UserError, match="sha256 is"):
        downloads.copy_checked(source, tmp_path / "raw" / "other.bin", "0" * 64)
    with pytest.raises(UserError, match="no such file"):
        downloads.copy_checked(tmp_path / "none", tmp_path / "raw" / "none", None)
    assert [file.name for file in (tmp_path / "raw").iterdir()] == ["own.bin"]


@pytest.fixture
def locked(server, tmp_path):
    def run(*plan, size=None, checksum="lock", name="data.bin"):
        server.plan, server.ranges = plan, ()
        url = f"http://127.0.0.1:{server.server_port}/d#in/it.json"
        downloads.fetch(url, tmp_path / name, checksum, tmp_path / "lock.yaml", "by hand", size, lambda _: None)
        return url.partition("#")[0]

    return run


def test_the_first_download_is_recorded_and_other_content_is_refused_later(locked, tmp_path):
    url = locked("whole", size=len(CONTENT))
    assert read_recorded(tmp_path / "lock.yaml", url, "sha256") == SHA
    locked("whole", name="again.bin")
    assert (tmp_path / "again.bin").read_bytes() == CONTENT
    with pytest.raises(
        UserError,
        match=rf"the received file has sha256 .*, not {SHA}\).*lock\.yaml records",
    ):
        locked("wrong", name="other.bin")
    assert not (tmp_path / "other.bin").exists()


def test_an_interrupted_first_download_is_recorded_when_it_is_complete(locked, tmp_path):
    url = locked("cut", "500", "whole")
    assert read_recorded(tmp_path / "lock.yaml", url, "sha256") == SHA
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_a_file_of_another_size_than_in_the_study_is_not_recorded(locked, tmp_path):
    with pytest.raises(UserError, match=rf"gave {len(CONTENT)} bytes, the study says 7; by hand"):
        locked("whole", size=7)
    assert not (tmp_path / "lock.yaml").exists()


def test_a_web_page_instead_of_a_file_is_refused(locked, tmp_path):
    with pytest.raises(UserError, match="the server sent a web page instead of the file"):
        locked("page")
    assert not (tmp_path / "lock.yaml").exists()


def test_a_known_checksum_is_not_recorded(locked, tmp_path):
    locked("whole", checksum=SHA)
    assert not (tmp_path / "lock.yaml").exists()


def test_files_are_requested_from_the_mirror(server, tmp_path, monkeypatch):
    monkeypatch.setenv("WALTZ_MIRROR", f"http://127.0.0.1:{server.server_port}/mirror")
    downloads.download("https://example.org/d", tmp_path / "d", SHA, "by hand", lambda _: None)
    assert (tmp_path / "d").read_bytes() == CONTENT


URL = "https://example.org/a.zip"


def test_the_first_download_is_recorded_and_an_equal_second_one_changes_nothing(tmp_path):
    file = tmp_path / "locks" / "mine.yaml"
    assert read_recorded(file, URL, "sha256") is None
    record_download(file, URL, {"sha256": "a" * 64, "size": 3})
    content = file.read_bytes()
    record_download(file, URL, {"sha256": "a" * 64, "size": 3})
    assert file.read_bytes() == content
    assert read_recorded(file, URL, "sha256") == "a" * 64
    (entry,) = yaml.safe_load(file.read_text()).values()
    assert set(entry) == {"sha256", "size", "date"}


def test_a_different_checksum_is_an_error_that_names_both(tmp_path):
    file = tmp_path / "mine.yaml"
    record_download(file, URL, {"sha256": "a" * 64, "size": 3})
    with pytest.raises(
        UserError, match=f"^{URL}: sha256 is b{{64}}, .*mine.yaml says a{{64}} .recorded 20.*get the same"
    ):
        record_download(file, URL, {"sha256": "b" * 64, "size": 3})
    assert read_recorded(file, URL, "sha256") == "a" * 64


@pytest.mark.parametrize("text", ["- a\n", "a: b\n", "a: [\n"])
def test_a_file_of_another_kind_is_an_error_with_its_name(tmp_path, text):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(UserError, match=r"mine\.yaml: not a lock file"):
        read_recorded(tmp_path / "mine.yaml", URL, "sha256")


def _record(task):
    file, number = task
    for entry in range(10):
        record_download(file, f"https://example.org/{number}/{entry}", {"sha256": "c" * 64, "size": entry})


def test_concurrent_jobs_lose_no_entry(tmp_path):
    file = tmp_path / "mine.yaml"
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.map(_record, [(file, number) for number in range(4)])
    assert len(yaml.safe_load(file.read_text())) == 40


@pytest.mark.parametrize(
    ("url", "file", "member", "copy"),
    [
        ("https://a.org/x/y.pth", "y.pth", "", "a.org/x/y.pth"),
        ("http://a.org/y.zip?dl=1#in/it.json", "y.zip", "in/it.json", "a.org/y.zip_dl_1"),
        ("https://a.org:80/../e%20f/g", "g", "", "a.org_80/_/e_20f/g"),
    ],
)
def test_parts_of_a_url(url, file, member, copy):
    assert (get_file_name(url), get_archive_member(url), get_copy_path(url)) == (file, member, copy)


def test_a_mirror_replaces_the_scheme(monkeypatch):
    monkeypatch.delenv("WALTZ_MIRROR", raising=False)
    assert apply_mirror("https://a.org/y.zip?dl=1#b") == "https://a.org/y.zip?dl=1"
    monkeypatch.setenv("WALTZ_MIRROR", "http://127.0.0.1:1/mirror/")
    assert apply_mirror("https://a.org/y.zip?dl=1#b") == "http://127.0.0.1:1/mirror/a.org/y.zip?dl=1"
