"""Stage reporting: figures, each drawn from the numbers of tables or from rows that a stage left."""

CHARTED = [
    (chart.id, profile)
    for chart in CHARTS
    if set(chart.tables) & set(ASKED_TABLES)
    for profile in study("profiles")
]
CHART_FILES = {
    form: [
        f"<results>/reporting/figures/{name}-{profile}.{form}"
        for name, profile in CHARTED
    ]
    for form in ("svg", "png")
}
DRAWN_ENCODERS = (
    [name for name in ATTRIBUTING if MODELS[name].kind != "ruler"]
    if study("reporting.samples")
    else []
)
SAMPLES = expand(
    "<results>/reporting/figures/samples/{encoder}", encoder=DRAWN_ENCODERS
)


rule charts:
    """The charts of the study's tables, in each profile."""
    input:
        tables=TABLES,
        style="workflow/waltz/reporting/waltz.mplstyle",
    output:
        svg=[
            report(
                file,
                category="Figures",
                labels={"figure": name, "profile": profile},
            )
            for file, (name, profile) in zip(CHART_FILES["svg"], CHARTED)
        ],
        png=CHART_FILES["png"],
    log:
        "<logs>/charts.log",
    conda:
        "../envs/report.yaml"
    params:
        charts=CHARTED,
        code=code("charts.py"),
    script:
        "../workflow/scripts/charts.py"


rule sample_figures:
    """A few attributed items of one encoder, captions beside foils."""
    input:
        rows=lambda wildcards: [
            f"<results>/attribution/{wildcards.encoder}/{dataset}.parquet"
            for dataset in taken_by(wildcards.encoder, ATTRIBUTED)
        ],
        images=lambda wildcards: images_where(
            DRAWN_ENCODERS, taken_by(wildcards.encoder, ATTRIBUTED)
        ),
        weights=lambda wildcards: files_of(wildcards.encoder),
        style="workflow/waltz/reporting/waltz.mplstyle",
    output:
        figures=report(
            directory("<results>/reporting/figures/samples/{encoder}"),
            patterns=["{name}.svg"],
            category="Samples",
            labels={"figure": "thesis 4.1, B.1-B.10", "sample": "{name}"},
        ),
    log:
        "<logs>/sample_figures/{encoder}.log",
    conda:
        "../envs/models.yaml"
    params:
        model=lambda wildcards: decisive(MODELS[wildcards.encoder]),
        profiles=study("profiles"),
        most=study("reporting.samples"),
        seed=study("seed"),
        code=lambda wildcards: code(
            "samples.py", encoder_module(MODELS[wildcards.encoder].kind)
        ),
    script:
        "../workflow/scripts/samples.py"
