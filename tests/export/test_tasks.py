"""Tasks of lm-evaluation-harness and lmms-eval in an exported data set."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml
from PIL import Image

from stand_ins.benchmark_rows import facts, item, part
from waltz.evaluation.recorded_answers import build_answer_record
from waltz.export import lmms_eval_functions
from waltz.export.folder import write_dataset
from waltz.sources.formats.harness_samples import read_samples

LANGUAGE_MODEL = Path(__file__).parents[2] / "resources/scenes/models/causal-lm"


class Loader(yaml.SafeLoader):
    """Reads the tag of functions as their name."""


Loader.add_constructor("!function", lambda loader, node: f"function {node.value}")


def read(file):
    return yaml.load(file.read_text(), Loader)


def test_captions_and_foils_have_a_task_of_the_harness(dataset):
    assert sorted(file.stem for file in (dataset / "lm_eval").iterdir()) == [
        "waltz_small",
        "waltz_small_existence",
        "waltz_small_relations",
    ]
    task = read(dataset / "lm_eval/waltz_small_existence.yaml")
    assert task["task"] == "waltz_small_existence"
    assert task["dataset_kwargs"] == {
        "data_files": {"valid": ["existence/valid-*.parquet"]}
    }
    assert (task["test_split"], task["output_type"], task["doc_to_target"]) == (
        "valid",
        "multiple_choice",
        1,
    )
    group = read(dataset / "lm_eval/waltz_small.yaml")
    assert group["task"] == ["waltz_small_existence", "waltz_small_relations"]


def test_the_hub_has_a_task_for_each_part_of_captions_and_foils(dataset):
    benchmark = yaml.safe_load((dataset / "eval.yaml").read_text())
    # As in the acc_r that results name these tasks for.
    assert "a tie counts half" in benchmark["description"]
    assert [task["id"] for task in benchmark["tasks"]] == ["existence", "relations"]
    for task in benchmark["tasks"]:
        assert task["config"] == task["id"]
        assert list(dataset.glob(f"{task['config']}/{task['split']}-*.parquet"))


def test_items_with_images_have_a_task_of_lmms_eval(dataset):
    names = sorted(file.name for file in (dataset / "lmms_eval").iterdir())
    assert names == [
        "lmms_eval_functions.py",
        "waltz_small.yaml",
        "waltz_small_existence.yaml",
    ]
    task = read(dataset / "lmms_eval/waltz_small_existence.yaml")
    functions = [
        value.split(".")[1]
        for value in task.values()
        if str(value).startswith("function ")
    ]
    assert len(functions) == 5
    assert all(callable(getattr(lmms_eval_functions, name)) for name in functions)
    assert {metric["metric"] for metric in task["metric_list"]} == set(
        lmms_eval_functions.score_answer(item(), ["(A)"])
    )


def test_tasks_of_a_published_data_set_read_it_from_the_hub(tmp_path):
    published = facts(about={"url": "https://huggingface.co/datasets/group/mine"})
    write_dataset(tmp_path / "x", [part([item(valid=False)])], published)
    task = read(tmp_path / "x/lm_eval/waltz_small_existence.yaml")
    assert task["dataset_kwargs"] == {
        "data_files": {"test": ["hf://datasets/group/mine/existence/invalid-*.parquet"]}
    }


def test_the_question_of_lmms_eval_holds_both_texts_in_the_order_of_the_label(dataset):
    kwargs = read(dataset / "lmms_eval/waltz_small_existence.yaml")[
        "lmms_eval_specific_kwargs"
    ]["default"]
    rows = [
        item(item_id=str(number), caption="A {dog}.", foil="A cat.")
        for number in range(400)
    ]
    labels = [lmms_eval_functions.get_label(row) for row in rows]
    assert 160 < labels.count("A") < 240
    for row, label in zip(rows, labels, strict=True):
        question = lmms_eval_functions.render_question(row, kwargs)
        assert (question.index("A {dog}.") < question.index("A cat.")) == (label == "A")


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("A", "A"),
        (" (B)", "B"),
        ("B.", "B"),
        ('A): "a dog"', "A"),
        ("The correct answer is: B", "B"),
        ("The correct answer is (A)", "A"),
        ("A dog runs.", None),
        ("Both", None),
        ("", None),
    ],
)
def test_labels_are_read_from_answers(answer, label):
    scores = lmms_eval_functions.score_answer(item(), [answer])
    assert scores["answered"] == (label is not None)
    assert scores["acc"] == (label == lmms_eval_functions.get_label(item()))


def test_images_are_given_in_rgb():
    (image,) = lmms_eval_functions.get_images({"image": Image.new("L", (2, 3))})
    assert (image.mode, image.size) == ("RGB", (2, 3))


@pytest.mark.workflow
@pytest.mark.skipif(
    "WALTZ_LM_EVAL" not in os.environ, reason="WALTZ_LM_EVAL names no program lm_eval"
)
def test_the_harness_runs_the_tasks_unchanged(dataset, tmp_path):
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub")}
    command = [
        os.environ["WALTZ_LM_EVAL"],
        "--model",
        "hf",
        "--model_args",
        f"pretrained={LANGUAGE_MODEL}",
    ]
    command += [
        "--include_path",
        "lm_eval",
        "--tasks",
        "waltz_small",
        "--limit",
        "5",
        "--device",
        "cpu",
    ]
    command += ["--log_samples", "--output_path", str(tmp_path / "out")]
    subprocess.run(command, cwd=dataset, env=environment, check=True)

    (results,) = (tmp_path / "out").rglob("results*.json")
    values = json.loads(results.read_text())["results"]
    assert set(values) == {
        "waltz_small",
        "waltz_small_existence",
        "waltz_small_relations",
    }
    for name in ("existence", "relations"):
        (samples,) = (tmp_path / "out").rglob(f"samples_waltz_small_{name}*.jsonl")
        logs = [json.loads(line) for line in samples.read_text().strip().split("\n")]
        assert [log["doc"]["item_id"] for log in logs] == ["a", "b", "d"]
        for log in logs:
            texts = [
                log["arguments"][f"gen_args_{number}"]["arg_1"] for number in range(2)
            ]
            assert texts == [log["doc"]["foil"], log["doc"]["caption"]]
        rows = map(build_answer_record, read_samples(str(samples), name, "run"))
        assert {row.item_id: row.correct for row in rows} == {
            log["doc"]["item_id"]: log["acc"] == 1 for log in logs
        }
        right = [
            float(log["resps"][1][0][0]) > float(log["resps"][0][0][0]) for log in logs
        ]
        assert values[f"waltz_small_{name}"]["acc,none"] == pytest.approx(
            sum(right) / len(right)
        )
