"""What the rules ask of a plan, for the studies of config/."""

from pathlib import Path

import pytest

from stand_ins.yaml_files import read_yaml
from waltz.core.errors import UserError
from waltz.plan.build_plan import build_plan
from waltz.plan.models import Models
from waltz.plan.plan import Plan, share_threads
from waltz.plan.read_study import read_study
from waltz.plan.run_table import Run

CONFIG = Path(__file__).parents[2] / "config"


def plan_of(study: str, **changes: object) -> Plan:
    return build_plan(read_study({**read_yaml(CONFIG / f"{study}.yaml"), **changes}))


@pytest.fixture(scope="module")
def scenes() -> Plan:
    return plan_of("scenes")


@pytest.fixture(scope="module")
def texts() -> Plan:
    return plan_of("texts")


def test_images_of_data_sets_are_found_for_a_list_and_for_an_iterator(scenes):
    names = ["existence", "cv-probes"]
    files = scenes.list_image_files(names)
    assert len(files) == 2
    assert scenes.list_image_files(iter(names)) == files


def test_a_data_set_without_images_is_refused(texts):
    with pytest.raises(UserError, match=r"sources\.e-snli\.images is missing"):
        texts.list_image_files(["e-snli"])


def test_each_kind_of_model_runs_on_the_data_sets_that_it_can_read(scenes):
    forms_of_llava = {
        scenes.datasets[run.dataset].form
        for run in scenes.decoded
        if run.model == "scenes-llava"
    }
    forms_of_clip = {
        scenes.datasets[run.dataset].form
        for run in scenes.attributed
        if run.model == "scenes-clip"
    }
    assert forms_of_llava == {"pairs", "open"}
    assert forms_of_clip == {"pairs", "probes"}


def test_text_tasks_are_read_from_their_source_and_pairs_from_the_benchmark(
    scenes, texts
):
    assert texts.get_rows_file("comve") == "results/texts/sources/comve.parquet"
    assert (
        scenes.get_rows_file("existence")
        == "results/scenes/benchmark/existence.parquet"
    )


def test_jobs_that_read_the_questions_of_gqa_request_memory_for_them():
    thesis = plan_of("thesis")
    memory = {
        names: thesis.estimate_rows_memory_mb(names)
        for names in (("vqa",), ("vqa", "gqa"), ("gqa-pairs",), ())
    }
    assert memory == {("vqa",): 0, ("vqa", "gqa"): 4000, ("gqa-pairs",): 4000, (): 0}


def test_a_job_requests_memory_for_every_model_that_it_loads_once():
    thesis = plan_of("thesis")
    helper, tested = "llama2-13b-chat", thesis.list_testing_models("gpt2")
    assert tested == ["gpt2", helper]
    assert thesis.list_testing_models(helper) == [helper]
    parameters = {name: thesis.models[name].parameters for name in tested}
    # Single and half precision.
    weights_mb = (4 * parameters["gpt2"] + 2 * parameters[helper]) / 1e6
    assert thesis.models.estimate_memory_mb(*tested) == pytest.approx(
        8000 + 1.2 * weights_mb, abs=1
    )
    assert (
        thesis.models.estimate_gpu_gb(*tested)
        == thesis.models.estimate_gpu_gb("gpt2") + 40
    )
    assert thesis.models.estimate_gpu_gb(helper, helper) == 40


def test_a_job_requests_the_gpus_of_its_largest_model_and_no_more_than_the_run_has():
    models = plan_of("thesis").models
    assert models.count_gpus([], 2) == 0
    assert models.count_gpus(["gpt2"], 1) == 1
    assert models.count_gpus(["falcon-40b", "llama2-13b-chat"], 2) == 2
    assert models.count_gpus(["falcon-40b"], None) == 2
    expected = r"models\.falcon-40b\.gpus: more GPUs than the run has \(got --resources gpu=1, expected at least 2 "
    with pytest.raises(UserError, match=expected):
        models.count_gpus(["llama2-13b-chat", "falcon-40b"], 1)


def test_models_in_four_bits_say_what_to_install(monkeypatch):
    thesis = plan_of("thesis")
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    line = thesis.describe_missing_packages()["bitsandbytes"]
    assert line.startswith("llava-next-vicuna: four_bit needs the package bitsandbytes")
    assert line.endswith("pip install -c constraints.txt -e '.[gpu]'")
    assert plan_of("scenes").describe_missing_packages() == {}
    monkeypatch.setattr("importlib.util.find_spec", lambda package: package)
    assert thesis.describe_missing_packages() == {}


def test_files_of_runs_are_one_for_each_model_and_group(texts):
    runs = [Run("smollm2-135m-instruct", name) for name in ("e-snli", "comve")]
    assert len({texts.group_of[run.dataset] for run in runs}) == 1
    group = texts.group_of["comve"]
    assert texts.list_run_files("tests", runs) == [("smollm2-135m-instruct", group)]
    # answers to text tasks lie next to the scores of the group's pairs
    assert texts.list_run_files("evaluation", runs) == [
        ("smollm2-135m-instruct", f"{group}.tasks")
    ]


def test_a_model_is_run_only_on_the_groups_that_the_study_names():
    study = read_yaml(CONFIG / "thesis.yaml")
    plan = plan_of("thesis")
    for model, groups in study["evaluation"]["only"].items():
        if model not in plan.skipped:
            assert {
                plan.group_of[run.dataset] for run in plan.scored if run.model == model
            } <= set(groups)


def test_a_question_set_without_a_group_must_not_have_the_name_of_another_group():
    study = read_yaml(CONFIG / "thesis.yaml")
    groups = {**study["groups"], "vqa": ["gqa"], "gqa": ["gqa-balanced"]}
    with pytest.raises(
        UserError,
        match=r"groups\.vqa: the question set answering\.vqa has the same name",
    ):
        plan_of("thesis", groups=groups)


def test_every_model_of_the_thesis_is_run():
    plan = plan_of("thesis")
    assert list(plan.skipped) == ["cv-probes"]
    study = read_study(read_yaml(CONFIG / "thesis.yaml"))
    probed = {
        model for model, groups in study.evaluation.only.items() if groups == ["probes"]
    }
    assert {run.model for run in plan.scored} == set(study.evaluation.models) - probed


def test_vilbert_waits_for_its_detector_and_the_configuration_next_to_it():
    folder = "resources/weights/web/dl.fbaipublicfiles.com/vilbert-multi-task"
    models = plan_of("thesis").models
    assert set(models.list_files("vilbert")) == {
        *(
            f"{folder}/{name}"
            for name in (
                "pretrained_model.bin",
                "detectron_model.pth",
                "detectron_config.yaml",
            )
        ),
        models.borrowed_tokenizer,
    }


def test_every_run_is_in_one_part_with_models_of_one_kind(scenes):
    parts = scenes.scored_parts
    assert sum(len(runs) for runs in parts.values()) == len(scenes.scored)
    for part, runs in parts.items():
        assert {scenes.get_table_kind(run.model) for run in runs} == {
            part.partition(".")[0]
        }


@pytest.fixture(scope="module")
def recorded() -> Plan:
    return plan_of("recorded")


def test_models_of_the_hub_are_fetched_once_and_only_those_that_jobs_load():
    thesis = plan_of("thesis")
    gpt2 = "resources/weights/cached/openai-community/gpt2@607a30d783dfa663caf39e06633721c8d4cfcd7e"
    assert thesis.models.list_weight_files("gpt2") == [gpt2]
    assert gpt2 in thesis.models.fetched
    assert {
        "gpt2",
        "llama2-13b-chat",
        "spanbert",
        "gruen-cola",
        "lxmert",
        "bakllava",
    } <= set(thesis.loaded_models)
    bert = "resources/weights/cached/google-bert/bert-base-uncased@86b5e0934494bd15c9632b12f734a8a67f723594"
    # A tokenizer is borrowed by local rules as well.
    for name in (
        "lxmert",
        "visualbert",
        "vilbert",
        "albef-mscoco",
    ):
        assert bert in thesis.models.list_files(name)
    assert bert not in thesis.models.list_files("clip-vit-base-patch32", "bakllava")
    assert bert in thesis.models.fetched
    commit = "0" * 40
    detector = {"detector": "org/detector", "detector_revision": commit}
    own = {"kind": "albef", "weights": "org/albef/mscoco.pth", "revision": commit}
    study = read_yaml(CONFIG / "texts.yaml")
    models = Models.from_study(
        read_study(
            {**study, "models": {**study["models"], "own": own, "lxmert": detector}}
        )
    )
    copies = {
        f"resources/weights/cached/{path}@{commit}"
        for path in ("org/albef/mscoco.pth", "org/detector")
    }
    assert copies <= {*models.list_files("own", "lxmert")} & models.fetched
    skipped = plan_of("thesis", skipped={"lxmert": "no", "bakllava": "no"})
    assert not {"lxmert", "bakllava"} & set(skipped.loaded_models)


def test_fetched_tokenizers_do_not_change_the_files_of_a_model(tmp_path, monkeypatch):
    models = plan_of("thesis").models
    monkeypatch.chdir(tmp_path)
    before = models.list_files("lxmert-gqa")
    assert models.borrowed_tokenizer in before
    folder = Path(models["lxmert-gqa"].weights)
    folder.mkdir(parents=True)
    (folder / "vocab.txt").touch()
    assert models.list_files("lxmert-gqa") == before


def test_a_recorded_model_has_runs_and_files_but_no_jobs_and_no_weights(recorded):
    runs = [Run("mistral-7b-chat", "comve"), Run("mistral-7b-chat", "e-snli")]
    assert (
        recorded.decoded
        == recorded.tested
        == recorded.explained
        == recorded.scored
        == runs
    )
    assert recorded.language_models == recorded.run_decoders == []
    assert recorded.scored_parts == {"language.tasks": runs}
    assert recorded.list_run_files("evaluation", runs) == [("mistral-7b-chat", "tasks")]
    assert recorded.get_run_file("evaluation", runs[0]) == (
        "results/recorded/evaluation/mistral-7b-chat/tasks.parquet"
    )
    assert recorded.models.list_weight_files("mistral-7b-chat") == []
    assert not recorded.models.fetched
    assert recorded.models["mistral-7b-chat"].revision == "not recorded"


def add_recorded(study: str, **changes: object) -> Plan:
    """A study with recorded runs of a VL decoder that the registry does not know."""
    content = read_yaml(CONFIG / f"{study}.yaml")
    source = {"format": "recorded-runs", "files": {"existence": {"path": "runs.jsonl"}}}
    content["sources"]["elsewhere"] = source
    content["models"]["mine"] = {"kind": "vision", "recorded": "elsewhere"}
    content["evaluation"]["models"] += ["mine"]
    return build_plan(read_study({**content, **changes}))


def test_recorded_runs_join_a_data_set_of_other_models():
    plan = add_recorded("scenes")
    (run,) = [run for run in plan.scored if run.model == "mine"]
    assert run == Run("mine", "existence")
    assert plan.datasets["existence"].form == "pairs"
    assert plan.list_images_for("mine", ["existence"]) == []
    assert "mine" not in plan.vl_decoders


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"models": {"x": {"recorded": "nothing"}}},
            "models.x.recorded: no source is called 'nothing'",
        ),
        (
            {"models": {"x": {"recorded": "run", "kind": "clip"}}},
            "models.x.recorded: wrong kind of model (got clip",
        ),
        (
            {"attribution": {"models": ["mistral-7b-chat"], "groups": ["tasks"]}},
            "attribution.models: 'mistral-7b-chat' is recorded",
        ),
    ],
)
def test_recorded_models_that_cannot_be_are_refused(changes, message):
    content = read_yaml(CONFIG / "recorded.yaml")
    content["sources"]["run"] = content["sources"].pop("mistral-run")
    content["models"]["mistral-7b-chat"]["recorded"] = "run"
    models = {**content["models"], **changes.pop("models", {})}
    attribution = changes.get("attribution")
    if attribution:
        changes = {
            "attribution": {
                **attribution,
                "sample": None,
                "estimator": "auto",
                "evaluations": 10,
            }
        }
    with pytest.raises(UserError) as refused:
        build_plan(read_study({**content, "models": models, **changes}))
    assert message in str(refused.value)


def test_a_recorded_model_takes_no_source_of_another_format():
    content = read_yaml(CONFIG / "texts.yaml")
    content["models"]["x"] = {"recorded": "comve"}
    with pytest.raises(
        UserError, match=r"models\.x\.recorded: comve is in format comve"
    ):
        read_study(content)


@pytest.mark.parametrize(
    ("most", "cores", "gpus", "threads"),
    [
        (8, 8, 2, 3),
        (8, 8, None, 8),
        (8, 2, None, 2),
        (8, 2, 4, 1),
        (1, 8, 2, 1),
        (4, 64, 2, 4),
        (8, None, 2, 8),
    ],
)
def test_jobs_with_models_leave_cores_for_all_gpus_and_for_other_jobs(
    most, cores, gpus, threads
):
    assert share_threads(most, cores, gpus) == threads


SERVED = {
    "kind": "text",
    "server": "http://localhost:1/v1",
    "weights": "m",
    "revision": "1",
}


@pytest.mark.parametrize(
    ("study", "changes", "fault"),
    [
        (
            "scenes",
            {"evaluation.models": ["x"], "evaluation.only": {}},
            r"models: perplexities of existence",
        ),
        (
            "scenes",
            {"filters.ranking": "x"},
            r"filters\.ranking: 'x' is behind a server",
        ),
        (
            "texts",
            {"consistency.models": ["x"], "consistency.cc_shap.value": "logit"},
            r"consistency\.cc_shap\.value: a server returns no logits \(models\.x\.server\)",
        ),
        (
            "scenes",
            {
                "attribution.models": ["x"],
                "profiles": ["published"],
                "models.x.kind": "vision",
            },
            r"profiles: published explains logits, which the server of x does not return",
        ),
    ],
)
def test_what_no_server_gives_is_refused(study, changes, fault):
    content = read_yaml(CONFIG / f"{study}.yaml")
    content["models"]["x"] = dict(SERVED)
    for key, value in changes.items():
        *parents, last = key.split(".")
        entry = content
        for parent in parents:
            entry = entry.setdefault(parent, {})
        entry[last] = value
    with pytest.raises(UserError, match=fault):
        build_plan(read_study(content))
