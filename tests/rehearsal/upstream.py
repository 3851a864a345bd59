"""Every raw file of a study in small, in upstream's format, its pictures and statements those of
drawn scenes.
"""

import csv
import functools
import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

from waltz.scenes.drawing import render_scene
from waltz.scenes.graph import SIZE, Graph
from waltz.scenes.language.foils import draw_foils
from waltz.scenes.sampling import draw_scenes, remove_action
from waltz.scenes.writers import annotations, files, tasks

COUNT, SEED = 40, 77
"""Scenes, and their seed."""
ITEMS = 12
"""Items of a released file."""
DATED = (2026, 1, 1, 0, 0, 0)
"""When everything in an archive was written, so that its bytes are the same each time."""

Files = dict[str, bytes]
"""Content by name."""

RELEASED = {
    "existence": ("existence", "visual7w"),
    "plurality": ("object", "coco2017"),
    "counting-balanced": ("count", "visual7w"),
    "counting-small": ("count", "visual7w"),
    "counting-adversarial": ("count", "visual7w"),
    "relations": ("relation", "coco_2017"),
    "action-replacement": ("action", "SWiG"),
    "actant-swap": ("action", "SWiG"),
    "coreference-standard": ("object", "VisDial_v1.0"),
    "coreference-clean": ("object", "VisDial_v1.0"),
    "foil-it": ("object", "FOIL dataset"),
}
"""Which scenes' foils stand for an instrument's, and what the release calls the origin of its
images.
"""
BELOW = {
    ("coco-captions", "val2017"): "coco/annotations/captions_val2017.json",
    ("visual7w", "telling"): "visual7w/dataset_v7w_telling.json",
    ("visdial", "train"): "visdial/visdial_1.0_train.json",
    ("visdial", "val"): "visdial/visdial_1.0_val.json",
    ("foil-it", "test"): "foilit/foilv1.0_test_2017.json",
    ("vqa", "questions"): "vqa/v2_OpenEnded_mscoco_val2014_questions.json",
    ("vqa", "annotations"): "vqa/v2_mscoco_val2014_annotations.json",
    ("e-snli", "test"): "esnli/esnli_test.csv",
    ("comve", "sentences"): "comve/subtaskA_test_data.csv",
    ("comve", "answers"): "comve/subtaskA_gold_answers.csv",
    **{
        (form, split): f"{form}/{split}.json"
        for form in ("swig", "imsitu")
        for split in ("train", "dev", "test")
    },
    **{(form, "space"): "swig/imsitu_space.json" for form in ("swig", "imsitu")},
}
"""Where the scenes' files lie that stand for a format's."""


ARCHIVES: dict[str, Callable[[int], str]] = {
    "val2017.zip": lambda number: f"val2017/{annotations.name_coco_2017(number)}",
    "val2014.zip": lambda number: (
        f"val2014/{annotations.name_coco_2014(number, 'val2014')}"
    ),
    "train2014.zip": lambda number: (
        f"train2014/{annotations.name_coco_2014(number, 'train2014')}"
    ),
    "VisualDialog_val2018.zip": lambda number: (
        f"VisualDialog_val2018/{tasks.name_visdial(number, 'val2018')}"
    ),
    "visual7w_images.zip": lambda number: f"images/{tasks.name_visual7w(number)}",
    "gqa/images.zip": lambda number: f"images/{tasks.name_gqa(number)}",
    "images_512.zip": str,
    "of500_images": str,
}
"""Path of a scene's image in each archive of images, by a part of its url; those of verbs are named
after them.
"""


@functools.cache
def world() -> tuple[Graph, ...]:
    """The scenes of every file; scene i has the number i + 1."""
    return tuple(draw_scenes(COUNT, SEED))


@functools.cache
def written() -> Mapping[str, str]:
    """The scenes' annotation files by their paths."""
    return files.build_files(world(), SEED)


def annotation(form: str, name: str, url: str) -> bytes:
    """Content of one annotation file.

    Args:
        form: Format of the source.
        name: Name of the file in the study.
        url: Where it comes from, which tells files apart that a format has several of.
    Raises:
        KeyError: Nothing stands for it.
    """
    if form == "valse-release":
        return _json(released(name))
    if name.startswith("coco-") or form == "coco-captions":
        edition = name.removeprefix("coco-")
        return _json(annotations.build_captions(world(), SEED, edition))
    if form == "gqa":
        return written()[f"gqa/{urldefrag(url).fragment}"].encode()
    if form == "e-snli-lines":
        return _lines(name)
    if form == "bbh":
        return _json(
            {
                "canary": "none",
                "data": [tasked(name, number) for number in range(ITEMS)],
            }
        )
    return written()[BELOW[form, name]].encode()


def pictures(address: str) -> Files:
    """Images of an archive by their paths in it.

    Raises:
        KeyError: Nothing stands for it.
    """
    archive = next(name for name in ARCHIVES if name in address)
    image_files: Files = {}
    for number, graph in enumerate(world(), 1):
        if archive not in ("images_512.zip", "of500_images"):
            image_files[ARCHIVES[archive](number)] = _drawn(number)
        elif graph.action is not None:
            verb = graph.action.verb
            image_files[
                f"{archive.partition('.')[0]}/{annotations.name_swig(verb, number)}"
            ] = _drawn(number)
            image_files[
                f"{archive.partition('.')[0]}/{annotations.name_still(verb, number)}"
            ] = _small(remove_action(graph))
    return image_files


def released(instrument: str) -> dict[str, Any]:
    """A released file: id → item, two of three with the votes that make an item valid."""
    piece, dataset = RELEASED[instrument]
    record: dict[str, Any] = {}
    for number, graph in enumerate(world(), 1):
        rng = Random(f"{instrument}:{graph.id}")
        for foil in draw_foils(graph, rng):
            if foil.piece == piece and len(record) < ITEMS:
                # The published draw of one of twelve takes the seventh.
                votes = 1 if len(record) % 3 == 1 else 3
                record[f"{instrument}_{number}"] = {
                    "dataset": dataset,
                    "dataset_idx": str(number),
                    "original_split": "test",
                    "linguistic_phenomena": instrument,
                    "image_file": _image(instrument, dataset, number, graph),
                    "caption": foil.caption,
                    "classes": "one",
                    "classes_foil": "other",
                    "mturk": {"foil": 0, "caption": votes, "other": 3 - votes},
                    "foil": foil.foil,
                }
    return record


def plain_captions() -> str:
    """CSV of plain captions of images with an action, as people write them for CV-Probes."""
    held = io.StringIO()
    table = csv.writer(held, lineterminator="\n")
    table.writerow(("image", "annotator", "caption", "plain_image"))
    for image, entry in annotations.build_descriptions(world(), SEED).items():
        table.writerows(
            (image, "somebody", caption, entry["still"]) for caption in entry["plain"]
        )
    return held.getvalue()


def tasked(task: str, number: int) -> dict[str, Any]:
    """An item of BIG-Bench Hard in the layout of the published runs."""
    rng = Random(f"{task}:{number}")
    things = rng.sample(
        ["apple", "ball", "cat", "dog", "horse", "kite", "table", "umbrella"], 5
    )
    if task.startswith("disambiguation"):
        text = f"Sentence: The {things[0]} saw the {things[1]} because it was red."
        choices = [f"The {things[0]} was red", f"The {things[1]} was red", "Ambiguous"]
    elif task.startswith("causal"):
        text = f"The {things[0]} fell because a man pushed the {things[1]}. Did the man cause it?"
        choices = ["Yes", "No"]
    else:
        text = f"The {', the '.join(things)} stand in a row, in this order."
        choices = [f"The {thing} is the last" for thing in things]
    right = rng.randrange(len(choices))
    lettered = "\n".join(
        f"({chr(65 + place)}) {choice}" for place, choice in enumerate(choices)
    )
    return {
        "idx": number,
        "inputs": text,
        "targets": [choices[right]],
        "multiple_choice_targets": choices,
        "multiple_choice_scores": [
            int(place == right) for place in range(len(choices))
        ],
        "split": "validation",
        "parsed_inputs": f"{text}\n\nAnswer choices:\n{lettered}",
    }


def raw_files(study: Mapping[str, Any]) -> dict[str, bytes]:
    """Content behind every url of a study's sources, by the url without its scheme.

    Raises:
        KeyError: Nothing stands for one of them.
    """
    contents: dict[str, bytes] = {}
    held: dict[str, Files] = {}
    for form, name, file in _entries(study):
        address = bare(file["url"])
        if name == "images":
            held[address] = pictures(address)
        elif inner := urldefrag(file["url"]).fragment:
            held.setdefault(address, {})[inner] = annotation(form, name, file["url"])
        else:
            contents[address] = annotation(form, name, file["url"])
    return contents | {
        address: packed(address, files) for address, files in held.items()
    }


def packed(name: str, files: Files) -> bytes:
    """An archive of files, of the kind that its name says; the same bytes each time."""
    buffer = io.BytesIO()
    if _ending(name) == "zip":
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
            for path, content in sorted(files.items()):
                archive.writestr(zipfile.ZipInfo(path, DATED), content)
    else:
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for path, content in sorted(files.items()):
                entry = tarfile.TarInfo(path)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    content = buffer.getvalue()
    return gzip.compress(content, mtime=0) if name.endswith("gz") else content


def bare(url: str) -> str:
    """Return a url without its scheme and with its path unquoted, as a mirror receives it."""
    split = urlsplit(url)
    return f"{split.netloc}{unquote(split.path)}" + (
        f"?{split.query}" if split.query else ""
    )


def write(files: Mapping[str, bytes], folder: Path) -> dict[str, Path]:
    """Put contents into files; their paths by the same names."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {}
    for place, (name, content) in enumerate(sorted(files.items())):
        contents[name] = folder / f"{place:03d}"
        contents[name].write_bytes(content)
    return contents


def _entries(study: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for entry in study["sources"].values():
        shown = entry.get("images", [])
        named = [
            *entry["files"].items(),
            *(
                ("images", file)
                for file in (shown if isinstance(shown, list) else [shown])
            ),
        ]
        for name, file in named:
            if "url" in file:
                yield entry["format"], name, file


@functools.cache
def _drawn(number: int) -> bytes:
    return _small(world()[number - 1])


def _small(graph: Graph) -> bytes:
    """A scene's picture at half its size, which processors scale four times as fast."""
    file = io.BytesIO()
    render_scene(graph).resize((SIZE // 2, SIZE // 2)).save(file, format="PNG")
    return file.getvalue()


def _image(instrument: str, dataset: str, number: int, graph: Graph) -> str:
    if dataset == "SWiG":
        assert graph.action is not None
        return annotations.name_swig(graph.action.verb, number)
    names = {
        "visual7w": tasks.name_visual7w(number),
        "coco2017": annotations.name_coco_2017(number),
        "coco_2017": annotations.name_coco_2017(number),
        "VisDial_v1.0": tasks.name_visdial(
            number, "train" if instrument == "coreference-standard" else "val2018"
        ),
        "FOIL dataset": annotations.name_coco_2014(number, "val2014"),
    }
    return names[dataset]


def _lines(name: str) -> bytes:
    """A column of the scenes' e-SNLI, an item a line."""
    column = {
        "premises": "Sentence1",
        "hypotheses": "Sentence2",
        "labels": "gold_label",
    }[name]
    records: Sequence[Mapping[str, str]] = list(
        csv.DictReader(io.StringIO(written()["esnli/esnli_test.csv"]))
    )
    return "".join(f"{record[column]}\n" for record in records).encode()


def _ending(name: str) -> str:
    """`zip` or `tar` where a name is an archive's; a query such as `?dl=1` does not count."""
    name = name.partition("?")[0]
    return (
        "zip"
        if name.endswith(".zip")
        else "tar"
        if name.endswith((".tar", ".tar.gz", ".tgz"))
        else ""
    )


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False) + "\n").encode()
