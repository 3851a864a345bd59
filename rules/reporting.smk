"""Stage reporting: tables and figures, ours beside the published ones."""

from waltz.reporting.tables.declarations import TABLES as DECLARED

ASKED_TABLES = study("reporting.tables")
ASKED_TABLES = list(DECLARED) if ASKED_TABLES == "all" else list(ASKED_TABLES)
TABLES = expand("<results>/reporting/tables/{table}.csv", table=ASKED_TABLES)
DRAWN = [(dataset, "lexical", "words exchanged") for dataset in SETS]
DRAWN += [(dataset, "pronoun", "pronouns") for dataset in study("reporting.pronouns")]
FREQUENCIES = "thesis 3.1, A.1, A.3, A.4"
"""Printed figures of word frequencies; no text says which of them shows which instrument."""
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
if TESTED and CC_EDITED:
    BUILT["edits"] = "<results>/consistency/metrics.parquet"
SCORED_RUNS = [*WITH_SCORES, *ANSWERED, *DECODED]


PARTS = {
    "evaluation": ("<results>/evaluation/metrics", SCORED_PARTS),
    "attribution": ("<results>/attribution/metrics", ATTRIBUTED_PARTS),
    "shares": ("<results>/attribution/shares", ATTRIBUTED_PARTS),
    "consistency": ("<results>/consistency/metrics", TESTED_PARTS),
    "correlations": ("<results>/consistency/correlations", TESTED_PARTS),
}
"""Kinds of files of numbers that come in parts: their folder, and the runs of each part."""
MEASURES = {
    "validation": (
        ["<results>/benchmark/validation/statistics.parquet"] if SETS else []
    ),
    "probes": ["<results>/benchmark/cv-probes.parquet"] if PROBES else [],
    "captions": ["<results>/benchmark/cv-probes/captions.parquet"] if PROBES else [],
}
"""Other files of numbers by kind; those that the study has."""
RUNS_OF = {"attribution": "shares", "correlations": "consistency"}
"""Kinds that the same runs are behind."""


TABLE_PARTS = {
    table: {
        kind: shown_in(declaration, kind) for kind in declaration.files if kind in PARTS
    }
    for table, declaration in DECLARED.items()
}
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
                else (
                    [
                        f"{PARTS[kind][0]}/{part}.parquet"
                        for part in TABLE_PARTS[table][kind]
                    ]
                    if kind in PARTS
                    else MEASURES[kind]
                )
            )
        )
    }
    for table, declaration in DECLARED.items()
}
"""The files behind each table, by kind."""
BEHIND = {
    table: sorted(
        {
            f"<results>/reporting/runs/{RUNS_OF.get(kind, kind)}/{part}.json"
            for kind, parts in kinds.items()
            for part in parts
        }
    )
    for table, kinds in TABLE_PARTS.items()
}
"""What was found out about the runs behind each table."""


RECORDS = {
    "evaluation": records_of("evaluation", SCORED_RUNS),
    "shares": records_of("shares", ATTRIBUTIONS),
    "consistency": records_of("consistency", TESTED),
}
"""Run records of all models behind some kinds."""
MODEL_KINDS = {
    name: {"text": "language", "vision": "vision"}.get(MODELS[name].kind, "encoder")
    for name in dict.fromkeys([*SCORING_MODELS, *EXPLAINING])
}
"""What each model of the study is to the tables."""


rule runs:
    """Whether the runs behind numbers belong together: profiles, dtypes, data."""
    input:
        records=lambda wildcards: records_of(
            wildcards.behind, PARTS[wildcards.behind][1][wildcards.part]
        ),
    output:
        runs="<results>/reporting/runs/{behind}/{part}.json",
    log:
        "<logs>/runs/{behind}/{part}.log",
    wildcard_constraints:
        behind="|".join(RECORDS),
        part="[^/]+",
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
        style="workflow/waltz/reporting/figures/waltz.mplstyle",
    output:
        svg=[
            report(
                file,
                caption="../workflow/report/frequencies.rst",
                category="Figures",
                labels={"figure": FREQUENCIES, "data set": dataset, "what": title},
            )
            for file, (dataset, _, title) in zip(FIGURES["svg"], DRAWN)
        ],
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
