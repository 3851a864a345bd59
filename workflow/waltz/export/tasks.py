"""Tasks of an exported data set for lm-evaluation-harness, lmms-eval and the leaderboards of the
hub.
"""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from waltz.core.files.atomic import write_text
from waltz.core.files.json_objects import JsonObject
from waltz.core.schema import BENCHMARK
from waltz.evaluation.prompting.prompt_files import read_prompt_file
from waltz.export import lmms_eval_functions
from waltz.export.facts import BenchmarkFacts
from waltz.export.parts import WrittenPart
from waltz.fidelity import EQUATIONS

HUB_DATASET = re.compile(r"https://huggingface\.co/datasets/([\w.-]+/[\w.-]+)/?")
INSTRUCTION = " Answer with A or B only."
FUNCTIONS_FILE = Path(lmms_eval_functions.__file__)


class _Function(str):
    """Name of a function in `lmms_eval_functions`, which YAML files name with the tag `!function`."""


class _Dumper(yaml.SafeDumper):
    """Write YAML with the tag `!function`."""


def _represent_function(dumper: yaml.SafeDumper, name: _Function) -> yaml.ScalarNode:
    return dumper.represent_scalar("!function", f"{FUNCTIONS_FILE.stem}.{name}")


_Dumper.add_representer(_Function, _represent_function)


def write_tasks(
    folder: Path,
    facts: BenchmarkFacts,
    written_parts: Sequence[WrittenPart],
    version: str,
) -> None:
    """Write the task files of lm-evaluation-harness (`lm_eval`), lmms-eval (`lmms_eval`) and the
    hub (`eval.yaml`).

    Every part with captions and foils has a task of lm-evaluation-harness, for models of text
    alone: an item is right if the caption is more probable than the foil. Parts with images have a
    task of lmms-eval, which asks for the caption's label. Results in repositories of models name
    the tasks of `eval.yaml`. CV-Probes have no foils and no task.

    Args:
        folder: The folder of the data set.
        facts: Facts of the study.
        written_parts: Parts of the data set.
        version: Version of the data set.
    """
    match = HUB_DATASET.fullmatch(str(facts.about.get("url", "")))
    root = ""  # the tasks run inside the folder
    if match is not None:
        root = f"hf://datasets/{match[1]}/"
    group = f"waltz_{facts.study}"
    lm_eval, lmms_eval, hub_tasks = {}, {}, []
    for written_part in written_parts:
        part = written_part.part
        # CV-Probes have no foil to choose from.
        if part.layout is not BENCHMARK:
            continue
        base = _build_base(root, written_part, version)
        lm_eval[f"{group}_{part.name}"] = base | LM_EVAL
        if part.images is not None:
            lmms_eval[f"{group}_{part.name}"] = base | build_lmms_eval()
        hub_tasks.append(
            {"id": part.name, "config": part.name, "split": _select_split(written_part)}
        )
    if lm_eval:
        _write_files(folder / "lm_eval", group, lm_eval)
    if lmms_eval:
        _write_files(folder / "lmms_eval", group, lmms_eval)
        shutil.copyfile(FUNCTIONS_FILE, folder / "lmms_eval" / FUNCTIONS_FILE.name)
    benchmark = {
        "name": facts.study,
        "description": "Captions and foils; the score is acc_r in percent, pairs whose caption ranks above its foil;"
        " a tie counts half.",
        "evaluation_framework": "waltz",
        "tasks": hub_tasks,
    }
    write_text(
        folder / "eval.yaml",
        yaml.safe_dump(benchmark, sort_keys=False, allow_unicode=True, width=100),
    )


LM_EVAL: JsonObject = {
    "output_type": "multiple_choice",
    "doc_to_text": "",
    "target_delimiter": "",
    "doc_to_choice": "{{[foil, caption]}}",  # in a tie the first is chosen, which is wrong
    "doc_to_target": 1,
    "metric_list": [
        {"metric": "acc", "aggregation": "mean", "higher_is_better": True},
        {"metric": "acc_norm", "aggregation": "mean", "higher_is_better": True},
    ],
}
"""Keys of a task of lm-evaluation-harness."""


def build_lmms_eval() -> JsonObject:
    """Return the keys of a task of lmms-eval: the pairwise question of the profile `equations`."""
    # The same question as in a study, so that numbers can be compared.
    question = read_prompt_file(EQUATIONS).forms["pairwise"].text + INSTRUCTION
    return {
        "output_type": "generate_until",
        "process_docs": _Function("select_items"),
        "doc_to_visual": _Function("get_images"),
        "doc_to_text": _Function("render_question"),
        "doc_to_target": _Function("get_label"),
        "process_results": _Function("score_answer"),
        "generation_kwargs": {
            "max_new_tokens": 16,
            "temperature": 0,
            "do_sample": False,
        },
        "lmms_eval_specific_kwargs": {"default": {"question": question}},
        "metric_list": [
            {"metric": "acc", "aggregation": "mean", "higher_is_better": True},
            {"metric": "answered", "aggregation": "mean", "higher_is_better": True},
        ],
    }


def _build_base(root: str, written_part: WrittenPart, version: str) -> JsonObject:
    """Return the keys of both kinds of task."""
    # Items that were voted invalid are not scored.
    splits, split = written_part.splits, _select_split(written_part)
    return {
        "dataset_path": "parquet",
        "dataset_kwargs": {
            "data_files": {split: [root + pattern for pattern in splits[split]]}
        },
        "test_split": split,
        "metadata": {"version": version},
    }


def _select_split(written_part: WrittenPart) -> str:
    """Return the split `valid`, or `test`, which has all items, if no item is in `valid`."""
    if "valid" in written_part.splits:
        return "valid"
    return "test"


def _write_files(folder: Path, group: str, tasks: Mapping[str, JsonObject]) -> None:
    """Write a file for each task and a file for their group, whose accuracy is the mean over tasks."""
    # Each instrument counts alike, as in the tables of VALSE.
    mean = {"metric": "acc", "aggregation": "mean", "weight_by_size": False}
    groups = {
        group: {"group": group, "task": list(tasks), "aggregate_metric_list": [mean]}
    }
    entries = groups | {name: {"task": name, **task} for name, task in tasks.items()}
    for name, entry in entries.items():
        text = yaml.dump(
            entry, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100
        )
        write_text(folder / f"{name}.yaml", text)
