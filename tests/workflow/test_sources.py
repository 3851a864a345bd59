"""Raw sources in their upstream formats, through the real rules."""

import pyarrow.parquet as pq
import pytest
import yaml

pytestmark = pytest.mark.workflow


def _study(data, **sources):
    return {
        "study": "tiny",
        "seed": 7,
        "profiles": ["equations"],
        "sources": {
            name: {
                "format": form,
                "files": {
                    part: {"path": str(data / path)} for part, path in files.items()
                },
            }
            for name, (form, files) in sources.items()
        },
        "reporting": {"tables": [], "resamples": 100, "confidence": 0.9},
    }


def _targets(*names, kind=""):
    return [f"results/tiny/sources/{kind}{name}.parquet" for name in names]


def test_the_real_files_give_the_counts_of_their_readme(fresh, shared_data):
    bbh = "bbh_val_data/{}/val_data.json".format
    study = _study(
        shared_data,
        coco=("coco-captions", {"val2017": "coco_captions/captions_val2017.json"}),
        mini=(
            "coco-captions",
            {"train2017": "coco_captions/captions_train2017_mini.json"},
        ),
        visdial=("visdial", {"val": "visdial/visdial_1.0_val_visdialconv.json"}),
        gqa=("gqa", {"testdev": "gqa/llava_gqa_testdev_balanced.jsonl"}),
        vqa=(
            "vqa",
            {
                "questions": "vqa_v2/questions.json",
                "annotations": "vqa_v2/annotations.json",
            },
        ),
        esnli=("e-snli", {"test": "esnli/esnli_test_rebuilt.csv"}),
        comve=(
            "comve",
            {
                "sentences": "comve/subtaskA_test_data.csv",
                "answers": "comve/subtaskA_gold_answers.csv",
            },
        ),
        disambiguation=("bbh", {"disambiguation-qa": bbh("disambiguation_qa")}),
        causal=("bbh", {"causal-judgement": bbh("causal_judgment")}),
        deduction=("bbh", {"logical-deduction": bbh("logical_deduction_five_objects")}),
        released=("bbh-examples", {"causal-judgement": "bbh/causal_judgement.json"}),
    )
    study["sources"]["mini"]["images"] = {
        "path": str(shared_data / "coco_images" / "train2017")
    }
    (fresh.folder / "tiny.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    fresh.snakemake(*_targets(*study["sources"]), *_targets("mini", kind="images/"))
    counts = {
        name: pq.read_metadata(fresh.folder / path).num_rows
        for name, path in zip(
            study["sources"], _targets(*study["sources"]), strict=True
        )
    }
    assert counts == {
        "coco": 25014,
        "mini": 400,
        "visdial": 970,
        "gqa": 12578,
        "vqa": 3,
        "esnli": 9824,
        "comve": 1000,
        "disambiguation": 228,
        "causal": 160,
        "deduction": 220,
        "released": 187,
    }
    faults = pq.read_table(
        fresh.folder / _targets("mini", kind="images/")[0]
    ).to_pylist()
    here = {path.name for path in (shared_data / "coco_images" / "train2017").iterdir()}
    assert len(faults) == 80 - len(here)
    assert not here & {fault["image"] for fault in faults}


@pytest.mark.parametrize(
    ("form", "files", "fault"),
    [
        ("vqa", {"questions": "relations.json"}, "the format vqa needs annotations"),
        ("coco-captions", {"val": "relations.json"}, "val"),
        ("bbh", {"a": "relations.json", "b": "existence.json"}, "too many files"),
        ("swig", {"space": "relations.json"}, "a file for each split"),
    ],
)
def test_a_fault_is_one_line(fresh, form, files, fault):
    study = _study(fresh.folder / "data", mine=(form, files))
    (fresh.folder / "tiny.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    output = fresh.snakemake(*_targets("mine"), check=False)
    (line,) = [line for line in output.splitlines() if line.startswith("waltz: ")]
    assert fault in line
