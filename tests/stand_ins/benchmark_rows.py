"""Rows of the benchmark layout, and what a study says of them, made for the tests of the export."""

import json
from pathlib import Path

from PIL import Image

from waltz.core.files import parquet
from waltz.core.schema import BENCHMARK, CONDITIONS
from waltz.core.text_diff import find_changed_spans
from waltz.export.facts import BenchmarkFacts, SourceFacts, Terms
from waltz.export.parts import DatasetPart
from waltz.instruments import INSTRUMENTS

NAUGHTY = "naïve 🐘 <script>alert('x')</script> | \"quoted\" \\ `code` \x00\x1b\r\n\t\u2028 עברית ---"
"""A text with everything that a format may trip over."""

TEXTS = {
    "existence": (
        "There are dogs.",
        "There are no dogs.",
        [],
        ["no"],
        "something-to-zero",
        "12",
    ),
    "plurality": (
        "A single dog runs.",
        "Some dogs run.",
        ["dog"],
        ["dogs"],
        "sg2pl",
        "7",
    ),
    "counting-balanced": (
        "There are exactly 4 dogs.",
        "There is exactly 1 dog.",
        ["4"],
        ["1"],
        "fewer",
        "13",
    ),
    "counting-small": (
        "There is exactly 1 dog.",
        "There are exactly 2 dogs.",
        ["1"],
        ["2"],
        "more",
        "14",
    ),
    "counting-adversarial": (
        "There are exactly 9 dogs.",
        "There are exactly 0 dogs.",
        ["9"],
        ["0"],
        "fewer",
        "15",
    ),
    "relations": (
        "A dog on a mat.",
        "A dog under a mat.",
        ["on"],
        ["under"],
        "on>under",
        "8",
    ),
    "action-replacement": (
        "A man exercises a dog.",
        "A man lifts a dog.",
        ["exercise"],
        ["lift"],
        "unrelated",
        "w_1.jpg#0",
    ),
    "actant-swap": (
        "A man walks a dog.",
        "A dog walks a man.",
        ["man", "dog"],
        ["dog", "man"],
        "swap",
        "w_1.jpg#0",
    ),
    "coreference-standard": (
        "a dog runs. is it big? yes.",
        "a dog runs. is it big? no.",
        ["yes"],
        ["no"],
        "yes2no",
        "5#1",
    ),
    "coreference-clean": (
        "a dog. is it big? no.",
        "a dog. is it big? yes.",
        ["no"],
        ["yes"],
        "no2yes",
        "6#1",
    ),
    "foil-it": ("a dog on a mat.", "a cat on a mat.", ["dog"], ["cat"], "noun", "99"),
}
"""Caption, foil, words exchanged, direction and source id of one item an instrument."""

SPLITS = {
    "plurality": "val2017",
    "relations": "val2017",
    "coreference-clean": "val2018",
}
ORIGINALS = {
    "existence": {"12": {"source_id": "12", "answer": "Two."}},
    "plurality": {"7": {"source_id": "7", "caption": "A dog runs."}},
    "coreference-standard": {"5#1": {"source_id": "5#1", "caption": "A dog runs. "}},
    "coreference-clean": {"6#1": {"source_id": "6#1", "caption": "a dog"}},
}


def item(instrument="existence", **changes):
    """One built item with three votes for its caption."""
    caption, foil, ours, theirs, direction, source_id = TEXTS[instrument]
    caption, foil = changes.get("caption", caption), changes.get("foil", foil)
    caption_span, foil_span = find_changed_spans(caption, foil)
    row = dict.fromkeys(BENCHMARK.schema.names)
    row |= {
        "item_id": f"{instrument}:1",
        "instrument": instrument,
        "piece": INSTRUMENTS[instrument].piece,
    }
    row |= {
        "source": "own",
        "source_id": source_id,
        "split": SPLITS.get(instrument, "test"),
        "image": "red.png",
    }
    row |= {
        "caption": caption,
        "foil": foil,
        "caption_span": caption_span,
        "foil_span": foil_span,
        "kept": True,
    }
    row |= {
        "caption_phrases": ours,
        "foil_phrases": theirs,
        "direction": direction,
        "voter": "people",
        "valid": True,
    }
    row |= {"votes_caption": 3, "votes_foil": 0, "votes_other": 0}
    return row | changes


def unvoted(**changes):
    """A built item on which nobody voted."""
    votes = dict.fromkeys(
        ("voter", "votes_caption", "votes_foil", "votes_other", "valid")
    )
    return item(**{"item_id": "unvoted", **votes, **changes})


def probe(**changes):
    """One item of CV-Probes."""
    row = {
        "item_id": "p",
        "form": "original",
        "condition": "+img-cap",
        "verb": "running",
        "image": "red.png",
    }
    row |= {
        "image_kind": "contextual",
        "caption": "A dog.",
        "caption_kind": "plain",
        "verb_span": None,
    }
    return row | {"match": True, "group": "red.png"} | changes


def draw_images(folder: Path) -> Path:
    """Three images: a PNG, a JPEG in a folder below, and one that is broken."""
    (folder / "below").mkdir(parents=True)
    Image.new("RGB", (6, 4), "red").save(folder / "red.png")
    Image.new("L", (5, 5), 90).save(folder / "below" / "grey.jpg")
    (folder / "broken.png").write_bytes(b"\x89PNG no more")
    return folder


def part(rows, name="existence", form="instrument", images=None, no_images_reason=None):
    """A part of a data set that holds some rows."""
    layout = CONDITIONS if form == "cv-probes" else BENCHMARK
    return DatasetPart(
        name,
        "own",
        form,
        layout,
        parquet.build_table(rows, layout),
        images,
        no_images_reason,
    )


def facts(**changes):
    """What a small study says."""
    own = SourceFacts(
        "own", "visual7w", False, Terms("MIT", None, "A paper | <b>1999</b>", None), ()
    )
    given = {"study": "small", "seed": 1, "valid_votes": 2, "sources": {"own": own}}
    given |= {
        "instruments": {
            name: {"source": "own", "filters": ["contradiction"]} for name in TEXTS
        }
    }
    return BenchmarkFacts(
        **{**given, "models": {}, "funnel": [], "audit": [], "about": {}, **changes}
    )


def released_item(**changes):
    """A record in the fields of the release's relations."""
    record = {
        "dataset": "coco_2017",
        "original_split": "val",
        "dataset_idx": 8,
        "image_file": "red.png",
    }
    record |= {
        "linguistic_phenomena": "relations",
        "foil_method": "a method",
        "caption": "A dog on a mat.",
    }
    record |= {
        "classes": "on",
        "classes_foil": "under",
        "grammaticality_scores": [0.1 + 0.2],
    }
    record |= {
        "nli_scores": {
            "entail": [0.25],
            "contradict": [0.5],
            "neutral": [0.25],
            "pred": ["contradict"],
        }
    }
    return (
        record
        | {
            "key": "1",
            "mturk": {"foil": 0, "caption": 2, "other": 1},
            "foil": "A dog under a mat.",
        }
        | changes
    )


def write_release(path: Path, records) -> Path:
    """Some records as a file of the release."""
    path.write_text(json.dumps(records, indent=4), encoding="utf-8")
    return path
