"""The study `today` from its models to its tables, with tiny networks of the same classes on a file
of two pairs.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

from stand_ins.models import tiny_encoders, tiny_families
from stand_ins.models.tiny_open_clip import write_open_clip
from waltz.plan.read_study import merge_study
from workflow_runs.checkout import ROOT, Checkout

pytestmark = pytest.mark.workflow

STUDY = yaml.safe_load((ROOT / "config" / "today.yaml").read_text())
ENCODERS = {
    "clip-vit-base-patch32": "clip",
    "siglip2-base-patch16-224": "siglip",
    "metaclip-2-h14": "metaclip-2",
    "dfn5b-clip-vit-h-14": "open-clip",
}
"""One of each kind."""
DECODERS = {
    "idefics3-8b": "idefics3",
    "gemma-3-12b": "gemma3",
    "llama-3.2-11b-vision": "mllama",
}
"""Those whose processors need no torchvision."""
PAIRS = (
    ("0.png", "a dog sleeps", "a cat sleeps"),
    ("1.png", "a cat rides on the horse", "a dog rides on the horse"),
)


def write_model(folder: Path, model: str) -> dict[str, Any]:
    """Write a stand-in's files, and return its entry of the study."""
    folder.mkdir(parents=True)
    if ENCODERS.get(model) == "open-clip":
        write_open_clip(folder)
    elif model in ENCODERS:
        for part in tiny_encoders.build(ENCODERS[model]):
            part.save_pretrained(folder)
    else:
        network, processor = tiny_families.build(DECODERS[model])
        processor.chat_template = tiny_families.build_chat_template(
            processor.image_token
        )
        network.save_pretrained(folder)
        processor.save_pretrained(folder)
    return {"weights": str(folder), "dtype": "float32"}


@pytest.fixture
def stand_ins(fresh: Checkout) -> Checkout:
    for place, rotation in enumerate((0, 90)):
        Image.linear_gradient("L").rotate(rotation).convert("RGB").resize(
            (60, 44)
        ).save(fresh.folder / f"{place}.png")
    lines = ["image,caption,foil", *(",".join(pair) for pair in PAIRS)]
    (fresh.folder / "zoo.csv").write_text("\n".join(lines) + "\n")
    pairs = {
        "format": "pairs",
        "files": {"zoo": {"path": "zoo.csv"}},
        "images": {"path": "."},
    }
    skipped = [
        model for model in STUDY["models"] if model not in {**ENCODERS, **DECODERS}
    ]
    study = merge_study(STUDY, ROOT / "config") | {
        "study": "stand-ins",
        "sources": {"own": pairs},
        "benchmark": {"valid_votes": 1},
        "groups": {"valse": ["zoo"]},
        "skipped": dict.fromkeys(skipped, "has no stand-in"),
        "threads": 1,
    }
    del study["extends"], study["measures"]
    study["models"] |= {
        model: write_model(fresh.folder / "weights" / model, model)
        for model in {**ENCODERS, **DECODERS}
    }
    study["attribution"]["evaluations"] = 320
    study["reporting"]["pronouns"] = []
    study["consistency"] |= {
        "cc_shap": {"permutations": 1},
        "tokens": {"explanation": 3, "answer": 2},
    }
    (fresh.folder / "stand-ins.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    return fresh


def test_every_model_has_accuracies_and_shares_and_decoders_say_how_they_were_read(
    stand_ins,
):
    stand_ins.snakemake("metrics", "shares", "consistency", study="stand-ins.yaml")
    results = stand_ins.folder / "results" / "stand-ins"
    for model in {**ENCODERS, **DECODERS}:
        rows = pq.read_table(results / "attribution" / model / "valse.parquet")
        assert len(rows) > 0
        assert not any(rows["error"].to_pylist())
    for model, family in DECODERS.items():
        files = [
            file
            for file in results.rglob("*.run.json")
            if model in file.relative_to(results).parts
        ]
        records = [json.loads(file.read_text()) for file in files]
        ways = {record["forward_pass"] for run in records for record in run}
        assert len(ways) == 1
        assert ("own forward pass" in ways.pop()) == (family != "idefics3")
