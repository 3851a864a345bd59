"""Downloads: retries, checksums, mirrors, archives and the lock file of what was fetched."""

import base64
import contextlib
import gzip
import hashlib
import http.server
import io
import multiprocessing
import os
import tarfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import yaml

from waltz.core.downloads import transfer
from waltz.core.downloads.content_checks import find_content_fault
from waltz.core.downloads.http_limits import read_retry_after
from waltz.core.downloads.lock_file import read_recorded, record_download
from waltz.core.downloads.urls import (
    apply_mirror,
    get_archive_member,
    get_copy_path,
    get_url_file_name,
)
from waltz.core.errors import UserError


def build_tar(name, content):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


CONTENT = bytes(range(256)) * 4000
SHA = hashlib.sha256(CONTENT).hexdigest()
TAR = build_tar("member", CONTENT[:5000])


class Server(http.server.ThreadingHTTPServer):
    """Serves CONTENT, misbehaving as `plan` says: one entry per request, the last one for all
    further requests.
    """

    plan: tuple[str, ...] = ("whole",)
    content = CONTENT
    etag = ""
    ranges: tuple[str | None, ...] = ()
    sent = 0


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_):
        pass

    def do_GET(self):
        server, content = self.server, self.server.content
        requested = self.headers.get("Range")
        server.ranges = (*server.ranges, requested)
        action = server.plan[min(len(server.ranges), len(server.plan)) - 1]
        if action in ("404", "500", "503"):
            self.send_error(int(action))
            return
        if action == "416":
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.end_headers()
            return
        changed = (
            server.etag and self.headers.get("If-Range", server.etag) != server.etag
        )
        resume = requested and action != "no-range" and not changed
        first = int(requested.removeprefix("bytes=").removesuffix("-")) if resume else 0
        body = b"x" * len(content) if action == "wrong" else content[first:]
        status = {"204": 204, "206": 206}.get(action, 206 if resume else 200)
        self.send_response(status)
        if status == 206:
            start = first + (action == "shifted")
            last = len(content) - (2 if action == "short-range" else 1)
            self.send_header("Content-Range", f"bytes {start}-{last}/{len(content)}")
        if server.etag:
            self.send_header("ETag", server.etag)
        if action in ("gzip", "br", "gzip, gzip"):
            self.send_header("Content-Encoding", action)
        if action == "page":
            self.send_header("Content-Type", "Text/HTML; charset=utf-8")
        if action == "endless":
            self.end_headers()
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(content)
                    server.sent += len(content)
            return
        if action == "no-length":
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_header(
            "Content-Length", "badlen" if action == "badlen" else str(len(body))
        )
        self.end_headers()
        if action == "slow":
            time.sleep(0.2)
        if status != 204:
            self.wfile.write(body[: len(body) // 3] if action == "cut" else body)


@pytest.fixture
def server():
    running = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
    yield running
    running.shutdown()
    running.server_close()


@pytest.fixture
def get(server, tmp_path):
    def run(*plan, expected=SHA):
        server.plan = plan
        waits = []
        target = tmp_path / "data.bin"
        transfer.download(
            transfer.DownloadRequest(
                f"http://127.0.0.1:{server.server_port}/d", expected, "put it by hand"
            ),
            target,
            wait=waits.append,
        )
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
    assert len(CONTENT) // 3 - (1 << 16) < arrived <= len(CONTENT) // 3
    assert waits == [1.0]


def test_a_server_without_ranges_sends_the_complete_file_again(get):
    get("cut", "no-range")


def test_a_temporary_error_is_retried_with_growing_waits(get):
    assert get("500", "503", "whole")[1] == [1.0, 2.0]


def test_wrong_content_is_deleted_and_fetched_again(get):
    assert get("wrong", "whole")[0] == (None, None)


def test_a_permanent_error_is_not_retried_and_says_what_to_do(get, server):
    with pytest.raises(
        UserError,
        match=r"data\.bin: cannot be fetched from http.*HTTP 404.*put it by hand",
    ):
        get("404")
    assert len(server.ranges) == 1


def test_a_wrong_checksum_in_every_attempt_is_an_error_with_both(get):
    with pytest.raises(UserError, match=f"sha256 .*not {SHA}"):
        get("wrong")


def test_a_missing_server_is_an_error_of_connection(tmp_path):
    with pytest.raises(UserError, match=r"no connection to 127\.0\.0\.1:9"):
        transfer.download(
            transfer.DownloadRequest("http://127.0.0.1:9/d", SHA, "by hand"),
            tmp_path / "d",
            wait=lambda _: None,
        )


def test_a_later_run_continues_the_download_of_an_earlier_one(get, server, tmp_path):
    (tmp_path / f".{SHA[:16]}.part").write_bytes(CONTENT[:1000])
    assert get("whole")[0] == ("bytes=1000-",)


def test_a_local_copy_is_checked_before_it_is_copied(tmp_path):
    source = tmp_path / "own.bin"
    source.write_bytes(CONTENT)
    transfer.copy_checked(source, tmp_path / "raw" / "own.bin", SHA)
    assert (tmp_path / "raw" / "own.bin").read_bytes() == CONTENT
    with pytest.raises(UserError, match="sha256 is"):
        transfer.copy_checked(source, tmp_path / "raw" / "other.bin", "0" * 64)
    with pytest.raises(UserError, match="no such file"):
        transfer.copy_checked(tmp_path / "none", tmp_path / "raw" / "none", None)
    assert [file.name for file in (tmp_path / "raw").iterdir()] == ["own.bin"]


@pytest.fixture
def locked(server, tmp_path):
    def run(*plan, checksum="lock", name="data.bin", origin="d#in/it.json", **options):
        server.plan, server.ranges = plan, ()
        url = f"http://127.0.0.1:{server.server_port}/{origin}"
        lock, cache = tmp_path / "lock.yaml", tmp_path / "cache"
        file = transfer.DownloadRequest(url, checksum, "by hand", **options)
        transfer.fetch(file, tmp_path / name, lock, cache, wait=lambda _: None)
        return url.partition("#")[0]

    return run


def test_the_first_download_is_recorded_and_other_content_is_refused_later(
    locked, tmp_path
):
    url = locked("whole", size=len(CONTENT))
    assert read_recorded(tmp_path / "lock.yaml", url, "sha256") == SHA
    locked("404", name="again.bin")
    assert (tmp_path / "again.bin").read_bytes() == CONTENT  # from the cache
    (tmp_path / "cache" / SHA).write_bytes(b"damaged")
    with pytest.raises(
        UserError,
        match=rf"the received file has sha256 .*, not {SHA}\).*lock\.yaml records",
    ):
        locked("wrong", name="other.bin")
    assert not (tmp_path / "other.bin").exists()


def test_an_interrupted_first_download_is_recorded_when_it_is_complete(
    locked, tmp_path
):
    url = locked("cut", "500", "whole")
    assert read_recorded(tmp_path / "lock.yaml", url, "sha256") == SHA
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("size", [7, len(CONTENT) + 1])
def test_a_file_of_another_size_than_in_the_study_is_not_recorded(
    locked, tmp_path, size
):
    with pytest.raises(
        UserError, match=rf"(sent more than|the study says) {size}.*; by hand"
    ):
        locked("whole", size=size)
    assert not (tmp_path / "lock.yaml").exists()


@pytest.mark.parametrize("create", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_a_lock_file_that_is_no_file_is_named_and_stays(locked, tmp_path, create):
    create(tmp_path / "lock.yaml")
    with pytest.raises(
        UserError,
        match=r"lock\.yaml: not a lock file: it is a folder or device; remove it",
    ):
        locked("whole")
    assert not (tmp_path / "lock.yaml").is_file()


def test_a_web_page_instead_of_a_file_is_refused(locked, tmp_path):
    with pytest.raises(
        UserError, match="the server sent a web page instead of the file"
    ):
        locked("page")
    assert not (tmp_path / "lock.yaml").exists()


def test_a_known_checksum_is_not_recorded(locked, tmp_path):
    locked("whole", checksum=SHA)
    assert not (tmp_path / "lock.yaml").exists()


def test_a_deleted_file_is_linked_again_without_the_network(locked, tmp_path):
    locked("whole", checksum=SHA)
    (tmp_path / "data.bin").unlink()
    locked("404", checksum=SHA)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert (tmp_path / "data.bin").stat().st_nlink == 2
    assert [file.name for file in (tmp_path / "cache").glob("[!.]*")] == [SHA]


@pytest.mark.parametrize("checksum", ["lock", SHA])
def test_two_studies_that_need_a_file_at_once_fetch_it_once(server, tmp_path, checksum):
    server.plan = ("slow",)
    url, lock, cache = (
        f"http://127.0.0.1:{server.server_port}/d",
        tmp_path / "lock.yaml",
        tmp_path / "cache",
    )
    with ThreadPoolExecutor(2) as executor:
        ends = [
            executor.submit(
                transfer.fetch,
                transfer.DownloadRequest(url, checksum, "by hand"),
                tmp_path / name,
                lock,
                cache,
            )
            for name in "ab"
        ]
        for end in ends:
            end.result()
    assert [(tmp_path / name).read_bytes() for name in "ab"] == [CONTENT] * 2
    assert len(server.ranges) == 1


def test_a_part_of_another_version_is_not_continued(locked, server, tmp_path):
    server.etag, server.content = '"1"', bytes(len(CONTENT))
    with pytest.raises(UserError, match="503"):
        locked("cut", "503")
    server.etag, server.content = '"2"', CONTENT
    url = locked("whole")
    assert server.ranges == (None,)
    assert read_recorded(tmp_path / "lock.yaml", url, "sha256") == SHA
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_a_part_whose_checksum_is_not_known_is_fetched_anew(locked, server):
    server.etag = '"1"'
    locked("cut", "whole")
    assert server.ranges == (None, None)


@pytest.mark.parametrize("action", ["shifted", "416", "short-range"])
def test_a_range_that_does_not_fit_the_part_starts_anew(
    locked, server, tmp_path, action
):
    locked("cut", action, "whole", checksum=SHA)
    assert server.ranges[2] is None
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("action", ["204", "206"])
def test_an_answer_without_the_whole_file_is_refused(locked, tmp_path, action):
    with pytest.raises(UserError, match=f"HTTP {action} .*without the file"):
        locked(action)
    assert not (tmp_path / "lock.yaml").exists()


def test_a_length_that_is_no_number_is_refused(locked, tmp_path):
    with pytest.raises(UserError, match="the reply of the server is broken"):
        locked("badlen")
    assert not (tmp_path / "lock.yaml").exists()


def test_a_first_download_without_length_and_end_is_refused(locked, server, tmp_path):
    with pytest.raises(
        UserError, match=r"does not say how long the file is.*sha256 or size"
    ):
        locked("no-length")
    locked("no-length", checksum=SHA)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


@pytest.mark.parametrize(
    "options", [{"largest": 3_000_000, "checksum": SHA}, {"size": 2_000_000}]
)
def test_an_endless_file_is_stopped(locked, server, tmp_path, options):
    with pytest.raises(
        UserError, match=f"sent more than {next(iter(options.values()))} bytes"
    ):
        locked("endless", **options)
    assert server.sent < 20_000_000
    assert not list((tmp_path / "cache").glob("[!.]*"))
    assert not list((tmp_path / "cache").glob("*.part"))


def test_complete_files_have_no_fault(tmp_path):
    files = {
        "a.json": b'{"a": [1, 2]}',
        "a.json.gz": gzip.compress(b"{}"),
        "a.jsonl": b'{"a": 1}\n\n{"a": 2}',
        "a.tar": TAR,
        "a.tar.gz": gzip.compress(TAR),
        "a.safetensors": (2).to_bytes(8, "little") + b"{}",
        "a.parquet": b"PAR1...PAR1",
        "a.jpg": b"\xff\xd8\xff\xe0",
        "a.pth": b"\x80\x02",
        "a.html": b"<html>",
        "a.csv": "sentence,ümlaut".encode(),
        "b.csv": b"<s>,caption\n1,a dog",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        assert find_content_fault(tmp_path / name, name) is None


@pytest.mark.parametrize(
    ("origin", "content", "fault"),
    [
        ("a.csv", b"", "it is empty"),
        ("a.csv", b"\xef\xbb\xbf\n<!DOCTYPE HTML><p>log in", "it is a web page"),
        (
            "a.csv",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n",
            "it is a pointer of Git LFS",
        ),
        (
            "a.bin",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n",
            "it is a pointer of Git LFS",
        ),
        ("a.csv", b"a,b\0c", "it contains binary data"),
        ("a.csv", b'<?xml version="1.0"?><html>log in', "it is a web page"),
        ("a.txt", b'{"error": "quota"}', "it is JSON"),
        ("a.csv", b"<Error><Code>AccessDenied</Code></Error>", "it is XML"),
        (
            "a.tsv",
            b"\xef\xbb\xbf <?xml version='1.0'?>\n<Error><Code>NoSuchKey</Code></Error>",
            "it is XML",
        ),
        ("a.csv", b"<!-- login -->\n<!DOCTYPE html><p>log in", "it is a web page"),
        (
            "a.zip",
            b"<?xml version='1.0'?><!-- x --><!DOCTYPE html><p>log in",
            "it is a web page",
        ),
        ("a.jsonl", b"[" * 200_000, "no complete jsonl file"),
        (
            "a.safetensors",
            (2).to_bytes(8, "little") + b"{]",
            "no complete safetensors file",
        ),
        (
            "a.safetensors",
            (7).to_bytes(8, "little") + b'{"a":1}',
            "no complete safetensors file",
        ),
        ("a.json", b'{"a": [1, 2', "no complete json file"),
        ("a.json.gz", gzip.compress(b"{}" * 5000, mtime=0)[:-9], "no complete gz file"),
        ("a.jsonl", b'{"a": 1}\n{"a":', "no complete jsonl file"),
        ("a.zip", b"PK\x03\x04 and no end", "no complete zip file"),
        ("a.tar", TAR[:2000], "no complete tar file"),
        (
            "a.safetensors",
            (2).to_bytes(8, "little") + b"{}and more",
            "no complete safetensors file",
        ),
        ("a.parquet", b"PAR1 and no end", "no complete parquet file"),
        ("a.jpg", b"\x89PN", "no complete jpg file"),
        ("a.pth", b"text", "no complete pth file"),
    ],
)
def test_a_first_download_that_cannot_be_the_file_is_not_recorded(
    locked, server, tmp_path, origin, content, fault
):
    server.content = content
    with pytest.raises(UserError, match=f"did not give the file .*{fault}"):
        locked("whole", origin=origin)
    assert not (tmp_path / "lock.yaml").exists()
    assert not (tmp_path / "data.bin").exists()


def test_files_are_requested_from_the_mirror(server, tmp_path, monkeypatch):
    monkeypatch.setenv("WALTZ_MIRROR", f"http://127.0.0.1:{server.server_port}/mirror")
    transfer.download(
        transfer.DownloadRequest("https://example.org/d", SHA, "by hand"),
        tmp_path / "d",
        wait=lambda _: None,
    )
    assert (tmp_path / "d").read_bytes() == CONTENT


def test_a_mirror_that_does_not_answer_is_named_with_its_variable(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("WALTZ_MIRROR", "http://127.0.0.1:1")
    fault = (
        r"from http://127\.0\.0\.1:1/example\.org/d, "
        r"the mirror that WALTZ_MIRROR names for https://example\.org/d \("
    )
    with pytest.raises(UserError, match=fault):
        transfer.download(
            transfer.DownloadRequest("https://example.org/d", SHA, "by hand"),
            tmp_path / "d",
            wait=lambda _: None,
        )


URL = "https://example.org/a.zip"


def test_the_first_download_is_recorded_and_an_equal_second_one_changes_nothing(
    tmp_path,
):
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
        UserError,
        match=f"^{URL}: sha256 is b{{64}}, .*mine.yaml says a{{64}} .recorded 20.*get the same",
    ):
        record_download(file, URL, {"sha256": "b" * 64, "size": 3})
    assert read_recorded(file, URL, "sha256") == "a" * 64


@pytest.mark.parametrize(
    "text", ["- a\n", "a: b\n", "a: [\n", "a: " + "[" * 3000, "a: \udce9\n"]
)
def test_a_file_of_another_kind_is_an_error_with_its_name(tmp_path, text):
    (tmp_path / "mine.yaml").write_text(
        text, encoding="utf-8", errors="surrogateescape"
    )
    with pytest.raises(UserError, match=r"mine\.yaml: not a lock file"):
        read_recorded(tmp_path / "mine.yaml", URL, "sha256")


def _record(task):
    file, number = task
    for entry in range(10):
        record_download(
            file,
            f"https://example.org/{number}/{entry}",
            {"sha256": "c" * 64, "size": entry},
        )


def test_concurrent_jobs_lose_no_entry(tmp_path):
    file = tmp_path / "mine.yaml"
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.map(_record, [(file, number) for number in range(4)])
    assert len(yaml.safe_load(file.read_text())) == 40


@pytest.mark.parametrize(
    ("url", "file", "member", "copy"),
    [
        ("https://a.org/x/y.pth", "y.pth", "", "a.org/x/y.pth"),
        (
            "http://a.org/y.zip?dl=1#in/it.json",
            "y.zip",
            "in/it.json",
            "a.org/y.zip_sha256-53106bb9",
        ),
        ("https://a.org:80/../e%20f/g", "g", "", "a.org_80/_/e_20f/g"),
    ],
)
def test_parts_of_a_url(url, file, member, copy):
    assert (get_url_file_name(url), get_archive_member(url), get_copy_path(url)) == (
        file,
        member,
        copy,
    )


def test_a_mirror_replaces_the_scheme(monkeypatch):
    monkeypatch.delenv("WALTZ_MIRROR", raising=False)
    assert apply_mirror("https://a.org/y.zip?dl=1#b") == "https://a.org/y.zip?dl=1"
    monkeypatch.setenv("WALTZ_MIRROR", "http://127.0.0.1:1/mirror/")
    assert (
        apply_mirror("https://a.org/y.zip?dl=1#b")
        == "http://127.0.0.1:1/mirror/a.org/y.zip?dl=1"
    )


@pytest.mark.parametrize(
    "facts",
    [
        "{sha256: ../decoy.txt, date: '2026-01-01'}",
        "{sha256: /decoy.txt, date: '2026-01-01'}",
        "{commit: ../decoy.txt, date: '2026-01-01'}",
        "{size: -1, date: '2026-01-01'}",
        "{size: true, date: '2026-01-01'}",
        "{other: 1, date: '2026-01-01'}",
        "{date: '2026-01-01', date: '2026-01-02'}",
    ],
)
def test_a_lock_file_never_leads_out_of_the_cache(locked, server, tmp_path, facts):
    decoy = tmp_path / "decoy.txt"
    decoy.write_text("precious")
    url = f"http://127.0.0.1:{server.server_port}/d"
    (tmp_path / "lock.yaml").write_text(f"{url}: {facts}\n")
    with pytest.raises(UserError, match=r"lock\.yaml: not a lock file"):
        locked("whole")
    assert decoy.read_text() == "precious"


def test_a_checksum_that_is_a_path_is_refused(locked, tmp_path):
    decoy = tmp_path / "decoy.txt"
    decoy.write_text("precious")
    with pytest.raises(UserError, match="no checksum"):
        locked("whole", checksum="../decoy.txt")
    assert decoy.read_text() == "precious"


@pytest.mark.parametrize("encoding", ["gzip", "br", "gzip, gzip"])
def test_an_encoding_that_was_not_requested_is_refused(locked, tmp_path, encoding):
    with pytest.raises(UserError, match=r"encoding .*, which was not requested"):
        locked(encoding)
    assert not (tmp_path / "lock.yaml").exists()


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        ("12", 12, 12),
        ("999999999", 300, 300),
        ("-5", 0, 0),
        ("soon", 0, 0),
        ("", 0, 0),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 300, 300),
        ("Fri, 01 Jan 1999 00:00:00 GMT", 0, 0),
    ],
)
def test_a_server_may_ask_for_a_bounded_wait(header, least, most):
    assert least <= read_retry_after(header) <= most


def test_a_message_holds_no_secret_of_the_url(tmp_path):
    url = "http://user:secret@127.0.0.1:9/d?token=secret#secret"
    with pytest.raises(UserError, match=r"from http://127\.0\.0\.1:9/d ") as error:
        transfer.download(
            transfer.DownloadRequest(url, None, "by hand"),
            tmp_path / "d",
            wait=lambda _: None,
        )
    assert "secret" not in str(error.value)


def test_a_redirect_to_plain_http_is_refused_where_no_checksum_is_known(
    tmp_path, monkeypatch
):
    def answer(request):
        if request.url.scheme == "https":
            return httpx.Response(302, headers={"Location": "http://example.org/d"})
        return httpx.Response(
            200,
            headers={"Content-Length": str(len(CONTENT))},
            stream=httpx.ByteStream(CONTENT),
        )

    def build_client(**options):
        return httpx.Client(transport=httpx.MockTransport(answer), **options)

    monkeypatch.setattr(transfer, "build_client", build_client)
    with pytest.raises(UserError, match="redirects from https to http"):
        transfer.download(
            transfer.DownloadRequest("https://example.org/d", None, "by hand"),
            tmp_path / "d",
            wait=lambda _: None,
        )
    transfer.download(
        transfer.DownloadRequest("https://example.org/d", SHA, "by hand"),
        tmp_path / "d",
        wait=lambda _: None,
    )
    assert (tmp_path / "d").read_bytes() == CONTENT


@contextlib.contextmanager
def answer(status, reason, content=b"a file", user=""):
    """Serve one content; with a user, to that user alone."""
    expected = f"Basic {base64.b64encode(user.encode()).decode()}"

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            refused = user and self.headers.get("Authorization") != expected
            self.send_response(401 if refused else status, reason)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_what_a_server_repeats_of_a_url_is_hidden(tmp_path, caplog):
    with answer(503, "no token=it-is-secret, it-is-secret") as address:
        url = f"{address}/d?token=it-is-secret"
        with pytest.raises(UserError, match=r"HTTP 503 no <hidden>, <hidden>") as error:
            transfer.download(
                transfer.DownloadRequest(url, None, "by hand"),
                tmp_path / "d",
                wait=lambda _: None,
            )
    assert "it-is-secret" not in str(error.value) + caplog.text


def test_a_part_of_what_a_server_repeats_is_hidden(tmp_path):
    token = "it-is-secret" * 9
    with (
        answer(404, f"no {token}") as address,
        pytest.raises(UserError, match=r"HTTP 404 no <hidden>") as error,
    ):
        transfer.download(
            transfer.DownloadRequest(f"{address}/d?token={token}", None, "by hand"),
            tmp_path / "d",
        )
    assert "it-is" not in str(error.value)


def test_a_password_comes_from_netrc(tmp_path, monkeypatch):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password it-is-secret\n")
    netrc.chmod(0o600)
    with answer(200, "OK", user="me:it-is-secret") as address:
        monkeypatch.setenv("NETRC", str(tmp_path / "none"))
        with pytest.raises(UserError, match="HTTP 401"):
            transfer.download(
                transfer.DownloadRequest(f"{address}/d", None, "by hand"),
                tmp_path / "d",
                wait=lambda _: None,
            )
        monkeypatch.setenv("NETRC", str(netrc))
        transfer.download(
            transfer.DownloadRequest(f"{address}/d", None, "by hand"),
            tmp_path / "d",
            wait=lambda _: None,
        )
    assert (tmp_path / "d").read_text() == "a file"


def test_a_lock_file_names_urls_without_their_queries(tmp_path):
    file = tmp_path / "lock.yaml"
    first, second = (
        "https://a.org/b?token=it-is-secret",
        "https://a.org/b?token=another",
    )
    file.write_text(
        f"{second}: {{sha256: {'b' * 64}, date: 2030-01-01}}\n".replace(
            "2030-01-01", "'2030-01-01'"
        )
    )
    assert read_recorded(file, second, "sha256") == "b" * 64  # of an older version
    record_download(file, f"{first}#a.json", {"sha256": "a" * 64})
    assert [read_recorded(file, url, "sha256") for url in (first, second)] == [
        "a" * 64,
        "b" * 64,
    ]
    text = file.read_text()
    assert "secret" not in text
    assert "another" not in text
    assert text.count("https://a.org/b?sha256-") == 2
    with pytest.raises(UserError, match=r"a\.org/b: sha256 is c+, .* says a+") as error:
        record_download(file, first, {"sha256": "c" * 64})
    assert "secret" not in str(error.value)
