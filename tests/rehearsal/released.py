"""Files that models are loaded from by url, in small: original checkpoints, archives, lists of
answers.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import urldefrag

from rehearsal.checkpoints import original
from rehearsal.upstream import bare, packed, written
from waltz.model_registry import ModelSpec

ANSWERS = {"vqa": 3129, "gqa": 1842}
"""How many answers LXMERT's heads choose from."""


def answers(count: int) -> list[str]:
    """A list of answers, those of the scenes' questions first."""
    annotations = json.loads(written()["vqa/v2_mscoco_val2014_annotations.json"])[
        "annotations"
    ]
    known = sorted({entry["multiple_choice_answer"] for entry in annotations})
    return [*known, *(f"answer {place}" for place in range(count - len(known)))][:count]


def _listed(count: int) -> bytes:
    return json.dumps(answers(count)).encode()


WRITERS: dict[str, Callable[[], bytes]] = {
    "data/vqa/trainval_label2ans.json": lambda: _listed(ANSWERS["vqa"]),
    "data/gqa/trainval_label2ans.json": lambda: _listed(ANSWERS["gqa"]),
    "ALBEF/data.tar.gz": lambda: packed(
        "data.tar.gz", {"data/answer_list.json": _listed(40)}
    ),
    "ALBEF/mscoco.pth": lambda: original.albef("mscoco", "retrieval"),
    "ALBEF/flickr30k.pth": lambda: original.albef("flickr30k", "retrieval"),
    "ALBEF/refcoco.pth": lambda: original.albef("refcoco", "retrieval", momentum=True),
    "ALBEF/vqa.pth": lambda: original.albef("vqa", "answering"),
    "pretrained_model.bin": lambda: original.vilbert(multitask=False),
    "multi_task_model.bin": lambda: original.vilbert(multitask=True),
    "detectron_model.pth": original.vilbert_detector,
    "detectron_config.yaml": original.vilbert_detector_settings,
    "faster_rcnn_from_caffe_attr.pkl": original.detector,
    "spanbert_large_with_head.tar.gz": original.spanbert_with_head,
    "spanbert_hf.tar.gz": original.spanbert_in_library_format,
    "drive.usercontent.google.com/download?id=1Hw5na_Iy4-kGEoX60bD8vXYeJDQrzyj6&export=download&confirm=t": (
        original.gruen_cola
    ),
}
"""What makes the file behind a url, by the end of it."""


def urls(specs: Iterable[ModelSpec]) -> set[str]:
    """Every url that models' entries name, without what is meant inside of an archive."""
    named = (
        getattr(spec, key, "")
        for spec in specs
        for key in ("weights", "answers", "config")
    )
    return {
        urldefrag(url).url for url in named if url.startswith(("http://", "https://"))
    }


def files(specs: Iterable[ModelSpec]) -> Mapping[str, bytes]:
    """Content behind each of them, by the url without its scheme.

    Raises:
        KeyError: Nothing stands for one of them.
    """
    contents = {}
    for url in sorted(urls(specs)):
        ends = [end for end in WRITERS if bare(url).endswith(end)]
        if not ends:
            raise KeyError(
                f"nothing stands for {url}: add a writer to tests/rehearsal/released.py"
            )
        contents[bare(url)] = WRITERS[ends[0]]()
    return contents
