"""Copies of raw files that are spoilt in some place, and what a reader must make of them."""

import json
import os

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from waltz.core.errors import UserError
from waltz.core.records import write_records
from waltz.scenes.sampling import draw_scenes
from waltz.scenes.writers.files import build_files
from waltz.sources.readers import read_source
from workflow_runs.checkout import ROOT

EXAMPLES = int(os.environ.get("WALTZ_FUZZ", "60"))
STUDY = yaml.safe_load((ROOT / "config/scenes.yaml").read_text(encoding="utf-8"))[
    "sources"
]
OTHERS = [
    None,
    True,
    -1,
    0,
    2**70,
    1e400,
    "",
    "\x00",
    "\u202e",
    "a" * 3000,
    [],
    {},
    [[]],
    {"a": 1},
    "0",
    "../x.jpg",
]
"""What a value may be instead."""


def small_world():
    """Text of each annotation file of a small world."""
    return build_files(draw_scenes(6, 3), 3)


def places(value, path=()):
    """Paths of all values in a document."""
    yield path
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, child in inside:
        yield from places(child, (*path, key))


def replaced(document, path, new):
    """A document with another value at one place; `...` takes it out."""
    if not path:
        return None if new is ... else new
    key, *rest = path
    copy = dict(document) if isinstance(document, dict) else list(document)
    if not rest and new is ...:
        del copy[key]
    else:
        copy[key] = replaced(copy[key], rest, new)
    return copy


@st.composite
def spoilt(draw, text):
    """The bytes of a file that is cut off, has other bytes in a place, or another value."""
    content = text.encode()
    way = draw(st.sampled_from(["cut", "bytes", "value"]))
    place = draw(st.integers(0, len(content) - 1))
    if way == "cut":
        return content[:place]
    if way == "value" and text.startswith(("{", "[")):
        document = json.loads(text)
        known = list(places(document))
        new = draw(st.sampled_from([*OTHERS, ...]))
        return json.dumps(
            replaced(document, draw(st.sampled_from(known)), new)
        ).encode()
    other = draw(st.binary(min_size=1, max_size=8))
    return content[:place] + other + content[place + draw(st.integers(0, 8)) :]


def trial(source, drawn, folder):
    """A property test of one source's reader on spoilt copies of its files."""
    named = {name: entry["drawn"] for name, entry in STUDY[source]["files"].items()}
    given_files = {name: str(folder / path) for name, path in named.items()}
    for path in set(named.values()):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(drawn[path], encoding="utf-8")

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=EXAMPLES < 1000,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def tried(data):
        path = data.draw(st.sampled_from(sorted(set(named.values()))))
        (folder / path).write_bytes(data.draw(spoilt(drawn[path])))
        message = ""
        try:
            rows, record_type = read_source(
                STUDY[source]["format"], given_files, source
            )
            write_records(folder / "rows.parquet", rows, record_type)
        except UserError as error:
            message = str(error)
        (folder / path).write_text(drawn[path], encoding="utf-8")
        assert (folder / "rows.parquet").exists() == (message == "")
        assert str(folder) in message or not message
        (folder / "rows.parquet").unlink(missing_ok=True)

    return tried
