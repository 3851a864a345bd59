"""Studies that score models on foils, as `waltz eval` writes them."""

from pathlib import Path

import pytest
import yaml

from stand_ins.yaml_files import read_yaml
from waltz.core.errors import UserError
from waltz.model_registry import ModelSpec, load_registry, load_scene_models
from waltz.plan.build_plan import build_plan
from waltz.plan.foil_study import (
    PairFile,
    build_study,
    choose_dataset_name,
    choose_model_names,
    describe_pairs,
    extend_built,
    render_study,
    select_release,
    write_study,
)
from waltz.plan.read_study import merge_study, read_study

ROOT = Path(__file__).parents[2]
CLIP = ModelSpec("models/clip", "clip", "models/clip", "local", masked_token="!")
HUB = ModelSpec("org/CLIP_Large", "clip", "org/CLIP_Large", "a" * 40)
RULER = {"ruler-50": load_registry()["ruler-50"]}
PAIRS = describe_pairs({"zoo": PairFile("zoo.csv", "photos")})


def read_config(name):
    return read_yaml(ROOT / "config" / f"{name}.yaml")


def test_a_study_scores_each_model_and_attributes_those_that_read_images(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").symlink_to(ROOT / "resources/scenes/models")
    models = {"clip": CLIP, "gpt2": load_registry()["gpt2"]}
    study = build_study(
        "eval-x", models, PAIRS, profile="equations", limit=7, attribute=True
    )
    plan = build_plan(read_study(study))
    assert sorted(plan.scored) == [("clip", "zoo"), ("gpt2", "zoo")]
    assert plan.attributed == [("clip", "zoo")]
    assert (plan.study.evaluation.sample, plan.study.attribution.sample) == (7, 7)
    assert study["models"] == {
        "clip": {"kind": "clip", "weights": "models/clip", "masked_token": "!"},
        "gpt2": {},
    }


def test_at_most_a_hundred_items_are_attributed_and_none_if_nobody_asked():
    study = build_study(
        "eval-x", {"a": HUB}, PAIRS, profile="equations", limit=700, attribute=True
    )
    assert (study["evaluation"]["sample"], study["attribution"]["sample"]) == (700, 100)
    assert "attribution" not in build_study(
        "eval-x", {"a": HUB}, PAIRS, profile="equations"
    )


def test_the_release_is_that_of_the_study_valse():
    study = read_config("valse")
    data = select_release(study, "photos")
    assert data["sources"].keys() == {"valse"}
    assert data["sources"]["valse"]["images"] == {"path": "photos"}
    assert data["groups"]["foils"] == study["groups"]["valse"]
    plan = build_plan(read_study(build_study("e", RULER, data, profile="equations")))
    assert plan.list_image_files(["foil-it"]) == ["photos"]
    assert "images" not in select_release(study, None)["sources"]["valse"]


def test_the_world_is_that_of_the_study_scenes_without_what_no_foil_needs():
    study = read_config("scenes")
    changes = build_study("e", RULER, extend_built(study), profile="equations")
    plan = build_plan(read_study(merge_study(changes, ROOT / "config")))
    assert list(plan.study.instruments) == list(study["instruments"])
    assert [run.model for run in plan.scored] == ["ruler-50"] * len(
        study["instruments"]
    )
    assert not plan.construction.audit_models
    assert plan.study.cv_probes is None
    assert not [*plan.attributed, *plan.decoded, *plan.tested]
    assert plan.study.scenes.count == study["scenes"]["count"]


def test_attribution_on_the_world_is_that_of_other_data():
    attributed = build_study("e", RULER, PAIRS, profile="equations", attribute=True)[
        "attribution"
    ]
    changes = build_study(
        "e",
        RULER,
        extend_built(read_config("scenes")),
        profile="equations",
        attribute=True,
    )
    study = read_study(merge_study(changes, ROOT / "config"))
    assert study.attribution.model_dump(exclude_defaults=True) == {
        **attributed,
        "groups": ["pairs"],
    }


def test_models_are_named_after_their_folders_and_never_like_others():
    ruler = load_registry()["ruler-50"]
    taken = ModelSpec("x", "clip", "/data/a/ruler-50", "local")
    deeper = ModelSpec("y", "clip", "/data/b/ruler-50", "local")
    names = choose_model_names([ruler, taken, deeper, HUB, CLIP], used_names=["clip"])
    assert list(names) == [
        "ruler-50",
        "a-ruler-50",
        "b-ruler-50",
        "clip-large",
        "models-clip",
    ]
    assert list(choose_model_names([ModelSpec("z", "text", "gpt2", "local")])) == [
        "own-gpt2"
    ]
    with pytest.raises(UserError, match="--model ruler-50: is named twice"):
        choose_model_names([ruler, ruler])


def test_a_model_of_the_scenes_keeps_its_name_and_prompts(monkeypatch):
    monkeypatch.chdir(ROOT)
    spec = load_scene_models()["scenes-llava"]
    models = choose_model_names([spec], ["scenes-llava", "scenes-clip"])
    assert list(models) == ["scenes-llava"]
    study = build_study("e", models, PAIRS, profile="equations")
    assert study["models"]["scenes-llava"] == {
        "kind": "vision",
        "weights": spec.weights,
        "prompts": "scenes.yaml",
    }


@pytest.mark.parametrize(
    "origin",
    [
        {"weights": "runs/last.ckpt", "base": "models/clip"},
        {"weights": "qwen", "server": "http://localhost:1/v1", "tokenizer": "q.gguf"},
    ],
)
def test_the_study_says_where_all_parts_of_a_model_are(origin):
    spec = ModelSpec("mine", kind="clip", revision="local", **origin)
    study = build_study("e", {"mine": spec}, PAIRS, profile="equations")
    assert study["models"]["mine"] == {"kind": "clip", **origin}


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("My Zoo.v2.csv", "my-zoo-v2"),
        ("relations.json", "own-relations"),
        ("ü.csv", "pairs"),
    ],
)
def test_a_file_is_named_unlike_the_data_sets_of_the_papers(file, name):
    assert choose_dataset_name(Path(file)) == name


def render(limit=None, model=HUB, pairs=PAIRS):
    return render_study(
        build_study("e", {"a": model}, pairs, profile="equations", limit=limit),
        "waltz eval",
    )


def test_a_study_is_written_once_and_replaced_if_only_its_limits_changed(tmp_path):
    file = tmp_path / "e.yaml"
    assert write_study(file, render()) == "written"
    assert yaml.safe_load(file.read_text())["evaluation"]["sample"] is None
    assert write_study(file, render()) == "unchanged"
    assert write_study(file, render(limit=3)) == "replaced"
    assert yaml.safe_load(file.read_text())["evaluation"]["sample"] == 3


def test_models_are_added_to_a_study_and_omitted_but_not_exchanged(tmp_path):
    file = tmp_path / "e.yaml"
    one = {"study": "e", "models": {}}
    two = {"study": "e", "models": {"a": {"weights": "x"}}}
    assert write_study(file, render_study(one, "waltz build")) == "written"
    assert write_study(file, render_study(two, "waltz build")) == "replaced"
    assert write_study(file, render_study(one, "waltz build")) == "replaced"
    assert write_study(file, render_study(two, "waltz build")) == "replaced"
    other = {"study": "e", "models": {"a": {"weights": "y"}, "b": {}}}
    with pytest.raises(UserError, match="holds other models"):
        write_study(file, render_study(other, "waltz build"))


@pytest.mark.parametrize(
    ("other", "fault"),
    [
        (render(model=CLIP), "holds other models"),
        (
            render(pairs=describe_pairs({"zoo": PairFile("other.csv", "photos")})),
            "holds other sources",
        ),
        (render().replace("seed: 1520", "seed: 7"), "was edited"),
        ("study: mine\n", "was edited"),
    ],
)
def test_another_study_is_never_replaced(tmp_path, other, fault):
    file = tmp_path / "e.yaml"
    file.write_text(other)
    with pytest.raises(UserError, match=fault):
        write_study(file, render())
    assert file.read_text() == other


def test_a_folder_in_place_of_a_file_of_pairs_is_refused_before_any_job(tmp_path):
    data = describe_pairs({"zoo": PairFile(str(tmp_path), "photos")})
    study = build_study("e", RULER, data, profile="equations")
    with pytest.raises(UserError, match=r"sources\.\w+\.files\.zoo\.path: is a folder"):
        build_plan(read_study(study))
