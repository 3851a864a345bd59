"""Finished runs of small studies in the real workflow, once per test session; tests that change one
copy it first.
"""

import json

import pytest
import yaml
from PIL import Image

from workflow_runs.checkout import Checkout, checkout
from workflow_runs.shared_folder import build_once

INSTRUMENTS = ("existence", "plurality", "relations", "action-replacement")
"""One without a filter, one with filters, one that a model proposes as well, one with a ranking;
the others share their rules.
"""
TRACES = "results/tiny/reporting/figures/traces/tiny"
EXPLANATIONS = "results/tiny/reporting/figures/explanations/tiny"
SENTENCES = "id,sent0,sent1\n" + "".join(
    f"{index},a man rides {index},a table throws {index}\n" for index in range(4)
)
ANSWERS = "".join(f"{index},{index % 2}\n" for index in range(4))
ESNLI = """gold_label,Sentence1,Sentence2,Explanation_1,Explanation_2,Explanation_3
neutral,There is a dog.,There is a cat.,So.,So.,So.
entailment,There is a cat.,There is a cat.,So.,So.,So.
contradiction,There is a dog.,There is no dog.,So.,So.,So.
"""
LLAVA = {
    "kind": "vision",
    "weights": "resources/scenes/models/llava",
    "prompts": "scenes.yaml",
}


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory, tiny_model_folder) -> Checkout:
    """A tiny language model on pairs, up to the report."""

    def build(folder):
        checkout(folder, tiny_model_folder).snakemake()

    return Checkout(build_once(tmp_path_factory, "tiny-run", build))


@pytest.fixture(scope="session")
def scenes_run(tmp_path_factory, tiny_model_folder) -> Checkout:
    """The default study with fewer scenes, instruments and models, up to the report."""
    run = checkout(tmp_path_factory.mktemp("scenes") / "waltz", tiny_model_folder)
    study = yaml.safe_load((run.folder / "config" / "scenes.yaml").read_text())
    study["scenes"] |= {"count": 40, "models": ["acceptability"], "held_out": 20}
    study["instruments"] = {name: study["instruments"][name] for name in INSTRUMENTS}
    study["alignment"] = {"mscoco": {"source": "coco", "size": 10}}
    study["groups"] = {"pairs": ["existence", "mscoco", "cv-probes"]}
    study["evaluation"] |= {
        "models": ["scenes-clip", "ruler-25"],
        "groups": ["pairs"],
        "only": {},
        "sample": 12,
    }
    study["attribution"] |= {
        "models": ["scenes-clip", "ruler-25"],
        "sample": 3,
        "evaluations": 200,
        "shards": 2,
    }
    study["attribution"]["companions"] = {"sample": 20, "repeats": 10}
    study["benchmark"]["audit"] = 60
    study["profiles"] = ["equations", "published"]
    study["reporting"] |= {"resamples": 100, "tables": [], "samples": 0}
    del study["consistency"]  # decoders have studies of their own
    _write_study(run, study)
    run.snakemake()
    return run


@pytest.fixture(scope="session")
def decoder_run(tmp_path_factory, tiny_model_folder) -> Checkout:
    """A decoder that sees on pairs and one that reads on a text task: answers, attributions,
    consistency, CC-SHAP.
    """
    from stand_ins.models import tiny_decoders

    run = checkout(tmp_path_factory.mktemp("decoders") / "waltz", tiny_model_folder)
    reader = tiny_decoders.causal("gpt2")
    for part in (reader.network.model, reader.tokenizer):
        part.save_pretrained(run.folder / "reader")
    (run.folder / "images").mkdir()
    for name in "0123":
        Image.linear_gradient("L").rotate(90 * int(name)).convert("RGB").save(
            run.folder / f"images/{name}.png"
        )
    (run.folder / "esnli.csv").write_text(ESNLI)
    study = yaml.safe_load((run.folder / "tiny.yaml").read_text())
    study |= {
        "sources": {
            "own": {
                "format": "pairs",
                "files": {"own-counting": {"path": "data/own.csv"}},
                "images": {"path": "images"},
            },
            "esnli": {"format": "e-snli", "files": {"test": {"path": "esnli.csv"}}},
        },
        "profiles": ["equations"],
        "models": {"llava": LLAVA, "reader": {"weights": "reader"}},
        "texts": {"tasks": {"source": "esnli", "size": 2}},
        "groups": {"seen": ["own-counting"], "read": ["tasks"]},
        "attribution": {
            "models": ["llava"],
            "groups": ["seen"],
            "sample": 2,
            "estimator": "permutation",
            "evaluations": 150,
            "value": "probability",
        },
        "consistency": {
            "models": ["llava", "reader"],
            "groups": ["seen", "read"],
            "sample": 1,
            "tokens": {"explanation": 4, "mistake": 4, "paraphrase": 3},
            "edits": {"positions": 1, "words": 2},
            "cc_shap": {"permutations": 1, "edits": {"models": ["llava"]}},
        },
    }
    study["evaluation"] |= {
        "models": ["llava", "reader"],
        "groups": ["seen", "read"],
        "cot_tokens": 3,
    }
    _write_study(run, study)
    evaluation = [
        f"results/tiny/evaluation/{name}.parquet"
        for name in ("llava/seen", "reader/read.tasks")
    ]
    run.snakemake(
        *evaluation, "results/tiny/attribution/shares.parquet", "consistency", "cc_shap"
    )
    return run


@pytest.fixture(scope="session")
def consistency_run(tmp_path_factory) -> Checkout:
    """The self-consistency tests of a tiny language model, in two shards and both profiles."""
    study = {
        "profiles": ["published", "equations"],
        "sources": {"comve": _comve()},
        "models": {"tiny": {"weights": "", "family": "gpt2"}},
        "texts": {"nonsense": {"source": "comve", "size": 3}},
        "groups": {"texts": ["nonsense"]},
        "consistency": {
            "models": ["tiny"],
            "groups": ["texts"],
            "sample": 3,
            "seeds": [1, 2],
            "shards": 2,
            "tokens": {"explanation": 4, "mistake": 4, "paraphrase": 3},
            "edits": {"positions": 1, "words": 2},
        },
    }
    run = _language_checkout(tmp_path_factory.mktemp("consistency"), study)
    assert run.planned("--", "consistency") >= {
        "self_consistency_tests",
        "merge_consistency_shards",
    }
    run.snakemake(
        "--set-threads", "self_consistency_tests=1", "--", "consistency", TRACES
    )
    return run


@pytest.fixture(scope="session")
def cc_shap_run(tmp_path_factory) -> Checkout:
    """CC-SHAP of a tiny language model, in two shards; its study also names a decoder that sees,
    which does not run.
    """
    study = {
        "profiles": ["equations"],
        "sources": {
            "comve": _comve(),
            "drawn": {
                "format": "pairs",
                "files": {"own": {"path": "data/pair.json"}},
                "images": {"path": "images"},
            },
        },
        "benchmark": {"valid_votes": 2},
        "models": {"tiny": {"weights": "", "family": "gpt2"}, "llava": LLAVA},
        "texts": {"nonsense": {"source": "comve", "size": 3}},
        "groups": {"texts": ["nonsense"], "pairs": ["own"]},
        "evaluation": {
            "models": ["llava"],
            "groups": ["pairs"],
            "items": "valid",
            "sample": None,
            "tokens_per_batch": 64,
        },
        "attribution": {
            "models": ["llava"],
            "groups": ["pairs"],
            "sample": 1,
            "estimator": "permutation",
            "evaluations": 150,
            "value": "probability",
        },
        "consistency": {
            "models": ["tiny"],
            "groups": ["texts"],
            "sample": 3,
            "seeds": [1, 2],
            "shards": 2,
            "tokens": {"explanation": 3},
            "cc_shap": {"kinds": ["cot"], "permutations": 2},
        },
    }
    run = _language_checkout(tmp_path_factory.mktemp("cc-shap"), study)
    pair = {"image": "0.png", "caption": "There is a dog.", "foil": "There is no dog."}
    (run.folder / "data/pair.json").write_text(json.dumps([pair]))
    (run.folder / "images").mkdir()
    run.snakemake("--", "cc_shap", EXPLANATIONS)
    return run


def _comve() -> dict[str, object]:
    return {
        "format": "comve",
        "files": {
            name: {"path": f"data/{name}.csv"} for name in ("sentences", "answers")
        },
    }


def _language_checkout(folder, study) -> Checkout:
    """Prepare a study of a tiny language model on sentences."""
    from stand_ins.models import tiny_decoders

    decoder = tiny_decoders.causal()
    decoder.network.model.generation_config.do_sample = True  # so that seeds matter
    decoder.network.model.save_pretrained(folder / "tiny")
    decoder.tokenizer.save_pretrained(folder / "tiny")
    run = checkout(folder / "waltz", folder / "tiny")
    study["models"]["tiny"]["weights"] = str(folder / "tiny")
    reporting = {
        "tables": [],
        "explained_examples": 2,
        "resamples": 100,
        "confidence": 0.9,
    }
    _write_study(run, {"seed": 7, **study, "reporting": reporting})
    (run.folder / "data/sentences.csv").write_text(SENTENCES)
    (run.folder / "data/answers.csv").write_text(ANSWERS)
    return run


def _write_study(run: Checkout, study: dict[str, object]) -> None:
    (run.folder / "tiny.yaml").write_text(
        yaml.safe_dump({**study, "study": "tiny"}, sort_keys=False)
    )
