"""Estimated GPU hours and the shards that follow from them, worked out by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from stand_ins.yaml_files import read_yaml
from waltz.evaluation.decoder_tasks import PROMPTS_PER_ITEM
from waltz.model_registry import load_registry
from waltz.models.decoders.decoder import Decoder
from waltz.plan import costs
from waltz.plan.build_plan import build_plan
from waltz.plan.costs import (
    DETECTOR_OPERATIONS,
    RATE,
    RATE_SHARES,
    Work,
    compute_costs,
    count_items,
    count_shards,
    estimate_seconds,
    format_steps,
    list_computed_runs,
    list_work,
    main,
)
from waltz.plan.plan import Plan
from waltz.plan.read_study import read_study
from waltz.plan.run_table import STAGES, Run

ROOT = Path(__file__).parents[2]
REGISTRY = load_registry()


def plan_thesis(**changes: object) -> Plan:
    study = read_yaml(ROOT / "config/thesis.yaml")
    for key, value in changes.items():
        study[key] = {**study[key], **value} if isinstance(value, dict) else value
    return build_plan(read_study(study))


@pytest.fixture(scope="module")
def thesis() -> Plan:
    return plan_thesis()


def test_a_pass_costs_two_operations_for_each_parameter_and_position():
    bakllava = REGISTRY["bakllava"]
    assert estimate_seconds(bakllava, Work(passes=9), rate=1e9) == pytest.approx(
        2 * 7566747648 * 700 * 9 / 1e9
    )
    tiled = REGISTRY["llava-next-mistral"]
    assert estimate_seconds(tiled, Work(9), 1e9) == pytest.approx(
        2 * tiled.parameters * 2900 * 9 / 1e9
    )
    gpt2 = REGISTRY["gpt2"]  # in single precision
    assert estimate_seconds(gpt2, Work(6000), 1e9) == pytest.approx(
        2 * 124439808 * 100 * 6000 / (1e9 * RATE_SHARES["float32"])
    )


def test_an_encoder_of_regions_pays_for_its_detector_unless_its_regions_are_stored():
    lxmert = REGISTRY["lxmert"]
    own = 2 * 228051752 * 300
    assert estimate_seconds(lxmert, Work(1000)) == pytest.approx(
        1000 * (own + DETECTOR_OPERATIONS["vg-frcnn"]) / (RATE * RATE_SHARES["float32"])
    )
    stored = replace(lxmert, regions="regions.npz")
    assert estimate_seconds(stored, Work(1000)) == pytest.approx(
        1000 * own / (RATE * RATE_SHARES["float32"])
    )


def test_a_generated_token_reads_all_weights_once_for_the_texts_of_a_batch():
    mistral, gpt2 = REGISTRY["mistral-7b"], REGISTRY["gpt2"]
    prompts = 40 * 2 * mistral.parameters * 100 / RATE
    step = 2 * mistral.parameters / 5e11  # 29 ms
    # 4,096 positions hold 20 texts of 100 + 100 tokens
    assert estimate_seconds(mistral, Work(0, 40, 100)) == pytest.approx(
        prompts + 40 * 100 * step / 20
    )
    prompts = 40 * 2 * gpt2.parameters * 100 / (RATE * RATE_SHARES["float32"])
    assert estimate_seconds(gpt2, Work(0, 40, 100)) == pytest.approx(
        prompts + 40 * 100 * 0.02 / 20
    )


def test_items_are_those_that_the_samples_leave(thesis):
    valse = thesis.groups["valse"]
    assert (
        2
        * sum(count_items(thesis, "evaluation", Run("lxmert", name)) for name in valse)
        == 15404
    )
    run = Run("bakllava", "existence")
    assert [
        count_items(thesis, step, run)
        for step in ("evaluation", "attribution", "tests")
    ] == [505, 100, 100]
    assert count_items(thesis, "attribution", Run("lxmert", "existence")) == 505
    assert count_items(thesis, "evaluation", Run("lxmert", "mscoco-released")) == 1000
    assert count_items(thesis, "cc-shap", Run("bakllava", "vqa-decoders")) == 100
    smaller = plan_thesis(evaluation={"sample": 40}, attribution={"decoder_sample": 30})
    assert count_items(smaller, "evaluation", Run("lxmert", "existence")) == 40
    assert count_items(smaller, "attribution", Run("lxmert", "existence")) == 40
    assert count_items(smaller, "attribution", Run("bakllava", "existence")) == 30


def test_cc_shap_is_counted_once_for_each_kind_side_and_seed(thesis):
    # plurality has one seed, existence three (consistency.repeated)
    once, repeated = Run("bakllava", "plurality"), Run("bakllava", "existence")
    # Kinds x sides x coalitions, the latter of 2 permutations.
    published, equations = (
        2 * 2 * 600,
        2 * 2 * 2 * 201,
    )
    assert list_work(thesis, "cc-shap", once) == [
        ("bakllava", Work(100 * published, 100 * 4, 100)),
        ("bakllava", Work(100 * equations, 100 * 4, 100)),
    ]
    assert [work.passes for _, work in list_work(thesis, "cc-shap", repeated)] == [
        300 * published,
        300 * equations,
    ]


def test_edits_are_counted_by_coalitions_of_one_kind_and_only_where_they_are_explained(
    thesis,
):
    run = Run("bakllava", "existence")
    explained, edited = (list_work(thesis, step, run) for step in ("cc-shap", "edited"))
    assert [2 * work.passes for _, work in edited] == [
        work.passes for _, work in explained
    ]
    some = plan_thesis(
        consistency={
            "cc_shap": {
                "permutations": 2,
                "edits": {"models": ["gpt2"], "datasets": ["comve", "e-snli"]},
            }
        }
    )
    assert list_computed_runs(some, "edited") == [
        Run("gpt2", "e-snli"),
        Run("gpt2", "comve"),
    ]


def test_the_thesis_study_explains_no_more_edits_and_tests_no_more_models_than_print(
    thesis,
):
    edited = thesis.runs.select("edited")
    assert {run.dataset for run in edited.runs} == {"comve"}
    assert len(edited.models) == 5  # C.13 to C.17
    tested = thesis.runs.select("tests").models
    explained = thesis.runs.select("cc-shap").models
    assert set(explained) - set(tested) == {"mplug-owl3"}


def test_the_helper_of_the_tests_is_paid_for_by_the_other_decoders(thesis):
    run = Run("gpt2", "comve")
    assert [model for model, _ in list_work(thesis, "tests", run)] == [
        "gpt2",
        "llama2-13b-chat",
    ] * 2
    assert {
        model
        for model, _ in list_work(thesis, "tests", Run("llama2-13b-chat", "comve"))
    } == {"llama2-13b-chat"}
    own, helper = (work for _, work in list_work(thesis, "tests", run)[:2])
    assert own == Work(3 * 100 * 64, 3 * 100 * 20, 100)
    assert helper == Work(0, 3 * 100 * 4, 60)


def test_prompts_and_batches_are_those_of_the_decoders():
    assert costs.DECODER_PROMPTS == PROMPTS_PER_ITEM
    assert (
        Decoder.__dataclass_fields__["positions_per_batch"].default
        == costs.POSITIONS_PER_BATCH
    )


def test_a_data_set_of_one_profile_is_counted_in_this_one(thesis):
    assert len(list_work(thesis, "evaluation", Run("lxmert", "mscoco"))) == 1
    assert len(list_work(thesis, "evaluation", Run("lxmert", "existence"))) == 2


def test_no_shard_of_the_thesis_is_estimated_above_half_of_its_time(thesis):
    scored = [cost for cost in compute_costs(thesis) if cost.step == "evaluation"]
    assert max(cost.longest for cost in scored) < 4  # encoders are not cut
    decoded = [cost for cost in scored if "llava" in cost.model]
    assert decoded
    assert all(cost.longest <= 2 < cost.hours for cost in decoded)
    explained = [
        cost for cost in compute_costs(thesis) if cost.step not in STAGES["evaluation"]
    ]
    assert explained
    assert all(cost.longest <= 12 for cost in explained)


def test_shards_follow_from_hours_and_the_study_has_the_last_word(thesis):
    hours = costs.estimate_hours(
        thesis, "tests", [run for run in thesis.tested if run.model == "falcon-40b"]
    )
    assert 6 < hours < 12
    assert count_shards(thesis, "tests", "falcon-40b", "texts") == 1
    # With three runs on every data set the hours are too many for one job.
    tripled = plan_thesis(consistency={"repeated": list(thesis.study.texts)})
    assert count_shards(tripled, "tests", "falcon-40b", "texts") == 2
    assert count_shards(thesis, "tests", "mistral-7b", "texts") == 1
    chosen = plan_thesis(consistency={"shards": 3}, evaluation={"shards": 5})
    assert count_shards(chosen, "tests", "mistral-7b", "texts") == 3
    assert count_shards(chosen, "cc-shap", "mistral-7b", "texts") == 3
    assert count_shards(chosen, "evaluation", "bakllava", "valse") == 5
    assert count_shards(chosen, "attribution", "clip-vit-base-patch32", "valse") > 1


def test_there_are_no_more_shards_than_items(monkeypatch, thesis):
    monkeypatch.setattr(costs, "RATE", 1e9)
    monkeypatch.setattr(costs, "estimate_hours", lambda *_: 1e6)
    assert count_shards(thesis, "cc-shap", "bakllava", "valse") == 100


def test_the_docs_show_the_hours_of_the_thesis(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # without regions and captions that a user may have
    table = format_steps(compute_costs(plan_thesis()))
    page = (ROOT / "docs/how-to/running-the-thesis.md").read_text(encoding="utf-8")
    assert table in page, f"put this into docs/how-to/running-the-thesis.md:\n{table}"
    main([str(ROOT / "config/thesis.yaml")])
    assert capsys.readouterr().out.startswith(table)


def test_hours_of_a_study_that_extends_another_are_printed(capsys):
    main([str(ROOT / "config/today.yaml")])
    printed = capsys.readouterr().out
    assert all(f"| {model} |" in printed for model in ("qwen3.5-9b", "llama-4-scout"))
