"""The slice of a study that each step gets: what decides its numbers, and nothing else."""

from pathlib import Path

import pytest

from stand_ins.yaml_files import read_yaml
from waltz.plan.read_study import read_study
from waltz.plan.step_settings import STEPS, get_step_settings
from waltz.plan.study import Study

CONFIG = Path(__file__).parents[2] / "config"


def read_changed(section: str, **changes: object) -> Study:
    content = read_yaml(CONFIG / "thesis.yaml")
    content[section] |= changes
    return read_study(content)


def list_changed_steps(section: str, **changes: object) -> set[str]:
    before, after = read_changed(section), read_changed(section, **changes)
    return {
        step
        for step in STEPS
        if get_step_settings(before, step) != get_step_settings(after, step)
    }


@pytest.mark.parametrize(
    ("section", "changes", "steps"),
    [
        (
            "evaluation",
            {"sample": 7},
            {"align", "perplexity", "decode", "attribute", "attribute_answers"},
        ),
        ("evaluation", {"decoder_sample": 7}, {"decode", "attribute_answers"}),
        ("evaluation", {"tokens_per_batch": 99}, {"perplexity"}),
        ("evaluation", {"shards": 7}, set()),
        (
            "attribution",
            {"evaluations": 99},
            {"attribute", "attribute_answers", "attribute_questions"},
        ),
        ("attribution", {"value": "log-odds"}, {"attribute_answers"}),
        ("consistency", {"tests": ["paraphrasing"]}, {"self_consistency_tests"}),
        ("consistency", {"seeds": [7]}, {"self_consistency_tests", "cc_shap"}),
        ("reporting", {"resamples": 200}, {"resampling"}),
    ],
)
def test_a_changed_key_changes_the_steps_whose_numbers_it_decides(
    section, changes, steps
):
    assert list_changed_steps(section, **changes) == steps


def test_edits_decide_which_jobs_there_are_and_not_their_numbers():
    cc_shap = read_changed("consistency").consistency.cc_shap
    assert cc_shap is not None
    changed = list_changed_steps(
        "consistency", cc_shap={**cc_shap.to_dict(), "edits": False}
    )
    assert changed == set()
