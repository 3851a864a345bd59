"""Stage reporting: tables and figures, ours beside the published ones."""

TABLES = expand(
    "<results>/reporting/tables/{table}.csv", table=study("reporting.tables")
)
DRAWN = [(dataset, "lexical", "words exchanged") for dataset in SETS]
DRAWN += [(dataset, "pronoun", "pronouns") for dataset in study("reporting.pronouns")]
FIGURES = {
    form: [
        f"<results>/reporting/figures/{kind}-{dataset}.{form}"
        for dataset, kind, _ in DRAWN
    ]
    for form in ("svg", "png")
}
SHEET = ["<results>/reporting/figures/scenes.png"] if "scenes" in config else []
BUILT = (
    {
        "funnel": "<results>/benchmark/funnel.parquet",
        "statistics": "<results>/benchmark/validation/statistics.parquet",
        "printed": "resources/published/thesis-A.2.csv",
    }
    if INSTRUMENTS
    else {}
)
if INSTRUMENTS and study("benchmark.oracle"):
    BUILT["oracle"] = "<results>/benchmark/oracle.parquet"
if INSTRUMENTS and study("benchmark.audit"):
    BUILT["audit"] = "<results>/benchmark/audit.parquet"
if PROBES:
    BUILT["probes"] = "<results>/benchmark/cv-probes.parquet"
    BUILT["probe_captions"] = "<results>/benchmark/cv-probes/captions.parquet"
if PROBES and study("benchmark.oracle"):
    BUILT["probe_oracle"] = "<results>/benchmark/cv-probes/oracle.parquet"
if ENCODERS or ANSWERERS or DECODED:
    BUILT["metrics"] = "<results>/evaluation/metrics.parquet"
    BUILT["comparisons"] = "<results>/evaluation/comparisons.parquet"
if ATTRIBUTIONS:
    BUILT["shares"] = "<results>/attribution/shares.parquet"
    BUILT["attributed"] = "<results>/attribution/metrics.parquet"
RUNS = [(model, dataset) for model, dataset in WITH_SCORES if model in READERS]


rule table_A_2:
    """Validation statistics beside the printed ones."""
    input:
        statistics=rules.validation_statistics.output.statistics,
        printed="resources/published/thesis-A.2.csv",
    output:
        csv=report(
            "<results>/reporting/tables/thesis-A.2.csv",
            category="Tables",
            labels={"table": "thesis A.2", "what": "validation"},
        ),
        md="<results>/reporting/tables/thesis-A.2.md",
        tex="<results>/reporting/tables/thesis-A.2.tex",
    log:
        "<logs>/table_A_2.log",
    conda:
        "../envs/report.yaml"
    params:
        profiles=study("profiles"),
        confidence=study("reporting.confidence"),
        code=code("validation_table.py"),
    script:
        "../workflow/scripts/validation_table.py"


rule table_3_4:
    """Pairwise ranking accuracy beside the printed one."""
    input:
        scores=[
            f"<results>/evaluation/{model}/{dataset}.parquet"
            for model, dataset in RUNS
        ],
        printed="resources/published/thesis-3.4.csv",
    output:
        csv=report(
            "<results>/reporting/tables/thesis-3.4.csv",
            category="Tables",
            labels={"table": "thesis 3.4", "what": "pairwise accuracy"},
        ),
        md="<results>/reporting/tables/thesis-3.4.md",
        tex="<results>/reporting/tables/thesis-3.4.tex",
    log:
        "<logs>/table_3_4.log",
    conda:
        "../envs/report.yaml"
    params:
        runs=RUNS,
        models=SCORING_MODELS,
        profiles=study("profiles"),
        resamples=study("reporting.resamples"),
        confidence=study("reporting.confidence"),
        seed=study("seed"),
        code=code("pairwise_table.py"),
    script:
        "../workflow/scripts/pairwise_table.py"


rule frequency_figures:
    """Words exchanged and pronouns, before and after validation (thesis figures 3.1, A.1, A.3, A.4)."""
    input:
        frequencies=rules.validation_statistics.output.frequencies,
        style="workflow/waltz/reporting/waltz.mplstyle",
    output:
        svg=report(
            FIGURES["svg"],
            category="Figures",
            labels={"figure": "thesis 3.1, A.1, A.3, A.4"},
        ),
        png=FIGURES["png"],
    log:
        "<logs>/frequency_figures.log",
    conda:
        "../envs/report.yaml"
    params:
        figures=DRAWN,
        code=code("figures.py"),
    script:
        "../workflow/scripts/figures.py"


rule page:
    """One page that links all tables and figures."""
    input:
        **BUILT,
        template="workflow/waltz/reporting/templates/index.html",
        tables=TABLES,
        figures=FIGURES["svg"] + SHEET,
        pngs=FIGURES["png"],
        records=[
            f"<results>/evaluation/{model}/{dataset}.run.json"
            for model, dataset in [*WITH_SCORES, *ANSWERED, *DECODED]
        ],
        read=expand("<results>/sources/{source}.run.json", source=RAW_SOURCES),
        faults=expand("<results>/sources/images/{source}.parquet", source=WITH_IMAGES),
        scores=["<results>/scene_models/scores.parquet"] if MEASURED else [],
    output:
        page="<results>/reporting/index.html",
    log:
        "<logs>/page.log",
    conda:
        "../envs/report.yaml"
    params:
        study=study("study"),
        sources=study("sources"),
        code=code("page.py"),
    script:
        "../workflow/scripts/page.py"
