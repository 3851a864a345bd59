"""Stage reporting: the one page that shows all."""

FIGURE_TITLES = {
    f"{kind}-{dataset}": (
        f"{dataset}: {title} in captions and in foils, before and after validation",
        "Words exchanged in captions and foils",
        FREQUENCIES,
    )
    for dataset, kind, title in DRAWN
}
FIGURE_TITLES |= {
    f"{chart.id}-{profile}": (
        f"{chart.title}, profile {profile}",
        "Charts of tables",
        chart.figures,
    )
    for chart in CHARTS
    for profile in study("profiles")
}
FIGURE_TITLES["scenes"] = (
    "24 drawn scenes, each with a caption, true statements in green and false ones in red",
    "Scenes",
)
SHOWN_RUNS = {
    kind: [run for run in runs if run[1] not in TASKS]
    for kind, runs in {
        "evaluation": [*WITH_SCORES, *ANSWERED, *DECODED],
        "attribution": ATTRIBUTIONS,
        "consistency": TESTED,
        "cc_shap": TESTED if study("consistency.cc_shap") else [],
    }.items()
}
SHOWN_SETS = list(
    dict.fromkeys(name for runs in SHOWN_RUNS.values() for _, name in runs)
)
SHOWN_PAIRS = [name for name in SHOWN_SETS if name not in ASKED]
SHOWN_ASKED = {name: ASKED[name] for name in SHOWN_SETS if name in ASKED}
PICTURED = [name for name in SHOWN_SETS if has_images(name)]


rule report:
    """What was run, how much of print it gives again, and all tables, figures and samples."""
    input:
        **BUILT,
        templates=expand(
            "workflow/waltz/reporting/page/templates/{file}",
            file=["report.html", "parts.html", "report.css", "report.js"],
        ),
        cells=TABLES,
        figures=[*FIGURES["svg"], *CHART_FILES["svg"], *SHEET],
        pngs=[*FIGURES["png"], *CHART_FILES["png"]],
        samples=list(SAMPLE_FOLDERS),
        records=[
            *expand("<results>/sources/{source}.run.json", source=RAW_SOURCES),
            *sum(RECORDS.values(), []),
        ],
        faults=expand("<results>/sources/images/{source}.parquet", source=WITH_IMAGES),
        scores=["<results>/scene_models/scores.parquet"] if MEASURED else [],
        pairs=expand("<results>/benchmark/{name}.parquet", name=SHOWN_PAIRS),
        questions=[posed_file(name) for name in SHOWN_ASKED],
        images=[images_of(name) for name in PICTURED],
        evaluation=[
            f"<results>/evaluation/{model}/{dataset}.parquet"
            for model, dataset in SHOWN_RUNS["evaluation"]
        ],
        attribution=[
            f"<results>/attribution/{model}/{dataset}.parquet"
            for model, dataset in SHOWN_RUNS["attribution"]
        ],
        consistency=[
            f"<results>/consistency/{model}/tests/{dataset}.parquet"
            for model, dataset in SHOWN_RUNS["consistency"]
        ],
        cc_shap=[
            f"<results>/consistency/{model}/cc-shap/{dataset}.parquet"
            for model, dataset in SHOWN_RUNS["cc_shap"]
        ],
    output:
        page="<results>/reporting/report.html",
    log:
        "<logs>/report.log",
    conda:
        "../envs/report.yaml"
    params:
        study=study("study"),
        sources=study("sources"),
        locked=LOCKED,
        lock=LOCK_FILE,
        figures=FIGURE_TITLES,
        sample_figures=[
            (f"Samples: {SHOWS[shows]}", PRINTED_SAMPLES[shows, kind])
            for shows, kind in SAMPLE_FOLDERS.values()
        ],
        datasets=SHOWN_PAIRS,
        asked=SHOWN_ASKED,
        pictured=PICTURED,
        samples=study("reporting.browsed") or 12,
        seed=study("seed"),
        evaluation_runs=SHOWN_RUNS["evaluation"],
        attribution_runs=SHOWN_RUNS["attribution"],
        consistency_runs=SHOWN_RUNS["consistency"],
        cc_shap_runs=SHOWN_RUNS["cc_shap"],
        code=code("report.py"),
    script:
        "../workflow/scripts/report.py"
