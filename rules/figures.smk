"""Stage reporting: figures, each drawn from the numbers of tables or from rows that a stage left."""

PRINTED_FIGURES = {chart.id: chart for chart in CHARTS}
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
DRAWN_DECODERS = {
    kind: models
    for kind in ("text", "vision")
    if study("reporting.explained")
    and (models := [name for name in EXPLAINING if MODELS[name].kind == kind])
    and posed_among(models[0], sum(EXPLAINED.values(), []))
}
DRAWN_SETS = {
    kind: posed_among(models[0], list(dict.fromkeys(sum(EXPLAINED.values(), []))))
    for kind, models in DRAWN_DECODERS.items()
}
SHOWS = {
    "samples": "contributions to scores of captions and foils",
    "explanations": "contributions to answers and explanations",
    "edits": "contributions before and after an edit",
    "traces": "traces of self-consistency tests",
}
"""What the folders of sample figures show."""
PRINTED_SAMPLES = {
    ("samples", "encoder"): "thesis 4.1, B.1 to B.10",
    ("explanations", "text"): "thesis C.5, C.6, C.9, C.10",
    ("explanations", "vision"): "thesis 5.6, C.26, C.28, C.30, C.32",
    ("edits", "text"): "thesis 5.3, 5.4, C.13 to C.22",
    ("edits", "vision"): "as thesis 5.3 and 5.4",
    ("traces", "text"): "thesis C.7, C.8, C.11, C.12, C.23, C.24",
    ("traces", "vision"): "thesis C.27, C.29, C.31, C.33",
}
"""Printed figures and tables of single samples, by folder and kind of model."""
EXPLAINED_DECODERS = {
    (kind, edited): found
    for kind, models in DRAWN_DECODERS.items()
    for edited in (False, True)
    if (
        found := [
            name
            for name in models
            if name in CC_MODELS and (name in CC_EDITED) == edited
        ]
    )
}
"""Decoders whose answers and explanations are drawn, by kind and whether after edits as well."""
SAMPLE_FOLDERS = {
    f"<results>/reporting/figures/{shows}/{model}": (shows, kind)
    for shows, kind, models in [
        ("samples", "encoder", DRAWN_ENCODERS),
        *(("traces", kind, models) for kind, models in DRAWN_DECODERS.items()),
        *(
            (shows, kind, models)
            for (kind, edited), models in EXPLAINED_DECODERS.items()
            for shows in ["explanations", *(["edits"] if edited else [])]
        ),
    ]
    for model in models
}
"""Folders of sample figures, each with what it shows of which kind of model."""


rule charts:
    """The charts of the study's tables, in each profile."""
    input:
        tables=TABLES,
        style="workflow/waltz/reporting/figures/waltz.mplstyle",
    output:
        svg=[
            report(
                file,
                caption="../workflow/report/chart.rst",
                category="Figures",
                labels={
                    "figure": PRINTED_FIGURES[name].figures,
                    "profile": profile,
                    "what": PRINTED_FIGURES[name].title,
                },
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
        style="workflow/waltz/reporting/figures/waltz.mplstyle",
    output:
        figures=report(
            directory("<results>/reporting/figures/samples/{encoder}"),
            patterns=["{name}.svg"],
            caption="../workflow/report/sample.rst",
            category="Samples",
            subcategory="{encoder}",
            labels={
                "figure": PRINTED_SAMPLES["samples", "encoder"],
                "what": SHOWS["samples"],
                "sample": "{name}",
            },
        ),
    log:
        "<logs>/sample_figures/{encoder}.log",
    conda:
        "../envs/models.yaml"
    params:
        model=lambda wildcards: select_decisive_fields(MODELS[wildcards.encoder]),
        profiles=study("profiles"),
        most=study("reporting.samples"),
        seed=study("seed"),
        code=lambda wildcards: code(
            "samples.py", get_encoder_module(MODELS[wildcards.encoder].kind)
        ),
    script:
        "../workflow/scripts/samples.py"


for (KIND, AFTER_EDITS), NAMED in EXPLAINED_DECODERS.items():
    NAMES = DRAWN_SETS[KIND]
    CALLED = "images" if KIND == "vision" else "texts"

    rule:
        name:
            f"edit_figures_{CALLED}" if AFTER_EDITS else f"explanation_figures_{CALLED}"
        input:
            **{
                part.replace("-", "_"): expand(
                    f"<results>/consistency/{{{{decoder}}}}/{part}/{{dataset}}.parquet",
                    dataset=NAMES,
                )
                for part in [*CC_PARTS, *(EDIT_PARTS if AFTER_EDITS else [])]
            },
            images=images_where(KIND == "vision", NAMES),
            weights=lambda wildcards: weight_files(MODELS[wildcards.decoder]),
            style="workflow/waltz/reporting/figures/waltz.mplstyle",
        output:
            **{
                shows: report(
                    directory(f"<results>/reporting/figures/{shows}/{{decoder}}"),
                    patterns=["{name}.svg"],
                    caption="../workflow/report/sample.rst",
                    category="Samples",
                    subcategory="{decoder}",
                    labels={
                        "figure": PRINTED_SAMPLES[shows, KIND],
                        "what": SHOWS[shows],
                        "sample": "{name}",
                    },
                )
                for shows in ["explanations", *(["edits"] if AFTER_EDITS else [])]
            },
        log:
            f"<logs>/explanation_figures/{{decoder}}.{CALLED}.log",
        wildcard_constraints:
            decoder="|".join(map(re.escape, NAMED)),
        conda:
            "../envs/models.yaml"
        threads: THREADS
        resources:
            gpu=int(KIND == "vision"),
            mem_mb=8000,
        params:
            model=lambda wildcards: select_decisive_fields(MODELS[wildcards.decoder]),
            datasets=NAMES,
            profiles=study("profiles"),
            most=study("reporting.explained"),
            seed=study("seed"),
            code=code("explanation_figures.py"),
        script:
            "../workflow/scripts/explanation_figures.py"


for KIND, NAMED in DRAWN_DECODERS.items():
    NAMES = DRAWN_SETS[KIND]
    CALLED = "images" if KIND == "vision" else "texts"

    rule:
        name:
            f"trace_figures_{CALLED}"
        input:
            tests=expand(
                "<results>/consistency/{{decoder}}/tests/{dataset}.parquet",
                dataset=NAMES,
            ),
            images=images_where(KIND == "vision", NAMES),
            style="workflow/waltz/reporting/figures/waltz.mplstyle",
        output:
            traces=report(
                directory("<results>/reporting/figures/traces/{decoder}"),
                patterns=["{name}.svg"],
                caption="../workflow/report/sample.rst",
                category="Samples",
                subcategory="{decoder}",
                labels={
                    "figure": PRINTED_SAMPLES["traces", KIND],
                    "what": SHOWS["traces"],
                    "sample": "{name}",
                },
            ),
        log:
            f"<logs>/trace_figures/{{decoder}}.{CALLED}.log",
        wildcard_constraints:
            decoder="|".join(map(re.escape, NAMED)),
        conda:
            "../envs/report.yaml"
        params:
            model="{decoder}",
            datasets=NAMES,
            profiles=study("profiles"),
            most=study("reporting.explained"),
            seed=study("seed"),
            code=code("trace_figures.py"),
        script:
            "../workflow/scripts/trace_figures.py"
