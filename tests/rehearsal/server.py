"""A loopback server that stands for every url of a study and for the model hub, and misbehaves on
request.

Urls are requested below `/mirror/HOST/PATH`, as `WALTZ_MIRROR` makes them; everything else is the
hub's, as huggingface_hub asks for it where `HF_ENDPOINT` names this server.
"""

import hashlib
import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

MIRROR = "/mirror/"
RESOLVED = re.compile(
    r"/(?P<id>[^/]+(?:/[^/]+)?)/resolve/(?P<revision>[^/]+)/(?P<file>.+)"
)
LISTED = re.compile(
    r"/api/models/(?P<id>[^/]+(?:/[^/]+)?)/tree/(?P<revision>[^/]+)(?:/(?P<below>.*))?"
)
DESCRIBED = re.compile(
    r"/api/models/(?P<id>[^/]+(?:/[^/]+)?)(?:/revision/(?P<revision>[^/]+))?"
)
TRICKLE_BYTES = 1 << 12
HANG_SECONDS = 2.0
LOGIN_PAGE = b"<!DOCTYPE html><html><title>Log in</title></html>"
LARGE = (".bin", ".safetensors")

Kind = Literal["404", "500", "cut", "wrong", "slow", "page", "whole", "gated", "hang"]


@dataclass(frozen=True)
class Repository:
    """A model of the hub: the folder of its files, and the one commit that it has."""

    folder: Path
    commit: str

    def files(self) -> dict[str, Path]:
        """Every file by its path in the repository."""
        return {
            path.relative_to(self.folder).as_posix(): path
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }

    def has(self, revision: str | None) -> bool:
        return revision in (None, "main", self.commit)


@dataclass
class Fault:
    """How the answers to some paths go wrong, and how many more of them will.

    Attributes:
        part: A part of the paths.
        kind: `404` and `500` are statuses; `cut` ends the connection in the middle of the file,
            `wrong` sends other bytes of the same number, `slow` takes a second; `page` is a page to
            log in, `whole` sends no ranges, `gated` refuses files of a repository whose licence is
            not accepted, `hang` answers after some seconds.
        times: Answers that are left; each takes one.
    """

    part: str
    kind: Kind
    times: int


@dataclass
class World:
    """Files of the server, and counts of its requests.

    Attributes:
        urls: Files by url without its scheme.
        hub: Repositories by id.
        faults: What goes wrong.
        request_counts: Number of requests by method and path.
        sent_bytes: Bytes of files that were sent, by path.
    """

    urls: dict[str, Path] = field(default_factory=dict)
    hub: dict[str, Repository] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    request_counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    sent_bytes: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def misbehave(self, part: str, kind: Kind, times: int = 10**9) -> None:
        """Let the next answers to paths with some part go wrong."""
        with self.lock:
            self.faults.append(Fault(part, kind, times))

    def behave(self) -> None:
        """Let all go well again."""
        with self.lock:
            self.faults.clear()

    def fault(self, method: str, path: str) -> Kind | None:
        """Note a request; how its answer goes wrong."""
        with self.lock:
            self.request_counts[method, path] += 1
            for fault in self.faults:
                bodily = fault.kind in ("cut", "wrong", "slow")
                if (
                    fault.part in path
                    and fault.times
                    and not (bodily and method == "HEAD")
                ):
                    fault.times -= 1
                    return fault.kind
        return None


@contextmanager
def serving(world: World) -> Iterator[str]:
    """Serve a world on a free port of the loopback; its address without a slash at the end."""

    class Bound(_Handler):
        pass

    Bound.world = world
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    server.daemon_threads = True
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def environment(address: str, home: Path) -> dict[str, str]:
    """Environment of a process that reaches this server alone and caches downloads below a folder."""
    return {
        "WALTZ_MIRROR": address + MIRROR,
        "HF_ENDPOINT": address,
        "HF_HOME": str(home),
        "HF_HUB_OFFLINE": "0",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }


class _Handler(BaseHTTPRequestHandler):
    world: World
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *values: Any) -> None:
        """Count requests without a log line."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        split = urlsplit(self.path)
        path = unquote(split.path)
        fault = self.world.fault(self.command, path)
        if fault == "hang":
            time.sleep(HANG_SECONDS)
        if fault in ("404", "500"):
            self._status(int(fault))
        elif fault == "gated":
            self._status(
                403,
                {
                    "X-Error-Code": "GatedRepo",
                    "X-Error-Message": "Access is restricted",
                },
            )
        elif fault == "page":
            self._content(LOGIN_PAGE, "text/html; charset=utf-8")
        elif path.startswith(MIRROR):
            url = path.removeprefix(MIRROR) + (f"?{split.query}" if split.query else "")
            file = self.world.urls.get(url)
            self._status(404) if file is None else self._file(file, {}, fault)
        elif match := RESOLVED.fullmatch(path):
            self._hub_file(match, fault)
        elif match := LISTED.fullmatch(path):
            self._tree(match)
        elif match := DESCRIBED.fullmatch(path):
            self._model(match)
        else:
            self._status(404)

    def _repository(self, url: Mapping[str, str | None]) -> Repository | None:
        """The repository of an id and revision; None after an answer that there is none."""
        repository = self.world.hub.get(str(url["id"]))
        if repository is None:
            self._status(
                401,
                {
                    "X-Error-Code": "RepoNotFound",
                    "X-Error-Message": "Repository not found",
                },
            )
        elif not repository.has(url["revision"]):
            self._status(
                404,
                {
                    "X-Error-Code": "RevisionNotFound",
                    "X-Error-Message": "Invalid rev id",
                },
            )
        else:
            return repository
        return None

    def _hub_file(self, url: re.Match[str], fault: Kind | None) -> None:
        repository = self._repository(url.groupdict())
        if repository is None:
            return
        headers = {"X-Repo-Commit": repository.commit}
        file = repository.files().get(url["file"])
        if file is None:
            self._status(
                404,
                {
                    **headers,
                    "X-Error-Code": "EntryNotFound",
                    "X-Error-Message": "Entry not found",
                },
            )
        else:
            self._file(file, headers, fault)

    def _tree(self, url: re.Match[str]) -> None:
        repository = self._repository(url.groupdict())
        if repository is None:
            return
        below = f"{url['below']}/" if url["below"] else ""
        recursive = "recursive=true" in urlsplit(self.path).query.lower()
        files = {
            name: path
            for name, path in repository.files().items()
            if name.startswith(below)
        }
        if below and not files:
            self._status(
                404,
                {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"},
            )
            return
        entries = [
            {"type": "file", "path": name, "oid": _sha1(path), **_blob(path)}
            for name, path in files.items()
            if recursive or "/" not in name.removeprefix(below)
        ]
        self._json(entries)

    def _model(self, url: re.Match[str]) -> None:
        repository = self._repository(url.groupdict())
        if repository is not None:
            siblings = [
                {"rfilename": name, **_blob(path)}
                for name, path in repository.files().items()
            ]
            info = {
                "_id": url["id"],
                "id": url["id"],
                "modelId": url["id"],
                "sha": repository.commit,
            }
            self._json(
                {
                    **info,
                    "private": False,
                    "tags": [],
                    "downloads": 0,
                    "likes": 0,
                    "siblings": siblings,
                }
            )

    def _json(self, value: Any) -> None:
        self._content(json.dumps(value).encode(), "application/json")

    def _content(self, content: bytes, content_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def _status(self, code: int, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _file(self, path: Path, headers: Mapping[str, str], fault: Kind | None) -> None:
        content = path.read_bytes()
        size, start = len(content), 0
        ranges = "" if fault == "whole" else self.headers.get("Range", "")
        url = re.fullmatch(r"bytes=(\d+)-(\d*)", ranges)
        if url and int(url[1]) >= size:
            self._status(416, {"Content-Range": f"bytes */{size}"})
            return
        start = int(url[1]) if url else 0
        stop = min(int(url[2]) + 1, size) if url and url[2] else size
        self.send_response(206 if url else 200)
        if url:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(stop - start))
        self.end_headers()
        if self.command == "HEAD":
            return
        content = content[start:stop]
        with self.world.lock:
            self.world.sent_bytes[unquote(urlsplit(self.path).path)] += len(content)
        if fault == "wrong":
            content = bytes(byte ^ 1 for byte in content)
        if fault == "cut":
            self.wfile.write(content[: len(content) // 2])
            self._hang_up()
        elif fault == "slow":
            for place in range(0, len(content), TRICKLE_BYTES):
                time.sleep(min(1.0, TRICKLE_BYTES / len(content)))
                self.wfile.write(content[place : place + TRICKLE_BYTES])
        else:
            self.wfile.write(content)

    def _hang_up(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def _blob(path: Path) -> dict[str, Any]:
    """Size of a file, and of those that the hub keeps outside of git their checksum too."""
    size = path.stat().st_size
    if path.suffix not in LARGE:
        return {"size": size}
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    return {
        "size": size,
        "lfs": {"oid": checksum, "sha256": checksum, "size": size, "pointerSize": 134},
    }


def _sha1(path: Path) -> str:
    """Id of a git blob."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
