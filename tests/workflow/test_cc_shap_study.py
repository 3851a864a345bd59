"""CC-SHAP of a tiny language model in the real workflow, and what is planned for answers of the scenes' LLaVA."""

import json

import pytest
import yaml

import tiny_decoders
from waltz.core.files import parquet
from waltz.core.schema import ATTRIBUTION, CC_SHAP
from workflow_checkout import Checkout, checkout

pytestmark = pytest.mark.workflow

SENTENCES = "id,sent0,sent1\n" + "".join(f"{place},a man rides {place},a table throws {place}\n" for place in range(4))
ANSWERS = "".join(f"{place},{place % 2}\n" for place in range(4))
DRAWN = "results/tiny/reporting/figures/explanations/tiny"
ANSWERED = "results/tiny/attribution/llava/own.parquet"


def study(model) -> dict[str, object]:
    files = {name: {"path": f"data/{name}.csv"} for name in ("sentences", "answers")}
    llava = {"kind": "vision", "weights": "resources/scenes/models/llava", "prompts": "resources/prompts/scenes.yaml"}
    return {
        "study": "tiny",
        "seed": 7,
        "profiles": ["equations"],
        "sources": {
            "comve": {"format": "comve", "files": files},
            "drawn": {"format": "pairs", "files": {"own": {"path": "data/pair.json"}}, "images": {"path": "images"}},
        },
        "benchmark": {"valid_votes": 2},
        "models": {"tiny": {"weights": str(model), "family": "gpt2"}, "llava": llava},
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
        "reporting": {"tables": [], "explained": 2, "resamples": 100, "confidence": 0.9},
    }


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> Checkout:
    folder = tmp_path_factory.mktemp("cc-shap")
    decoder = tiny_decoders.causal()
    decoder.network.model.save_pretrained(folder / "tiny")
    decoder.tokenizer.save_pretrained(folder / "tiny")
    made = checkout(folder / "waltz", folder / "tiny")
    (made.folder / "tiny.yaml").write_text(yaml.safe_dump(study(folder / "tiny")))
    (made.folder / "data/sentences.csv").write_text(SENTENCES)
    (made.folder / "data/answers.csv").write_text(ANSWERS)
    pair = {"image": "0.png", "caption": "There is a dog.", "foil": "There is no dog."}
    (made.folder / "data/pair.json").write_text(json.dumps([pair]))
    (made.folder / "images").mkdir()
    made.snakemake("--", "cc_shap", DRAWN)
    return made


def test_the_shards_make_one_file_of_all_items_and_seeds(ran):
    folder = ran.folder / "results/tiny/consistency/tiny"
    rows = parquet.read(folder / "cc-shap/nonsense.parquet", CC_SHAP).to_pylist()
    assert [(row["error"], row["kind"]) for row in rows] == [(None, "cot")] * 6
    assert len({row["item_id"] for row in rows}) == 3
    assert {row["seed"] for row in rows} == {1, 2}
    assert len({row["value"] for row in rows}) == 6
    contributions = parquet.read(folder / "contributions/nonsense.parquet", ATTRIBUTION).to_pylist()
    assert {(row["setting"], row["seed"]) for row in contributions} == {("cot:answer", 1), ("cot:explanation", 1)}
    assert len(contributions) == 6
    records = json.loads((folder / "cc-shap/nonsense.run.json").read_text())
    assert [(record["shard"], record["rows_out"]) for record in records] == [("1 of 2", 4), ("2 of 2", 2)]


def test_two_answers_are_drawn_above_their_explanations(ran):
    titles = json.loads((ran.folder / DRAWN / "index.json").read_text())
    assert list(titles) == ["nonsense-equations-1-cot", "nonsense-equations-2-cot"]
    assert len(set(titles.values())) == 2
    assert all((ran.folder / DRAWN / f"{name}.svg").stat().st_size > 5000 for name in titles)


def test_what_is_planned_next(ran):
    assert ran.planned("--", "cc_shap") == set()
    answers = {"attribute_answers_pairs", "attribution_answers_pairs", "fetch", "items"}
    assert ran.planned("--", ANSWERED) == answers
    assert ran.planned("--", "results/tiny/attribution/shares.parquet") == {
        *answers,
        "decode",
        "shares",
        "shares_part",
    }
    ran.change("consistency.cc_shap.edits", True)
    assert ran.planned("--", "cc_shap") == {
        "cc_shap",
        "consistency_texts",
        "consistency_whole_texts",
        "cc_shap_edits_texts_texts",
        "cc_shap_whole_edited_texts_texts",
        "cc_shap_whole_edited_contributions_texts_texts",
    }
    ran.change("consistency.cc_shap.permutations", 3)
    assert {"cc_shap_texts_texts", "cc_shap_whole_cc_shap_texts_texts"} <= ran.planned("--", "cc_shap")
