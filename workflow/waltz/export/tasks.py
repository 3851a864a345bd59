"""Tasks of an exported data set for lm-evaluation-harness, lmms-eval and the leaderboards of the hub."""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from waltz.core.files.atomic import write_text
from waltz.core.schema import BENCHMARK
from waltz.evaluation.prompting.prompt_files import read_prompt_file
from waltz.export import lmms_eval_functions
from waltz.export.facts import StudyFacts
from waltz.export.parts import WrittenPart

HUB_DATASET = re.compile(r"https://huggingface\.co/datasets/([\w.-]+/[\w.-]+)/?")
INSTRUCTION = " Answer with A or B only."
FUNCTIONS_FILE = Path(lmms_eval_functions.__file__)
Task = dict[str, Any]


class _Function(str):
    """Name of a function in the file of lmms-eval's functions, written with the tag `!function`."""


class _Dumper(yaml.SafeDumper):
    """Writes YAML with the tag `!function`."""


_Dumper.add_representer(
    _Function, lambda dumper, name: dumper.represent_scalar("!function", f"{FUNCTIONS_FILE.stem}.{name}")
)


def write_tasks(folder: Path, facts: StudyFacts, written_parts: Sequence[WrittenPart], version: str) -> None:
    """Write the task files of lm-evaluation-harness (`lm_eval`), lmms-eval (`lmms_eval`) and the hub (`eval.yaml`).

    Every part with captions and foils has a task of lm-evaluation-harness, for models of text alone: it is right where
    the caption is more probable than the foil. Those with images have a task of lmms-eval, which asks for the caption's
    label. Results in repositories of models name the tasks of `eval.yaml`. CV-Probes have no foils and no task.

    Args:
        folder: The folder of the data set.
        version: Version of the data set.
    """
    match = HUB_DATASET.fullmatch(str(facts.about.get("url", "")))
    root = f"hf://datasets/{match[1]}/" if match else ""  # else the tasks run inside the folder
    pairs = [written_part for written_part in written_parts if written_part.part.layout is BENCHMARK]
    with_images = [written_part for written_part in pairs if written_part.part.images is not None]
    lm_eval = {
        f"waltz_{facts.study}_{written_part.part.name}": _build_base(root, written_part, version) | LM_EVAL
        for written_part in pairs
    }
    lmms_eval = {
        f"waltz_{facts.study}_{written_part.part.name}": _build_base(root, written_part, version) | build_lmms_eval()
        for written_part in with_images
    }
    for name, tasks in (("lm_eval", lm_eval), ("lmms_eval", lmms_eval)):
        if tasks:
            _write_files(folder / name, f"waltz_{facts.study}", tasks)
    if lmms_eval:
        shutil.copyfile(FUNCTIONS_FILE, folder / "lmms_eval" / FUNCTIONS_FILE.name)
    benchmark = {
        "name": facts.study,
        "description": "Captions and foils; the score is acc_r in percent, pairs whose caption ranks above its foil.",
        "evaluation_framework": "waltz",
        "tasks": [
            {"id": written_part.part.name, "config": written_part.part.name, "split": _select_split(written_part)}
            for written_part in pairs
        ],
    }
    write_text(folder / "eval.yaml", yaml.safe_dump(benchmark, sort_keys=False, allow_unicode=True, width=100))


LM_EVAL: Task = {
    "output_type": "multiple_choice",
    "doc_to_text": "",
    "target_delimiter": "",
    "doc_to_choice": "{{[foil, caption]}}",  # in a tie the first is chosen, which is wrong
    "doc_to_target": 1,
    "metric_list": [
        {"metric": metric, "aggregation": "mean", "higher_is_better": True} for metric in ("acc", "acc_norm")
    ],
}


def build_lmms_eval() -> Task:
    """Return the keys of a task of lmms-eval: the pairwise question of the profile `equations`."""
    question = read_prompt_file("equations").forms["pairwise"].text + INSTRUCTION
    return {
        "output_type": "generate_until",
        "process_docs": _Function("select_items"),
        "doc_to_visual": _Function("get_images"),
        "doc_to_text": _Function("render_question"),
        "doc_to_target": _Function("get_label"),
        "process_results": _Function("score_answer"),
        "generation_kwargs": {"max_new_tokens": 16, "temperature": 0, "do_sample": False},
        "lmms_eval_specific_kwargs": {"default": {"question": question}},
        "metric_list": [
            {"metric": metric, "aggregation": "mean", "higher_is_better": True} for metric in ("acc", "answered")
        ],
    }


def _build_base(root: str, written_part: WrittenPart, version: str) -> Task:
    """Return the keys of both kinds of task."""
    splits, split = written_part.splits, _select_split(written_part)
    return {
        "dataset_path": "parquet",
        "dataset_kwargs": {"data_files": {split: [root + pattern for pattern in splits[split]]}},
        "test_split": split,
        "metadata": {"version": version},
    }


def _select_split(written_part: WrittenPart) -> str:
    """Return the split `valid`, or `test`, which has all items, if none is in it."""
    return "valid" if "valid" in written_part.splits else "test"


def _write_files(folder: Path, group: str, tasks: Mapping[str, Task]) -> None:
    """Write one file for each task and one for their group, whose accuracy is the mean over tasks."""
    mean = {"metric": "acc", "aggregation": "mean", "weight_by_size": False}
    groups = {group: {"group": group, "task": list(tasks), "aggregate_metric_list": [mean]}}
    entries = groups | {name: {"task": name, **task} for name, task in tasks.items()}
    for name, entry in entries.items():
        text = yaml.dump(entry, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
        write_text(folder / f"{name}.yaml", text)
