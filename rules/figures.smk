"""Stage reporting: figures, each drawn from the numbers of tables or from rows that a stage left."""

CHARTED = [
    (chart.id, profile)
    for chart in CHARTS
    if set(chart.tables) & set(study("reporting.tables"))
    for profile in study("profiles")
]
CHART_FILES = {
    form: [
        f"<results>/reporting/figures/{name}-{profile}.{form}"
        for name, profile in CHARTED
    ]
    for form in ("svg", "png")
}


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
