"""Models of the hub at the commit of a lock file, from a pretended hub on the loopback."""

import http.server
import json
import threading
from pathlib import Path

import pytest

from waltz.core.errors import UserError
from waltz.core.files.downloads import read_recorded, record_download

FILES = {"config.json": b"{}", "model.safetensors": b"safe", "pytorch_model.bin": b"pickled", "tf_model.h5": b"other"}
COMMIT, NEWER = "a" * 40, "b" * 40


class Hub(http.server.BaseHTTPRequestHandler):
    newest = COMMIT

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = self.path.partition("?")[0]
        files = [{"rfilename": name} for name in FILES]
        if path.startswith("/api/models/org/model/tree/"):
            tree = [{"type": "file", "path": name, "size": len(FILES[name]), "oid": "0" * 40} for name in FILES]
            self._send(json.dumps(tree).encode(), path.rsplit("/", 1)[1])
        elif path.startswith("/api/models/org/model"):
            asked = path.partition("/revision/")[2] or type(self).newest
            self._send(json.dumps({"id": "org/model", "sha": asked, "siblings": files}).encode(), asked)
        elif path.startswith("/org/model/resolve/"):
            commit, name = path.removeprefix("/org/model/resolve/").split("/", 1)
            self._send(FILES[name], commit)
        else:
            self.send_error(404)

    def _send(self, body, commit):
        self.send_response(200)
        for key, value in {"Content-Length": len(body), "ETag": f'"{hash(body)}"', "X-Repo-Commit": commit}.items():
            self.send_header(key, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@pytest.fixture
def snapshot(monkeypatch, tmp_path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True, kwargs={"poll_interval": 0.01}).start()
    import huggingface_hub
    from huggingface_hub import constants

    from waltz.models import snapshots

    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(
        huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(Hub, "newest", COMMIT)
    yield lambda folder: snapshots.fetch_snapshot("org/model", tmp_path / folder, tmp_path / "lock.yaml")
    server.shutdown()
    server.server_close()


def test_the_first_commit_is_locked_and_a_newer_one_is_not_taken(snapshot, tmp_path, monkeypatch):
    assert snapshot("one") == COMMIT
    assert {file.name for file in (tmp_path / "one").iterdir()} == {"config.json", "model.safetensors"}
    monkeypatch.setattr(Hub, "newest", NEWER)
    assert snapshot("two") == COMMIT
    assert read_recorded(tmp_path / "lock.yaml", "org/model", "commit") == COMMIT


def test_what_cannot_be_had_is_one_line(snapshot, tmp_path, monkeypatch):
    record_download(tmp_path / "lock.yaml", "org/model", {"commit": COMMIT})
    monkeypatch.setattr(Hub, "do_GET", lambda self: self.send_error(404))
    with pytest.raises(
        UserError, match=f"^org/model: cannot be had from the hub at commit {COMMIT}, .*check the network"
    ) as told:
        snapshot("one")
    assert "\n" not in str(told.value)
    assert not Path(tmp_path / "one").exists()
