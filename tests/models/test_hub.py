"""Models from a stand-in of the hub: in a folder at the locked commit, and in the hub's cache at a
given one.
"""

import errno
import http.server
import json
import multiprocessing
import threading
import time
from pathlib import Path

import pytest
from huggingface_hub import constants

from waltz.core.downloads.lock_file import read_recorded, record_download
from waltz.core.errors import UserError
from waltz.model_registry import ModelSpec
from waltz.models.hub import fetch_snapshot, fetch_to_cache
from waltz.models.pretrained import load_tokenizer, report_faults
from waltz.models.resolve_name import resolve_decoder

FILES = {
    "config.json": b"{}",
    "model.safetensors": b"safe",
    "pytorch_model.bin": b"pickled",
    "tf_model.h5": b"other",
}
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
            tree = [
                {
                    "type": "file",
                    "path": name,
                    "size": len(FILES[name]),
                    "oid": "0" * 40,
                }
                for name in FILES
            ]
            self._send(json.dumps(tree).encode(), path.rsplit("/", 1)[1])
        elif path.startswith("/api/models/org/model"):
            revision = path.partition("/revision/")[2] or type(self).newest
            self._send(
                json.dumps(
                    {"id": "org/model", "sha": revision, "siblings": files}
                ).encode(),
                revision,
            )
        elif path.startswith("/org/model/resolve/"):
            commit, name = path.removeprefix("/org/model/resolve/").split("/", 1)
            self._send(FILES[name], commit)
        else:
            self.send_error(404)

    def _send(self, body, commit):
        self.send_response(200)
        for key, value in {
            "Content-Length": len(body),
            "ETag": f'"{hash(body)}"',
            "X-Repo-Commit": commit,
        }.items():
            self.send_header(key, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(
        target=server.serve_forever, daemon=True, kwargs={"poll_interval": 0.01}
    ).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(
        constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        address + "/{repo_id}/resolve/{revision}/{filename}",
    )
    monkeypatch.setattr(Hub, "newest", COMMIT)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    yield
    server.shutdown()
    server.server_close()


@pytest.fixture
def snapshot(hub, tmp_path):
    return lambda folder: fetch_snapshot(
        "org/model", tmp_path / folder, tmp_path / "lock.yaml"
    )


def test_the_first_commit_is_locked_and_a_newer_one_is_not_taken(
    snapshot, tmp_path, monkeypatch
):
    assert snapshot("one") == COMMIT
    assert {file.name for file in (tmp_path / "one").iterdir()} == {
        "config.json",
        "model.safetensors",
    }
    monkeypatch.setattr(Hub, "newest", NEWER)
    assert snapshot("two") == COMMIT
    assert read_recorded(tmp_path / "lock.yaml", "org/model", "commit") == COMMIT


@pytest.mark.parametrize(
    "name", ["../decoy", "/decoy", "a/../../decoy", "a\0b", "a" * 256]
)
def test_a_hub_that_lists_a_file_outside_removes_nothing(
    hub, tmp_path, monkeypatch, name
):
    (tmp_path / "decoy").write_text("precious")
    listed = {
        "rfilename": name,
        "size": 1,
        "lfs": {"size": 1, "sha256": "0" * 64, "pointerSize": 1},
    }
    reply = json.dumps(
        {"id": "org/model", "sha": COMMIT, "siblings": [listed]}
    ).encode()
    monkeypatch.setattr(Hub, "do_GET", lambda self: self._send(reply, COMMIT))
    with pytest.raises(UserError, match="it lists a file outside its folder") as error:
        fetch_snapshot(
            "org/model", tmp_path / "one", tmp_path / "lock.yaml", wait=lambda _: None
        )
    assert "\n" not in str(error.value)
    assert (tmp_path / "decoy").read_text() == "precious"


def test_of_two_runs_that_share_a_folder_one_fetches(hub, tmp_path, monkeypatch):
    requests = []
    answer = Hub.do_GET

    def answer_slowly(self):
        requests.append(self.path)
        time.sleep(0.2)
        answer(self)

    monkeypatch.setattr(Hub, "do_GET", answer_slowly)
    context = multiprocessing.get_context("fork")
    locks = [tmp_path / "lock-1.yaml", tmp_path / "lock-2.yaml"]
    runs = [
        context.Process(
            target=fetch_snapshot, args=("org/model", tmp_path / "shared", lock)
        )
        for lock in locks
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert [run.exitcode for run in runs] == [0, 0]
    assert {file.name for file in (tmp_path / "shared").iterdir()} == {
        "config.json",
        "model.safetensors",
    }
    assert [read_recorded(lock, "org/model", "commit") for lock in locks] == [
        COMMIT,
        COMMIT,
    ]
    assert sum(path.startswith("/api/models/org/model?") for path in requests) == 1


def test_an_unavailable_model_is_refused_in_one_line(snapshot, tmp_path, monkeypatch):
    record_download(tmp_path / "lock.yaml", "org/model", {"commit": COMMIT})
    monkeypatch.setattr(Hub, "do_GET", lambda self: self.send_error(404))
    with pytest.raises(
        UserError,
        match=f"^org/model: cannot be had from the hub at commit {COMMIT}, .*check the network",
    ) as error:
        snapshot("one")
    assert "\n" not in str(error.value)
    assert not Path(tmp_path / "one").exists()


@pytest.fixture
def cache(hub, tmp_path):
    """Fetches a model into a cache of its own, and returns what the marker says."""

    def fetch() -> str:
        fetch_to_cache(
            "org/model", COMMIT, tmp_path / "weights/marker", wait=lambda _: None
        )
        return (tmp_path / "weights/marker").read_text()

    return fetch


CACHED = f"cache/models--org--model/snapshots/{COMMIT}"


def test_a_full_disk_is_no_fault_of_the_network(cache, monkeypatch):
    def fill(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "cache/blob")

    monkeypatch.setattr("waltz.models.hub._download_repeatedly", fill)
    with pytest.raises(
        UserError, match=r"^cache/blob: no space is left; make room and run again$"
    ):
        cache()
    with (
        pytest.raises(
            UserError, match=r"^cache/blob: no space is left; make room and run again$"
        ),
        report_faults(ModelSpec("mine", "vision", "org/model", revision=COMMIT)),
    ):
        fill()


def test_a_missing_package_is_named_and_not_a_class():
    with (
        pytest.raises(UserError, match=r"run: pip install timm$"),
        report_faults(ModelSpec("mine", "vision", "org/model", revision=COMMIT)),
    ):
        raise ModuleNotFoundError("Could not import module 'TimmWrapperConfig'. Are")


def test_a_model_at_a_commit_lies_in_the_cache_once(cache, tmp_path):
    assert cache() == f"org/model {COMMIT}\n"
    assert {file.name for file in (tmp_path / CACHED).iterdir()} == {
        "config.json",
        "model.safetensors",
    }


def test_a_filled_cache_suffices_without_a_network(cache, tmp_path, monkeypatch):
    cache()
    (tmp_path / "weights/marker").unlink()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert cache() == f"org/model {COMMIT}\n"
    (tmp_path / "weights/marker").unlink()
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model.safetensors"}}
    (tmp_path / CACHED / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UserError, match=f"hf download org/model --revision {COMMIT}"):
        cache()
    assert not (tmp_path / "weights/marker").exists()


def test_one_file_of_a_repository_comes_with_its_settings_alone(
    hub, tmp_path, monkeypatch
):
    marker = tmp_path / "marker"
    fetch_to_cache("org/model/pytorch_model.bin", COMMIT, marker)
    assert {file.name for file in (tmp_path / CACHED).iterdir()} == {
        "config.json",
        "pytorch_model.bin",
    }
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    fetch_to_cache("org/model/pytorch_model.bin", COMMIT, marker)
    with pytest.raises(
        UserError, match=f"org/model: cannot be had from the hub at commit {COMMIT}"
    ):
        fetch_to_cache("org/model/model.safetensors", COMMIT, marker)


def test_a_gated_model_names_the_page_to_accept_and_is_tried_once(cache, monkeypatch):
    requests = []

    def refuse(self):
        requests.append(self.path)
        self.send_response(403)
        self.send_header("X-Error-Code", "GatedRepo")
        self.send_header("Content-Length", "0")
        self.end_headers()

    monkeypatch.setattr(Hub, "do_GET", refuse)
    with pytest.raises(
        UserError,
        match=r"accept its license at http://127\.0\.0\.1:\d+/org/model and log in",
    ) as error:
        cache()
    assert "\n" not in str(error.value)
    assert sum(path.startswith("/api/models/") for path in requests) == 1


def test_a_hub_that_is_down_is_tried_again(cache, monkeypatch):
    answer, refused = Hub.do_GET, []

    def refuse_twice(self):
        if len(refused) < 2:
            refused.append(self.path)
            self.send_error(500)
        else:
            answer(self)

    monkeypatch.setattr(Hub, "do_GET", refuse_twice)
    assert cache() == f"org/model {COMMIT}\n"
    assert len(refused) == 2


def test_of_a_borrowed_tokenizer_no_weights_are_fetched(hub, tmp_path):
    fetch_to_cache("org/model", COMMIT, tmp_path / "marker", only_tokenizer=True)
    assert {file.name for file in (tmp_path / CACHED).iterdir()} == {"config.json"}


def test_a_tokenizer_that_may_not_be_needed_does_not_stop_a_run(
    hub, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    fetch_to_cache("org/model", COMMIT, tmp_path / "marker", only_tokenizer=True)
    assert (tmp_path / "marker").exists()
    assert "org/model: only what the hub's cache holds can be used" in caplog.text


def test_a_hub_that_is_not_reached_is_asked_once(monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(
        constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        "http://127.0.0.1:9/{repo_id}/{revision}/{filename}",
    )
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    start = time.monotonic()
    with pytest.raises(
        UserError,
        match=r"the hub cannot be reached.*name the model's tokenizer, .* --tokenizer",
    ):
        load_tokenizer(
            ModelSpec(
                "default", "text", "default", "unknown", server="http://127.0.0.1:9/v1"
            )
        )
    with pytest.raises(
        UserError,
        match=r"org/model: .*the hub cannot be reached, and its cache has not all files",
    ):
        resolve_decoder("org/model")
    assert time.monotonic() - start < 10  # five attempts for each file take 23 s
