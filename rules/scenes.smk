"""The embedded world: raw data that the package draws, and the small models that know it."""

from waltz.scenes.training import MODELS as SCENE_MODELS
from waltz.scenes.training import STARTS

MEASURED = STUDY.scenes.models if STUDY.scenes else []
WORLD = [locate_in_package(f"scenes/{table}.yaml") for table in ("kinds", "verbs")]


wildcard_constraints:
    scene_model="|".join(SCENE_MODELS),


rule draw_scenes:
    """Images and annotation files of a seed's scenes, in the formats of the real data sets."""
    input:
        world=WORLD,
    output:
        files=WHOLE_PLAN.raw.drawn_files,
        images=[directory(path) for path in WHOLE_PLAN.raw.drawn_images],
        sheet=report(
            "<results>/reporting/figures/scenes.png",
            caption="../workflow/report/scenes.rst",
            category="Figures",
            labels={
                "figure": "scenes",
                "what": "24 scenes with true and false statements",
            },
        ),
    log:
        "<logs>/draw_scenes.log",
    conda:
        "../envs/environment.yaml"
    params:
        scenes=PLAN.scenes,
        code=code("draw_scenes.py"),
    script:
        "../workflow/scripts/draw_scenes.py"


rule train_scene_model:
    """One small model from scratch, with its card."""
    input:
        world=WORLD,
        start=lambda w: [
            f"<results>/scene_models/{start}"
            for model, start in STARTS.items()
            if model == w.scene_model
        ],
    output:
        model=directory("<results>/scene_models/{scene_model}"),
    log:
        "<logs>/train_scene_model/{scene_model}.log",
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=6000,
    params:
        seed=PLAN.scenes.get("seed"),
        held_out=PLAN.scenes.get("held_out"),
        code=code("train_scene_model.py"),
    script:
        "../workflow/scripts/train_scene_model.py"


use rule train_scene_model as train_scene_model_first with:
    wildcard_constraints:
        scene_model="clip|llava",
    priority: 1  # the longest chain: begun last, it would leave a core idle


ruleorder: train_scene_model_first > train_scene_model


rule scene_models:
    """All of them; copy the folders to resources/scenes/models to use them."""
    input:
        expand("<results>/scene_models/{scene_model}", scene_model=SCENE_MODELS),


rule scene_model_scores:
    """What the committed scene models can do on held-out scenes of the study's seed."""
    input:
        world=WORLD,
        weights=[
            find_in_checkout(f"resources/scenes/models/{model}/model.safetensors")
            for model in MEASURED
        ],
    output:
        scores="<results>/scene_models/scores.parquet",
    log:
        "<logs>/scene_model_scores.log",
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    params:
        models=MEASURED,
        seed=PLAN.scenes.get("seed"),
        held_out=PLAN.scenes.get("held_out"),
        code=code("scene_model_scores.py"),
    script:
        "../workflow/scripts/scene_model_scores.py"
