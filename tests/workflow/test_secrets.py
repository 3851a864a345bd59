"""A study with secrets: no file that a run writes, and nothing that it prints, holds one of them in
any encoding.
"""

import base64
import io
import json
import sqlite3
import subprocess
import sys
import threading
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, urlsplit

import pytest
import yaml
from PIL import Image

from stand_ins.models import tiny_decoders
from stand_ins.openai_server import MODEL, serve
from waltz.core.redaction import list_encoded_forms
from workflow_runs.checkout import DATA, checkout
from workflow_runs.studies import ANSWERS, SENTENCES

pytestmark = pytest.mark.workflow

API_KEY, HUB_TOKEN = "sk-key/of+the=server", "hf_TokenOfTheEnvironment"
QUERY_TOKEN, PASSWORD = "signature/of+a=file", "password-of-netrc"
SECRETS = (API_KEY, HUB_TOKEN, QUERY_TOKEN, PASSWORD)


def build_zip(files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


def build_images():
    files = {}
    for number in range(4):
        file = io.BytesIO()
        Image.new("RGB", (8, 8), (60 * number, 0, 0)).save(file, "PNG")
        files[f"{number}.png"] = file.getvalue()
    return files


class QuietHandler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, reason, content):
        self.send_response(status, reason)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def run_server(handler):
    """Serve on a free port and return the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def serve_files(files):
    """Serve files to those that know the token, or the password, and repeat what others send."""
    header = f"Basic {base64.b64encode(f'me:{PASSWORD}'.encode()).decode()}"

    class Handler(QuietHandler):
        def do_GET(self):
            parts = urlsplit(self.path)
            name = parts.path.removeprefix("/")
            knows = (
                parts.query == f"token={quote(QUERY_TOKEN, safe='')}"
                or self.headers.get("Authorization") == header
            )
            found = name in files and knows
            content = files[name] if found else self.path.encode()
            reason = "OK" if found else f"nothing at {self.path} {QUERY_TOKEN}"
            self.answer(200 if found else 404, reason, content)

    return run_server(Handler)


def serve_repetition():
    """Answer every request with an error that repeats its headers, once alone and once in base64."""

    class Handler(QuietHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = str(self.headers)
            text = {
                "error": headers,
                "encoded": base64.b64encode(headers.encode()).decode(),
                "key": API_KEY,
            }
            content = json.dumps(text).encode()
            self.answer(400, f"bad key {API_KEY}", content)

        do_GET = do_POST

    return run_server(Handler)


def build_study(folder, files, chat, repeating):
    token = f"?token={quote(QUERY_TOKEN, safe='')}"
    served = {
        "kind": "text",
        "weights": MODEL,
        "revision": "1",
        "tokenizer": str(folder / "reader"),
    }
    return {
        "study": "tiny",
        "seed": 7,
        "profiles": ["equations"],
        "sources": {
            "comve": {
                "format": "comve",
                "files": {
                    "sentences": {
                        "url": f"{files}/tasks.zip{token}#sentences.csv",
                        "sha256": "lock",
                    },
                    "answers": {
                        "url": f"{files}/tasks.zip{token}#answers.csv",
                        "sha256": "lock",
                    },
                },
            },
            "own": {
                "format": "pairs",
                "files": {
                    "own-counting": {"url": f"{files}/own.csv{token}", "sha256": "lock"}
                },
                "images": {
                    "url": f"{files}/images.zip",
                    "sha256": "lock",
                },  # with the password
                "licence": "CC BY 4.0",
            },
        },
        "benchmark": {"valid_votes": 2},
        "models": {
            "talker": {**served, "server": chat},
            "repeater": {**served, "server": repeating},
        },
        "texts": {"nonsense": {"source": "comve", "size": 3}},
        "groups": {"texts": ["nonsense"]},
        "evaluation": {
            "models": ["talker", "repeater"],
            "groups": ["texts"],
            "sample": 2,
            "cot_tokens": 3,
        },
        "reporting": {"tables": [], "resamples": 100, "confidence": 0.9, "browsed": 2},
    }


def find_secrets(content, name):
    """Return where a content holds a secret: as it is, or in a zip or database."""
    found = [
        f"{name}: {form}"
        for secret in SECRETS
        for form in list_encoded_forms(secret)
        if form.encode() in content
    ]
    if content[:4] == b"PK\3\4":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.namelist():
                found += find_secrets(archive.read(member), f"{name}/{member}")
    return found


def find_secrets_of_files(folder, ignored):
    found = []
    for path in folder.rglob("*"):
        found += find_secrets(str(path.relative_to(folder)).encode(), "file name")
        if path.is_file() and path.name not in ignored:
            found += find_secrets(path.read_bytes(), str(path.relative_to(folder)))
            if path.suffix in (".sqlite", ".db"):
                with sqlite3.connect(path) as database:
                    found += find_secrets(
                        "\n".join(database.iterdump()).encode(), f"dump of {path.name}"
                    )
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The checkout after runs with secrets, and all that they printed."""
    folder = tmp_path_factory.mktemp("secrets")
    reader = tiny_decoders.causal()
    reader.network.model.save_pretrained(folder / "reader")
    reader.tokenizer.save_pretrained(folder / "reader")
    run = checkout(folder / "waltz", folder / "reader")
    netrc = folder / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login me password {PASSWORD}\n")
    netrc.chmod(0o600)
    environment = {
        "WALTZ_API_KEY": API_KEY,
        "HF_TOKEN": HUB_TOKEN,
        "NETRC": str(netrc),
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
    }
    (folder / "tmp").mkdir()
    (folder / "home").mkdir()
    files = {
        "tasks.zip": build_zip({"sentences.csv": SENTENCES, "answers.csv": ANSWERS}),
        "own.csv": (DATA / "own.csv").read_bytes(),
        "images.zip": build_zip(build_images()),
    }
    options = ("--keep-going", "--printshellcmds", "--verbose", "--show-failed-logs")
    printed = []
    with (
        serve(reader, key=API_KEY) as chat,
        serve_files(files) as address,
        serve_repetition() as repeating,
    ):
        chat.replies["/version"] = {"version": API_KEY}
        study = build_study(folder, address, chat.url, f"{repeating}/v1")
        (run.folder / "tiny.yaml").write_text(yaml.safe_dump(study))
        program = "from waltz.cli.app import app; app()"
        preflight = [
            sys.executable,
            "-c",
            program,
            "preflight",
            "tiny.yaml",
            "--json",
            "preflight.json",
        ]
        printed.append(
            subprocess.run(
                preflight,
                cwd=run.folder,
                env={
                    **run.environment(**environment),
                    "PYTHONPATH": str(run.folder / "workflow"),
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ).stdout
        )
        printed.append(
            run.snakemake(*options, "evaluation", check=False, **environment)
        )
        assert "repeater" in printed[-1]
        del study["models"]["repeater"]
        study["evaluation"]["models"] = ["talker"]
        (run.folder / "tiny.yaml").write_text(yaml.safe_dump(study))
        printed.append(run.snakemake(*options, "all", "export", **environment))
        missing = {
            "url": f"{address}/missing.csv?token={quote(QUERY_TOKEN, safe='')}",
            "sha256": "lock",
        }
        study["sources"]["own"]["files"]["missing"] = missing
        (run.folder / "tiny.yaml").write_text(yaml.safe_dump(study))
        target = "results/tiny/sources/raw/own/missing/missing.csv"
        printed.append(run.snakemake(*options, target, check=False, **environment))
    return run, printed


def test_no_file_and_no_line_holds_a_secret(run):
    checkout, printed = run
    assert find_secrets("\n".join(printed).encode(), "output") == []
    assert (
        find_secrets_of_files(checkout.folder.parent, ignored=("tiny.yaml", "netrc"))
        == []
    )


def test_the_secrets_were_used(run):
    checkout, printed = run
    results = checkout.folder / "results/tiny"
    assert (results / "export/dataset").is_dir()
    assert "<WALTZ_API_KEY>" in printed[1]
    assert "HTTP 404 nothing at" in printed[-1]
    lock = yaml.safe_load((checkout.folder / "config/locks/tiny.yaml").read_text())
    assert sorted(url.partition("?")[0].rpartition("/")[2] for url in lock) == [
        "images.zip",
        "own.csv",
        "tasks.zip",
    ]
    assert any((checkout.folder / ".snakemake/metadata").iterdir())
    assert {
        line.partition(":")[0]
        for line in find_secrets_of_files(checkout.folder.parent, ())
    } == {
        "netrc",
        "waltz/tiny.yaml",
    }
