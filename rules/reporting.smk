"""Stage reporting: tables and figures, ours beside the published ones."""

from waltz.reporting.declarations import TABLES as DECLARED

ASKED_TABLES = study("reporting.tables")
ASKED_TABLES = list(DECLARED) if ASKED_TABLES == "all" else list(ASKED_TABLES)
TABLES = expand("<results>/reporting/tables/{table}.csv", table=ASKED_TABLES)
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
SCORED_RUNS = [*WITH_SCORES, *ANSWERED, *DECODED]


MEASURES = {
    "evaluation": ["<results>/evaluation/metrics.parquet"] if SCORING_MODELS else [],
    "attribution": (["<results>/attribution/metrics.parquet"] if ATTRIBUTIONS else []),
    "shares": ["<results>/attribution/shares.parquet"] if ATTRIBUTIONS else [],
    "consistency": ["<results>/consistency/metrics.parquet"] if TESTED else [],
    "correlations": ["<results>/consistency/correlations.parquet"] if TESTED else [],
    "validation": (
        ["<results>/benchmark/validation/statistics.parquet"] if SETS else []
    ),
    "probes": ["<results>/benchmark/cv-probes.parquet"] if PROBES else [],
    "captions": ["<results>/benchmark/cv-probes/captions.parquet"] if PROBES else [],
}
"""Files of numbers by the kinds that declarations name; those that the study has."""
RECORDS = {
    "evaluation": [
        f"<results>/evaluation/{model}/{dataset}.run.json"
        for model, dataset in SCORED_RUNS
    ],
    "shares": [
        f"<results>/attribution/{model}/{dataset}.run.json"
        for model, dataset in ATTRIBUTIONS
    ],
    "consistency": [
        f"<results>/consistency/{model}/{kind}/{dataset}.run.json"
        for kind in ("tests", *(["cc-shap"] if study("consistency.cc_shap") else []))
        for model, dataset in TESTED
    ],
}
"""Run records of the models behind some kinds."""
RUNS_OF = {"attribution": "shares", "correlations": "consistency"}
"""Kinds that the same runs are behind."""


TABLE_FILES = {
    table: {
        kind: files
        for kind in declaration.files
        if (
            files := (
                [
                    f"<results>/benchmark/{name}.parquet"
                    for name in declaration.samples
                    if name in SETS
                ]
                if kind == "samples"
                else MEASURES[kind]
            )
        )
    }
    for table, declaration in DECLARED.items()
}
"""The files behind each table, by kind."""
BEHIND = {
    table: [
        f"<results>/reporting/runs/{kind}.json"
        for kind in sorted({RUNS_OF.get(kind, kind) for kind in kinds} & RECORDS.keys())
    ]
    for table, kinds in TABLE_FILES.items()
}
"""What was found out about the runs behind each table."""
MODEL_KINDS = {
    name: {"text": "language", "vision": "vision"}.get(MODELS[name].kind, "encoder")
    for name in dict.fromkeys([*SCORING_MODELS, *EXPLAINING])
}
"""What each model of the study is to the tables."""


rule runs:
    """Whether the runs behind numbers belong together: profiles, dtypes, data."""
    input:
        records=lambda wildcards: RECORDS[wildcards.behind],
    output:
        runs="<results>/reporting/runs/{behind}.json",
    log:
        "<logs>/runs/{behind}.log",
    wildcard_constraints:
        behind="|".join(RECORDS),
    conda:
        "../envs/report.yaml"
    params:
        profiles=study("profiles"),
        code=code("runs.py"),
    script:
        "../workflow/scripts/runs.py"


for TABLE, DECLARATION in DECLARED.items():

    rule:
        name:
            DECLARATION.target
        input:
            **TABLE_FILES[TABLE],
            runs=BEHIND[TABLE],
            printed=[
                f"resources/published/{number}.csv" for number in DECLARATION.published
            ],
        output:
            csv=report(
                f"<results>/reporting/tables/{TABLE}.csv",
                caption="../workflow/report/table.rst",
                category="Tables",
                labels={"table": TABLE.replace("-", " "), "what": DECLARATION.title},
            ),
            md=f"<results>/reporting/tables/{TABLE}.md",
            tex=f"<results>/reporting/tables/{TABLE}.tex",
            html=f"<results>/reporting/tables/{TABLE}.html",
        log:
            f"<logs>/{DECLARATION.target}.log",
        conda:
            "../envs/report.yaml"
        params:
            table=TABLE,
            title=DECLARATION.title,
            kinds=list(TABLE_FILES[TABLE]),
            models=MODEL_KINDS,
            compared=not any("drawn" in entry for entry in FILES.values()),
            built={
                name: {
                    "format": RAW_SOURCES[entry["source"]]["format"],
                    "filters": entry["filters"],
                }
                for name, entry in INSTRUMENTS.items()
            },
            datasets=SETS,
            left_out=LEFT_OUT,
            profiles=study("profiles"),
            confidence=study("reporting.confidence"),
            code=code("table.py"),
        script:
            "../workflow/scripts/table.py"


rule reproduction:
    """All cells of all tables, and how many of the printed ones are reproduced."""
    input:
        tables=TABLES,
    output:
        cells="<results>/reporting/tables/reproduction.csv",
        counts=report(
            "<results>/reporting/tables/reproduction_summary.csv",
            caption="../workflow/report/reproduction.rst",
            category="Tables",
            labels={"table": "all", "what": "how much of print is reproduced"},
        ),
        md="<results>/reporting/tables/reproduction_summary.md",
    log:
        "<logs>/reproduction.log",
    conda:
        "../envs/report.yaml"
    params:
        code=code("reproduction.py"),
    script:
        "../workflow/scripts/reproduction.py"


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
