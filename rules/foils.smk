"""Stage foils: every candidate of every instrument, before any filter."""

from waltz.instruments import SWIG_TABLES

RELEASED = [
    name for name, entry in DATASETS.items() if entry["format"] == "valse-release"
]


rule candidates:
    """All candidates of one instrument from the rows of its source."""
    input:
        rows=lambda wildcards: f"<results>/sources/{INSTRUMENTS[wildcards.instrument]['source']}.parquet",
        weights=lambda wildcards: weight_files_of(proposing_model(wildcards.instrument)),
        tables=lambda wildcards: REGISTRY[wildcards.instrument].tables,
    output:
        candidates="<results>/foils/{instrument}.parquet",
        run="<results>/foils/{instrument}.run.json",
    log:
        "<logs>/candidates/{instrument}.log",
    conda:
        "../envs/foils.yaml"
    resources:
        gpu=lambda wildcards: int(bool(proposing_model(wildcards.instrument))),
        mem_mb=6000,
    params:
        settings=lambda wildcards: {
            key: INSTRUMENTS[wildcards.instrument][key]
            for key in ("splits", "most_tokens")
            if key in INSTRUMENTS[wildcards.instrument]
        },
        model=lambda wildcards: [
            select_decisive_fields(MODELS[name])
            for name in proposing_model(wildcards.instrument)
        ],
        proposals=lambda wildcards: (
            {key: study(f"proposals.{key}") for key in ("longest", "best")}
            if proposing_model(wildcards.instrument)
            else {}
        ),
        code=lambda wildcards: code(
            "candidates.py", REGISTRY[wildcards.instrument].maker
        ),
    script:
        "../workflow/scripts/candidates.py"


rule reproduce:
    """Released items made again by the foiling functions from their inputs, and why others are not."""
    input:
        unpack(released_files),
        tables=SWIG_TABLES,
    output:
        shares="<results>/foils/fidelity/shares.parquet",
        misses="<results>/foils/fidelity/misses.parquet",
        table=report(
            "<results>/reporting/construction_fidelity.md",
            caption="../workflow/report/fidelity.rst",
            category="Tables",
            labels={
                "table": "construction fidelity",
                "what": "released items made again by the foiling functions",
            },
        ),
    log:
        "<logs>/reproduce.log",
    conda:
        "../envs/foils.yaml"
    params:
        released=RELEASED,
        code=code("reproduce.py"),
    script:
        "../workflow/scripts/reproduce.py"


rule construction_fidelity:
    """How close the foiling functions come to the released benchmark."""
    input:
        rules.reproduce.output.table,
