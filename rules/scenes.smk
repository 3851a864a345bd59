"""The embedded world: raw data that the package draws, and the small models that know it."""


rule draw_scenes:
    """Images and annotation files of a seed's scenes, in the formats of the real data sets."""
    output:
        files=DRAWN_FILES,
        images=[directory(path) for path in DRAWN_IMAGES],
        sheet=report(
            "<results>/reporting/figures/scenes.png",
            category="Figures",
            labels={"figure": "24 scenes with true and false statements"},
        ),
    log:
        "<logs>/draw_scenes.log",
    conda:
        "../envs/scenes.yaml"
    params:
        scenes=study("scenes"),
        code=code("draw_scenes.py"),
    script:
        "../workflow/scripts/draw_scenes.py"
