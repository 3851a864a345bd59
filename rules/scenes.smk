"""The embedded world: raw data that the package draws, and the small models that know it."""

SCENES = settings("scenes")
# Committed models that are measured on scenes which they have not seen.
MEASURED = STUDY.scenes.models if STUDY.scenes else []
# Tables that describe the embedded world.
WORLD = ["scenes/kinds.yaml", "scenes/verbs.yaml"]


rule draw_scenes:
    """Images and annotation files of a seed's scenes, in the formats of the real data sets."""
    output:
        files=COMPLETE_PLAN.raw.drawn_files,
        images=[directory(path) for path in COMPLETE_PLAN.raw.drawn_images],
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
        world=tables(WORLD),
        scenes=SCENES,
        code=code("draw_scenes.py"),
    script:
        "../workflow/scripts/draw_scenes.py"


rule scene_model_scores:
    """Scores of the committed scene models on held-out scenes of the study's seed."""
    input:
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
        world=tables(WORLD),
        models=MEASURED,
        seed=STUDY.scenes.seed if STUDY.scenes else None,
        held_out=STUDY.scenes.held_out if STUDY.scenes else None,
        code=code("scene_model_scores.py"),
    script:
        "../workflow/scripts/scene_model_scores.py"
